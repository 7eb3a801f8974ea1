"""The database of a study: DuckDB in a scratch directory, with a limit of memory; what does not fit goes to disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.env.extras import require
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import TooLarge
from holdfast.index.ranks.ranks import hide_progress_bar

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

MEMORY_BYTES = 256 << 20
_ROWS_PER_INSERT = 32_768
_INCOMING = "incoming"


class StudyDatabase:
    """One database, gone when it is closed. One thread at a time."""

    def __init__(self) -> None:
        require("search")
        import duckdb

        self._scratch = ScratchDirectory("study")
        self.directory = self._scratch.path
        config: dict[str, Any] = {
            "memory_limit": f"{MEMORY_BYTES}B",
            "temp_directory": str(self.directory / "spill"),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self._connection: DuckDBPyConnection = duckdb.connect(str(self.directory / "study.duckdb"), config=config)
        hide_progress_bar(self._connection)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Runs a statement. Raises TooLarge if the disk does not suffice."""
        with _translated():
            self._connection.execute(statement, list(parameters)).fetchall()

    def rows(self, query: str) -> pyarrow.Table:
        """The rows of a query."""
        with _translated():
            return self._connection.sql(query).to_arrow_table()

    def batches(self, query: str, rows: int = 65_536) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a query, some at a time. No other statement meanwhile."""
        with _translated():
            yield from self._connection.sql(query).to_arrow_reader(rows)

    def value(self, statement: str) -> Any:
        """The only value of a query."""
        with _translated():
            return self._connection.execute(statement).fetchall()[0][0]

    def insert(self, table: str, rows: pyarrow.Table | pyarrow.RecordBatch) -> None:
        """Appends rows to a table whose columns are in the same order."""
        with _translated():
            self._connection.register(_INCOMING, rows)
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM {_INCOMING}").fetchall()
            self._connection.unregister(_INCOMING)

    def write(self, query: str, path: Path) -> None:
        """Writes the rows of a query to a Parquet file."""
        with _translated():
            self._connection.execute(
                f"COPY ({query}) TO {_literal(path)} (FORMAT parquet, COMPRESSION zstd)"
            ).fetchall()

    def read(self, table: str, paths: Sequence[Path]) -> None:
        """Creates a view of the rows of some Parquet files of the same columns."""
        names = ", ".join(map(_literal, paths))
        self.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{names}])")

    def close(self) -> None:
        """Removes it. Idempotent."""
        self._connection.close()
        self._scratch.remove()

    def __enter__(self) -> StudyDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RowBuffer:
    """Rows on their way into a table, gathered until there are enough for one insert."""

    def __init__(self, database: StudyDatabase, table: str, columns: Sequence[tuple[str, str]]) -> None:
        """Creates the table; `columns` are names and DuckDB types."""
        self._database = database
        self._table = table
        self._names = [name for name, _ in columns]
        self._rows: list[tuple[Any, ...]] = []
        database.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns)})")

    def add(self, row: tuple[Any, ...]) -> None:
        """One value for each column."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS_PER_INSERT:
            self.flush()

    def flush(self) -> None:
        """All rows are in the table on return."""
        import pyarrow

        if self._rows:
            columns = [pyarrow.array(column) for column in zip(*self._rows, strict=True)]
            self._database.insert(self._table, pyarrow.table(columns, self._names))
            self._rows = []


@contextmanager
def _translated() -> Iterator[None]:
    """Translates DuckDB's errors about memory and disk into TooLarge."""
    import duckdb

    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        message = " ".join(str(error).split())
        raise TooLarge(f"the study needs more room in the temporary directory: {message}") from None


def _literal(path: Path) -> str:
    text = str(path).replace("'", "''")
    return f"'{text}'"
