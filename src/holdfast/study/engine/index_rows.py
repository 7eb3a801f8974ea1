"""Rows of the index's tables that readers see: without removed records, and without those of a state to come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.archive import Archive
from holdfast.errors import DamagedIndex
from holdfast.index.index import IndexView
from holdfast.index.state import REPAIR
from holdfast.index.words import beyond

if TYPE_CHECKING:
    import pyarrow

_ROWS = 65_536


def shown_rows(archive: Archive, table: str, columns: list[str]) -> Iterator[pyarrow.Table]:
    """Some rows at a time, `number` and these columns. Raises IndexNotFound, or DamagedIndex if a file is gone.

    A file may be merged into another meanwhile: FileNotFoundError, and the caller begins again.
    """
    import pyarrow
    from pyarrow import parquet

    view = archive.index.view()
    for path in view.table_files(table):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=["number", *columns]):
                yield _shown(pyarrow.table(batch), view)


def missing_file(error: FileNotFoundError) -> DamagedIndex:
    """What it means if a file is missing again and again."""
    return DamagedIndex(f"'{error.filename}' is missing; {REPAIR}")


def _shown(rows: pyarrow.Table, view: IndexView) -> pyarrow.Table:
    import pyarrow
    from pyarrow import compute

    removed = [number for each in view.removed if (number := view.state.number_of(each)) is not None]
    if removed:
        gone = pyarrow.array(removed, pyarrow.uint64())
        rows = rows.filter(compute.invert(compute.is_in(rows["number"], value_set=gone)))
    for first, last in beyond(view.reached) if view.reached != view.state else ():
        below = compute.less(rows["number"], pyarrow.scalar(first, pyarrow.uint64()))
        above = compute.greater(rows["number"], pyarrow.scalar(last, pyarrow.uint64()))
        rows = rows.filter(compute.or_(below, above))
    return rows
