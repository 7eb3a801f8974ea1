"""The tables of the index, as Parquet files.

    captures    one row for each capture, in the order of their records
    links       one row for each link, in the order of the records that it is on
    backlinks   target and record of each link, in the order of targets: who links to a page

That order holds within a file. A file is written whole, made durable, and then listed in the state; it is never
changed. Many small files are merged into one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.env import Environment
from holdfast.errors import DamagedIndex
from holdfast.index import layout
from holdfast.index.state import REPAIR, TableFile
from holdfast.index.table_draft import TableDraft

if TYPE_CHECKING:
    import pyarrow

    from holdfast.index.backlinks import Numbers

MERGE_FILES_MIN = 8
MERGE_ROWS_MAX = 2_000_000  # of files that are merged at once; they pass through memory
_REPEATED = frozenset(("batch", "url", "timestamp", "kind"))
ORDER = {"captures": "number", "links": "number", "backlinks": "target_page"}


@cache
def table_schema(table: str) -> pyarrow.Schema:
    """Names and types of a table's columns."""
    import pyarrow

    text, number, whole = pyarrow.string(), pyarrow.uint64(), pyarrow.int64()
    moment = pyarrow.timestamp("s", tz="UTC")
    columns = {
        "captures": [
            ("record", text),
            ("number", number),
            ("batch", text),
            ("serial", pyarrow.uint32()),
            ("page", number),
            ("page_id", text),
            ("urlkey", text),
            ("url", text),
            ("timestamp", text),
            ("date", moment),
            ("modified", moment),
            ("status", pyarrow.int16()),
            ("mime", text),
            ("type", text),
            ("size", whole),
            ("digest", text),
            ("contents", text),
            ("collection", text),
            ("host", text),
            ("domain", text),
            ("title", text),
            ("language", text),
            ("document_date", moment),
            ("filename", text),
            ("offset", whole),
            ("length", whole),
            ("original", text),
            ("failure", text),
        ],
        "links": [
            ("batch", text),
            ("serial", pyarrow.uint32()),
            ("number", number),
            ("page", number),
            ("url", text),
            ("timestamp", text),
            ("target", text),
            ("target_key", text),
            ("target_page", number),
            ("anchor", text),
            ("kind", text),
        ],
        "backlinks": [
            ("target_page", number),
            ("number", number),
        ],
    }
    return pyarrow.schema(columns[table])


@cache
def row_schema(table: str) -> pyarrow.Schema:
    """The columns as rows are handed over: what all links of a page have in common is said once."""
    import pyarrow

    said_once = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    columns = table_schema(table)
    if table != "links":
        return columns
    return pyarrow.schema([each.with_type(said_once) if each.name in _REPEATED else each for each in columns])


class TableWriter:
    """Writes files of one table in one directory. For the one process that writes the index."""

    def __init__(self, table: str, directory: Path, env: Environment) -> None:
        self.table = table
        self._directory = directory
        self._env = env

    def begin(self) -> TableDraft:
        """A file to which rows are added as they are handed over, in their order."""
        return TableDraft(row_schema(self.table))

    def keep(self, draft: TableDraft, number: int) -> TableFile:
        """Makes a draft a file of the table. Durable on return."""
        name = layout.table_file_name(self.table, number)
        path = self._directory / name
        content = draft.content()
        self._env.files.remove(path)  # of a writer that was killed
        file = self._env.files.open(path, writable=True, create=True)
        try:
            file.append(content)
            file.sync()
        finally:
            file.close()
        self._env.files.sync_directory(self._directory)
        return TableFile(name, draft.rows)

    def write(self, rows: Sequence[pyarrow.Table], number: int) -> TableFile:
        """A new file of these rows, which are put in order. Durable on return."""
        import pyarrow
        from pyarrow import compute

        schema = table_schema(self.table)  # Parquet has no seconds: what was read from it has milliseconds
        whole = pyarrow.concat_tables(rows).cast(schema).combine_chunks()  # of one piece, it is sorted in half the time
        draft = TableDraft(schema)
        draft.add(whole.take(compute.sort_indices(whole, [(ORDER[self.table], "ascending")])))
        return self.keep(draft, number)

    def merged(self, files: Sequence[TableFile], number: int) -> list[TableFile] | None:
        """The files with the small ones merged; None if that is not worth it."""
        few: list[TableFile] = []
        rows = 0
        for each in sorted(files, key=lambda file: file.rows):
            if rows + each.rows > MERGE_ROWS_MAX:
                break
            few.append(each)
            rows += each.rows
        if len(few) < MERGE_FILES_MIN:
            return None
        new = self.write([read_rows(self._directory / each.name) for each in few], number)
        return [*(each for each in files if each not in few), new]

    def without(self, file: TableFile, numbers: Collection[int], number: int) -> TableFile | None:
        """The file written anew without the rows of these records; itself if it has none, None if nothing is left."""
        import pyarrow
        from pyarrow import compute

        path = self._directory / file.name
        gone = pyarrow.array(sorted(numbers), pyarrow.uint64())
        if not compute.any(compute.is_in(read_rows(path, ["number"])["number"], value_set=gone)).as_py():
            return file
        rows = read_rows(path)
        kept = rows.filter(compute.invert(compute.is_in(rows["number"], value_set=gone)))
        return self.write([kept], number) if kept.num_rows else None


def read_rows(path: Path, columns: list[str] | None = None, *, verify: bool = False) -> pyarrow.Table:
    """All rows of a file; `verify` looks at its checksums. Raises DamagedIndex, or FileNotFoundError if it is gone."""
    from pyarrow import parquet

    with _translated(path):
        return parquet.read_table(path, columns=columns, partitioning=None, page_checksum_verification=verify)


def read_rows_of(path: Path, table: str, values: Numbers, columns: list[str]) -> pyarrow.Table:
    """The rows with these values, ascending, in the column that orders the table: few of the others are read.

    Raises as `read_rows` does.
    """
    import numpy as np
    import pyarrow
    from pyarrow import compute, parquet

    order = ORDER[table]
    with _translated(path), parquet.ParquetFile(path) as file:
        facts = file.metadata
        place = facts.schema.names.index(order)
        spans = [facts.row_group(group).column(place).statistics for group in range(facts.num_row_groups)]
        first = np.searchsorted(values, np.array([span.min for span in spans], np.uint64), side="left")
        end = np.searchsorted(values, np.array([span.max for span in spans], np.uint64), side="right")
        rows = file.read_row_groups(np.flatnonzero(first < end).tolist(), [order, *columns])
    return rows.filter(compute.is_in(rows[order], value_set=pyarrow.array(values))).select(columns)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """What Arrow cannot read becomes DamagedIndex."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise DamagedIndex(f"cannot read '{path}': {error}; {REPAIR}") from None
