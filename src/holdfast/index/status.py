"""What is in the index, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import IndexNotFound
from holdfast.index import layout
from holdfast.index.tables import read_rows
from holdfast.index.taking_out import deleted_documents

if TYPE_CHECKING:
    from holdfast.index.index import Index


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What `holdfast index status` tells."""

    generation: int
    captures: int
    documents: int
    links: int
    pending: int  # records that are not indexed yet
    removed_pending: int  # records that are not found any more, but are still in the files
    unpurged: int  # documents that are marked as deleted, and whose words tantivy has not dropped yet
    failed: dict[str, int]  # documents without their text, by reason
    batches: dict[str, int]  # the last serial of each that is indexed
    bytes: int


def status_of(index: Index) -> IndexStatus:
    """Of no index, that it has nothing. Raises DamagedIndex."""
    try:
        view = index.view()
    except IndexNotFound:
        return IndexStatus(0, 0, 0, 0, index.pending(), 0, 0, {}, {}, 0)
    from tantivy import Query

    failed: Counter[str] = Counter()
    for path in view.table_files("captures"):
        failed.update(read_rows(path, ["failure"])["failure"].drop_null().to_pylist())
    rows = {table: sum(each.rows for each in files) for table, files in view.state.tables.items()}
    return IndexStatus(
        view.state.generation,
        rows["captures"],
        view.searcher.search(view.restricted(Query.all_query()), limit=1).count,  # type: ignore[attr-defined]
        rows["links"],
        index.pending(),
        len(view.removed),
        deleted_documents(index.directory / layout.words_name(view.state.generation)),
        dict(failed),
        {name: end - 1 for name, end in view.state.batches},
        _bytes_below(index.directory),
    )


def _bytes_below(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # merged meanwhile
            continue
    return total
