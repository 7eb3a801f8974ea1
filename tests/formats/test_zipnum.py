"""ZipNum: every line is where the index says, whatever the size of a block."""

from __future__ import annotations

import gzip
import io
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.cdx.zipnum import ZipNumWriter, loc_line

keys = st.text("ab,)/", min_size=1, max_size=6)
lines_of = st.lists(st.tuples(keys, st.integers(1, 3)), max_size=30).map(
    lambda pairs: sorted(f"{key} {year} {{}}".encode() for key, year in pairs)
)


def write(directory: Path, lines: list[bytes], lines_per_block: int) -> Path:
    with (
        (directory / "a.cdx.gz").open("wb") as cdx,
        (directory / "a.idx").open("wb") as idx,
        ZipNumWriter(cdx, idx, "a.cdx.gz", lines_per_block) as writer,
    ):
        for line in lines:
            writer.add(line)
    return directory / "a.idx"


def blocks_of(index: Path) -> list[tuple[bytes, list[bytes]]]:
    """The first words and the lines of each member, by the plain index."""
    packed = index.with_suffix(".cdx.gz").read_bytes()
    rows = [line.split(b"\t") for line in index.read_bytes().splitlines()]
    return [
        (first, gzip.decompress(packed[int(offset) : int(offset) + int(length)]).splitlines())
        for first, _, offset, length, _ in rows
    ]


@given(lines=lines_of, lines_per_block=st.integers(1, 5))
def test_every_line_is_in_the_member_that_the_index_names(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], lines_per_block: int
) -> None:
    blocks = blocks_of(write(tmp_path_factory.mktemp("zipnum"), lines, lines_per_block))
    assert [line for _, block in blocks for line in block] == lines
    assert all(block[0].startswith(first + b" ") and len(block) <= lines_per_block for first, block in blocks)


def test_the_files_are_what_pywb_expects() -> None:
    cdx, idx = io.BytesIO(), io.BytesIO()
    writer = ZipNumWriter(cdx, idx, "main.cdx.gz", 2)
    for line in (b"com,a)/ 2020 {}", b"com,b)/ 2020 {}\n", b'com,c)/ 2020 {"a": "b c"}'):
        writer.add(line)
    writer.close()
    rows = [line.split(b"\t") for line in idx.getvalue().splitlines()]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        (b"com,a)/ 2020", b"main.cdx.gz", b"1"),
        (b"com,c)/ 2020", b"main.cdx.gz", b"2"),
    ]
    packed = cdx.getvalue()
    blocks = [gzip.decompress(packed[int(row[2]) : int(row[2]) + int(row[3])]) for row in rows]
    assert blocks == [b"com,a)/ 2020 {}\ncom,b)/ 2020 {}\n", b'com,c)/ 2020 {"a": "b c"}\n']
    assert loc_line("main.cdx.gz") == "main.cdx.gz\tmain.cdx.gz\n"


def test_the_index_of_a_wacz_package() -> None:
    cdx, idx = io.BytesIO(), io.BytesIO()
    with ZipNumWriter(cdx, idx, "index.cdx.gz", wacz=True) as writer:
        writer.add(b'com,a)/ 20200102030405 {"url": "http://a.com/"}')
    assert idx.getvalue().decode() == (
        '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n'
        f'com,a)/ 20200102030405 {{"offset": 0, "length": {len(cdx.getvalue())}, '
        f'"digest": "sha256:{sha256(cdx.getvalue()).hexdigest()}", "filename": "index.cdx.gz"}}\n'
    )
