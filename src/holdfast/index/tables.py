"""The tables of the index: Parquet files, written whole, merged, read.

    captures    one row for each capture, in the order of their records
    links       one row for each link, in the order of the records that it is on
    backlinks   target and record of each link, in the order of targets: who links to a page

That order holds within a file. A file is written whole, made durable, and then listed in the state; it is never
changed. Many small files are merged into one.

Until a commit, rows are kept only in their encoded form (`TableDraft`): plain, they would take ten times the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.env import Environment
from holdfast.errors import DamagedIndex
from holdfast.index import paths
from holdfast.index.state import REPAIR, TableFile

if TYPE_CHECKING:
    import pyarrow

    from holdfast.index.writer import Numbers


ROW_GROUP = 65_536  # rows at least, if there are as many; twice as many at most
_FRONT_CODED = frozenset(("target", "target_key"))  # most begin as the one before does
_DISTINCT = frozenset(("record", "number", "serial", "page", "target_page", "urlkey", "digest"))
_RANGED = frozenset(("number", "date", "status", "size", "target_page"))  # columns of which a range is looked for


class TableDraft:
    """Rows in the order in which they are added. For one thread at a time."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        from pyarrow import parquet

        self._sink = _Pieces()
        self._writer = parquet.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _DISTINCT | _FRONT_CODED],
            column_encoding={name: "DELTA_BYTE_ARRAY" for name in schema.names if name in _FRONT_CODED},
            store_schema=False,  # whoever reads it gets text, however it came
            write_page_checksum=True,
            write_statistics=[name for name in schema.names if name in _RANGED],
        )
        self._waiting: list[pyarrow.Table] = []
        self._waiting_rows = 0
        self.rows = 0

    def add(self, rows: pyarrow.Table) -> None:
        """What they consist of is not held for longer than until a row group is full."""
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP:
            self._encode()

    def content(self) -> list[bytes]:
        """The bytes of the file, in pieces. Nothing can be added any more."""
        self._encode()
        self._writer.close()
        return self._sink.pieces

    def _encode(self) -> None:
        import pyarrow

        if self._waiting_rows:
            rows = pyarrow.concat_tables(self._waiting).unify_dictionaries()
            self._writer.write_table(rows, row_group_size=2 * ROW_GROUP)
        self._waiting, self._waiting_rows = [], 0


class _Pieces:
    """A file that is written to, for Arrow. In one piece it would be moved each time that it outgrows its place."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """The pieces stay."""


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
        name = paths.table_file_name(self.table, number)
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
        """The file rewritten without the rows of these records; itself if it has none, None if nothing is left."""
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
