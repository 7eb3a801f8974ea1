"""The result of a statement, as Arrow, read on demand and once."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast import errors
from holdfast.config import QuerySettings
from holdfast.env.child_process import LITTLE_MEMORY, start_child
from holdfast.errors import HoldfastError, MalformedQuery
from holdfast.model import Coverage
from holdfast.query.sql.child import (
    MessageKind,
    SqlRequest,
    as_stream,
    read_message,
    too_long,
    too_much_memory,
    write_message,
)
from holdfast.query.sql.database import SqlSources
from holdfast.query.sql.statement import Statement

if TYPE_CHECKING:
    import pyarrow


class SqlResult:
    """Rows of a statement. It starts at once; reading to the end, or `close`, frees its process.

    The statement runs in its own process, so Ctrl-C always ends it. One thread at a time.
    """

    def __init__(
        self,
        statement: Statement,
        parameters: Sequence[Any],
        sources: SqlSources,
        contents: Iterator[pyarrow.RecordBatch],
        settings: QuerySettings,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`contents` are the rows of that table; `on_close` is called at the end.

        Raises MalformedQuery, Denied or TooLarge.
        """
        self.coverage: Coverage | None = None  # of a cluster
        self._settings = settings
        self._on_close = on_close
        self._scratch = Path(tempfile.gettempdir()) / f"holdfast-sql-{os.getpid()}-{os.urandom(6).hex()}"
        request = SqlRequest(statement, parameters, sources, settings, str(self._scratch))
        packed = _packed(request)
        self._is_closed = self._is_over = False
        self._process = start_child(
            "holdfast.query.sql.child", env=LITTLE_MEMORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._timer = threading.Timer(settings.sql_seconds_max, self._end_in_time)
        self._timer.daemon = True
        try:
            if settings.sql_seconds_max:
                self._timer.start()
            self._send(packed, contents)
            self.schema: pyarrow.Schema = self._take_schema()  # names and types of the columns
        except BaseException:
            self.close()
            raise

    def _end_in_time(self) -> None:
        self._is_over = True
        self._process.kill()

    def _send(self, packed: bytes, contents: Iterator[pyarrow.RecordBatch]) -> None:
        sink = self._process.stdin
        assert sink is not None
        with suppress(BrokenPipeError):  # its error is read next
            write_message(sink, MessageKind.REQUEST, packed)
            for batch in contents:
                write_message(sink, MessageKind.CONTENTS, as_stream(batch.schema, batch))
            write_message(sink, MessageKind.CONTENTS_END)

    def _take_schema(self) -> pyarrow.Schema:
        from pyarrow import ipc

        kind, body = self._receive()
        assert kind == MessageKind.SCHEMA, kind
        return ipc.open_stream(body).schema

    def _receive(self) -> tuple[bytes, memoryview]:
        """The next frame of the process. Raises the error it reports, or why it died."""
        source = self._process.stdout
        assert source is not None
        try:
            kind, body = read_message(source)
        except EOFError:
            raise self._died() from None
        if kind == MessageKind.FAILURE:
            name, message = json.loads(bytes(body))
            raise getattr(errors, name)(message)
        return kind, body

    def _died(self) -> HoldfastError:
        code = self._process.wait()
        if self._is_over:
            return too_long(self._settings)
        if code < 0:  # killed by the kernel, or DuckDB out of memory
            return too_much_memory(self._settings)
        return HoldfastError(f"the process that runs SQL ended by itself (exit {code}): run it again")

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows, in batches. Raises TooLarge beyond the limits of time and memory."""
        from pyarrow import ipc

        try:
            while not self._is_closed:
                kind, body = self._receive()
                if kind == MessageKind.END:
                    break
                yield from ipc.open_stream(body)
        finally:
            self.close()

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as an Arrow reader."""
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
        """Stops the statement if it still runs. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # unsent data is discarded
                pipe.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._on_close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _packed(request: SqlRequest) -> bytes:
    try:
        return pickle.dumps(request)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise MalformedQuery(f"a parameter that SQL does not know: {error}") from None
