"""The tables of the index: immutable Parquet files.

    captures    a row per capture, sorted by record
    links       a row per link, sorted by the record that has it
    backlinks   target and record of each link, sorted by target: who links to a page

Rows are sorted within a file. A file is written, synced, and then listed in the state. Small files are merged.

Until a commit, rows are kept encoded (`TableDraft`): plain, they would take ten times the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from holdfast.env import Environment
from holdfast.errors import DamagedIndex
from holdfast.index import paths
from holdfast.index.state import REPAIR, TableFile

if TYPE_CHECKING:
    import pyarrow

    from holdfast.index.build import Numbers


ROW_GROUP = 65_536  # rows, if there are enough; at most twice as many
_FRONT_CODED = frozenset(("target", "target_key"))  # most share a prefix with the one before
_DISTINCT = frozenset(("record", "number", "serial", "page", "target_page", "urlkey", "digest", "sketch"))
_RANGED = frozenset(("number", "date", "status", "size", "target_page"))  # columns searched by range


class TableDraft:
    """A file being encoded; rows keep the order in which they are added. For one thread at a time."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        from pyarrow import parquet

        self._sink = _Pieces()
        self._writer = parquet.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in _DISTINCT | _FRONT_CODED],
            column_encoding={name: "DELTA_BYTE_ARRAY" for name in schema.names if name in _FRONT_CODED},
            store_schema=False,  # readers get text, not dictionaries
            write_statistics=[name for name in schema.names if name in _RANGED],
        )
        self._waiting: list[pyarrow.Table] = []
        self._waiting_rows = 0
        self.rows = 0

    def add(self, rows: pyarrow.Table) -> None:
        """Holds the rows until a row group is full."""
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP:
            self._encode()

    def content(self) -> list[bytes]:
        """The bytes of the file, in pieces. Closes the draft."""
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
    """A file in memory, for Arrow. One growing buffer would be copied again and again."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """The pieces stay."""


MERGE_FILES_MIN = 8
MERGE_ROWS_MAX = 2_000_000  # merged at once, in memory
_REPEATED = frozenset(("batch", "url", "timestamp", "kind"))
ORDER = {"captures": "number", "links": "number", "backlinks": "target_page"}


@cache
def table_schema(table: str) -> pyarrow.Schema:
    """The columns of a table."""
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
            ("partition", pyarrow.uint16()),
            ("title", text),
            ("language", text),
            ("document_date", moment),
            ("sketch", number),
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
    """The columns of rows in transit: what all links of a page share is dictionary-encoded."""
    import pyarrow

    shared = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    columns = table_schema(table)
    if table != "links":
        return columns
    return pyarrow.schema([each.with_type(shared) if each.name in _REPEATED else each for each in columns])


class TableWriter:
    """Writes files of one table. For the index's only writer."""

    def __init__(self, table: str, directory: Path, env: Environment) -> None:
        self.table = table
        self._directory = directory
        self._env = env

    def begin(self) -> TableDraft:
        """A new file for rows in transit."""
        return TableDraft(row_schema(self.table))

    def keep(self, draft: TableDraft, number: int) -> TableFile:
        """Writes a draft to a file. Durable on return."""
        name = paths.table_file_name(self.table, number)
        path = self._directory / name
        content = draft.content()
        self._env.files.remove(path)  # left by a killed writer
        file = self._env.files.open(path, writable=True, create=True)
        try:
            file.append(content)
            file.sync()
        finally:
            file.close()
        self._env.files.sync_directory(self._directory)
        crc = 0
        for piece in content:
            crc = crc32(piece, crc)
        return TableFile(name, draft.rows, crc)

    def write(self, rows: Sequence[pyarrow.Table], number: int) -> TableFile:
        """Sorts rows and writes them to a file. Durable on return."""
        import pyarrow
        from pyarrow import compute

        schema = table_schema(self.table)  # Parquet has no seconds, only milliseconds
        whole = pyarrow.concat_tables(rows).cast(schema).combine_chunks()  # one chunk sorts in half the time
        draft = TableDraft(schema)
        draft.add(whole.take(compute.sort_indices(whole, [(ORDER[self.table], "ascending")])))
        return self.keep(draft, number)

    def merged(self, files: Sequence[TableFile], number: int) -> list[TableFile] | None:
        """The files with the small ones merged; None if there are too few."""
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
        """The file without the rows of these records; itself if it has none of them, None if it would be empty."""
        import pyarrow
        from pyarrow import compute

        path = self._directory / file.name
        gone = pyarrow.array(sorted(numbers), pyarrow.uint64())
        if not compute.any(compute.is_in(read_rows(path, ["number"])["number"], value_set=gone)).as_py():
            return file
        rows = read_rows(path)
        kept = rows.filter(compute.invert(compute.is_in(rows["number"], value_set=gone)))
        return self.write([kept], number) if kept.num_rows else None


def rows_in(paths: Sequence[Path]) -> int:
    """The rows of these files. Raises as `read_rows` does."""
    from pyarrow import parquet

    total = 0
    for path in paths:
        with _translated(path):
            total += parquet.read_metadata(path).num_rows
    return total


def numbers_of(column: pyarrow.ChunkedArray) -> Numbers:
    """A copy of a column of 64-bit numbers.

    Arrow's own conversions from and to numpy import pandas if it is installed, which takes longer than all the rest.
    """
    import numpy as np

    chunks = [chunk for chunk in column.chunks if len(chunk)]
    arrays = [np.frombuffer(each.buffers()[1], np.uint64, len(each), each.offset * 8) for each in chunks]
    return np.concatenate([np.empty(0, np.uint64), *arrays])


def read_rows(path: Path, columns: list[str] | None = None) -> pyarrow.Table:
    """All rows of a file. Raises DamagedIndex, or FileNotFoundError if it is gone."""
    from pyarrow import parquet

    with _translated(path):
        return parquet.read_table(path, columns=columns, partitioning=None)


def read_columns(table: str, files: Sequence[Path], columns: list[str]) -> pyarrow.Table:
    """These columns of all rows of a table. Raises as `read_rows` does."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([table_schema(table).field(name) for name in columns])
    found = [schema.empty_table()]
    for path in files:
        with _translated(path), parquet.ParquetFile(path) as file:
            found.append(file.read(columns).select(columns).cast(schema))
    return pyarrow.concat_tables(found)


def read_rows_of(path: Path, table: str, values: Numbers, columns: list[str]) -> pyarrow.Table:
    """The rows whose sort column has one of these values, given ascending. Reads only row groups that may have some.

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
    """Translates Arrow's read errors to DamagedIndex."""
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise DamagedIndex(f"cannot read '{path}': {error}; {REPAIR}") from None
