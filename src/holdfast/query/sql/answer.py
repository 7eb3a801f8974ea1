"""The answer to a statement, as Arrow, read as it is wanted and once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.config import QuerySettings
from holdfast.errors import TooLarge
from holdfast.query.sql.failures import told

if TYPE_CHECKING:
    import pyarrow
    from duckdb import DuckDBPyConnection

ROWS_PER_BATCH = 16_384


class SqlAnswer:
    """Rows of a statement. It begins to run at once; reading to the end, or `close`, gives back what it holds.

    DuckDB works in threads of its own, so Ctrl-C ends the waiting at once and then the work. For one thread at a time.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        scratch: Path,
        text: str,
        parameters: Sequence[Any],
        settings: QuerySettings,
    ) -> None:
        """Takes the connection and its scratch directory over. Raises MalformedQuery, Denied or TooLarge."""
        self._connection = connection
        self._scratch = scratch
        self._reader: pyarrow.RecordBatchReader | None = None
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "holdfast-sql")
        self._is_closed = False
        self._timer = threading.Timer(settings.sql_seconds_max, connection.interrupt)
        self._timer.daemon = True
        if settings.sql_seconds_max:
            self._timer.start()
        try:
            self._reader = self._wait_for(lambda: self._begun(text, parameters))
            self.schema: pyarrow.Schema = self._reader.schema  # names and types of the columns
        except BaseException:
            self.close()
            raise

    def _begun(self, text: str, parameters: Sequence[Any]) -> pyarrow.RecordBatchReader:
        relation = self._connection.sql(text, params=list(parameters) or None)
        return relation.to_arrow_reader(ROWS_PER_BATCH)

    def _wait_for(self, work: Any) -> Any:
        with told(self._settings):
            return self._thread.submit(work).result()

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, in batches. Raises TooLarge if they are more than `query.sql_rows_max`, or take too long."""
        rows, most = 0, self._settings.sql_rows_max
        try:
            while (batch := self._wait_for(self._next)) is not None:
                rows += batch.num_rows
                if most and rows > most:
                    raise TooLarge(f"SQL answers with more than {most} rows: add a LIMIT, or raise query.sql_rows_max")
                yield batch
        finally:
            self.close()

    def _next(self) -> pyarrow.RecordBatch | None:
        if self._reader is None:  # closed meanwhile
            return None
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows for whoever takes Arrow as it comes."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_batches(self.schema, self.batches())

    def table(self) -> pyarrow.Table:
        """All rows, in memory."""
        import pyarrow

        return pyarrow.Table.from_batches(list(self.batches()), self.schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def close(self) -> None:
        """Ends the statement if it still runs. Twice does no harm."""
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.cancel()
        self._connection.interrupt()
        self._thread.shutdown()  # waits for what it does
        self._reader = None  # which holds the database, too
        self._connection.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
