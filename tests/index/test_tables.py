"""Files of tables: what is added to them in parts, and what is read of them in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from holdfast.env import REAL
from holdfast.errors import DamagedIndex
from holdfast.index import tables
from holdfast.index.build import Backlinks
from holdfast.index.tables import TableWriter, read_rows, read_rows_of, row_schema, table_schema

PAGES = 40
LINKS = 5  # on each page


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 32)


def link(page: int, place: int) -> dict[str, Any]:
    target = (page * 7 + place) % 23
    return {
        "batch": f"b{page // 20}",
        "serial": page,
        "number": page,
        "page": 1 << 63 | page,
        "url": f"http://example.org/{page}",
        "timestamp": f"202601020304{page:02d}",
        "target": f"http://example.org/{target}",
        "target_key": f"org,example)/{target}",
        "target_page": 1 << 63 | target,
        "anchor": None if place else "words",
        "kind": "embed" if place % 2 else "link",
    }


ROWS = [link(page, place) for page in range(PAGES) for place in range(LINKS)]


def handed_over(first: int, end: int) -> pa.Table:
    return pa.Table.from_pylist(ROWS[first * LINKS : end * LINKS], row_schema("links"))


def written(directory: Path) -> Path:
    """The links, handed over three pages at a time."""
    writer = TableWriter("links", directory, REAL)
    draft = writer.begin()
    for first in range(0, PAGES, 3):
        draft.add(handed_over(first, first + 3))
    file = writer.keep(draft, 1)
    assert file.rows == len(ROWS)
    return directory / file.name


def test_rows_that_were_handed_over_in_parts_are_text_in_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = read_rows(path)
    assert found.to_pylist() == ROWS
    assert found.schema.equals(table_schema("links"))
    assert parquet.ParquetFile(path).metadata.num_row_groups > 3


def test_merged_files_are_in_order(tmp_path: Path) -> None:
    writer = TableWriter("links", tmp_path, REAL)
    files = [writer.write([handed_over(first, first + 5)], first + 1) for first in reversed(range(0, PAGES, 5))]
    merged = writer.merged(files, 99)
    assert merged is not None
    (file,) = merged
    assert read_rows(tmp_path / file.name).to_pylist() == ROWS


@pytest.mark.parametrize("asked", [[0], [39], [6, 7, 31], [5, 1000], [1000], [], list(range(PAGES))])
def test_rows_of_some_records(asked: list[int], tmp_path: Path) -> None:
    found = read_rows_of(written(tmp_path), "links", np.array(asked, np.uint64), ["target_page", "number"])
    assert found.to_pylist() == [
        {"target_page": row["target_page"], "number": row["number"]} for row in ROWS if row["number"] in asked
    ]


def test_few_rows_of_others_are_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    groups = parquet.ParquetFile(path).metadata
    place = groups.row_group(groups.num_row_groups - 1).column(2).data_page_offset
    content[place : place + 40] = bytes(40)  # numbers of the last records
    path.write_bytes(content)
    assert len(read_rows_of(path, "links", np.array([3], np.uint64), ["target_page"])) == LINKS
    with pytest.raises(DamagedIndex, match="holdfast index build"):
        read_rows_of(path, "links", np.array([39], np.uint64), ["target_page"])


def test_backlinks_tell_who_links_to_a_page(tmp_path: Path) -> None:
    backlinks, writer = Backlinks(), TableWriter("backlinks", tmp_path, REAL)
    assert backlinks.rows().num_rows == 0
    backlinks.add(handed_over(0, 25))
    backlinks.add(handed_over(25, 25))
    backlinks.add(handed_over(25, PAGES))
    draft = writer.begin()
    draft.add(backlinks.rows())
    path = tmp_path / writer.keep(draft, 1).name
    targets = read_rows(path)["target_page"].to_pylist()
    assert targets == sorted(row["target_page"] for row in ROWS)
    for target in range(24):
        page = 1 << 63 | target
        found = read_rows_of(path, "backlinks", np.array([page], np.uint64), ["number"])["number"].to_pylist()
        assert sorted(found) == [row["number"] for row in ROWS if row["target_page"] == page]
