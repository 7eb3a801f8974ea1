"""A file of a table that is being made: rows are encoded as they come, and only that form of them is kept.

Rows of captures and links that waited for a commit as they are would take ten times the memory, and memory that is
touched for the first time is dear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

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
