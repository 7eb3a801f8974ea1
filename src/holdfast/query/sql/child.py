"""The process that runs a statement.

DuckDB's memory limit covers sorts and aggregates, not the results of functions: `repeat('x', 4000000000)`. Nor
can such a function be interrupted. So each statement runs in its own process: the kernel limits its memory, and the
caller kills it on time-out. It exits when its caller does.

Each message is a frame (`env.child_process`): its first byte is the kind of the message, the rest the body.

| kind | direction | body                                                                                  |
|------|-----------|---------------------------------------------------------------------------------------|
| `Q`  | to it     | what to run, pickled: it comes from the caller's own process                          |
| `C`  | to it     | rows of the table `contents`, an Arrow stream of one batch                            |
| `X`  | to it     | no more rows of `contents`                                                            |
| `S`  | from it   | the schema of the result, an Arrow stream without rows                                |
| `B`  | from it   | some rows, an Arrow stream of one batch                                               |
| `E`  | from it   | the end of the result                                                                 |
| `F`  | from it   | JSON: the name of an error of `holdfast.errors`, and its message                      |
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow
from pyarrow import ipc

from holdfast.config import QuerySettings
from holdfast.env.child_process import frame_head, read_frame
from holdfast.errors import DamagedIndex, Denied, HoldfastError, MalformedQuery, TooLarge
from holdfast.index.state import REPAIR
from holdfast.query.sql.database import SqlSources, connected, make_tables
from holdfast.query.sql.statement import Statement

ROWS_PER_BATCH = 16_384
_BASE_BYTES = 512 << 20  # Python, Arrow and DuckDB before a statement, with room
_THREAD_BYTES = 32 << 20  # stack and buffers of each thread


@dataclass(frozen=True, slots=True)
class SqlRequest:
    statement: Statement
    parameters: Sequence[Any]
    sources: SqlSources
    settings: QuerySettings
    scratch: str  # directory for what does not fit into memory


def main() -> None:
    """Reads one statement from standard input and writes its rows to standard output."""
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # stray prints must not corrupt the frames
    request: SqlRequest = pickle.loads(read_message(source)[1])
    _limit(request.settings)
    try:
        _run(request, source, sink)
        write_message(sink, MessageKind.END)
    except HoldfastError as error:
        write_message(sink, MessageKind.FAILURE, json.dumps([type(error).__name__, str(error)]).encode())
    except (BrokenPipeError, EOFError):
        pass
    os._exit(0)  # skips needless clean-up


def _limit(settings: QuerySettings) -> None:
    threads = settings.sql_threads or os.cpu_count() or 1
    most = settings.sql_memory_bytes + _BASE_BYTES + threads * _THREAD_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(request: SqlRequest, source: IO[bytes], sink: IO[bytes]) -> None:
    settings = request.settings
    with translated_errors(settings):
        connection = connected(settings, request.scratch)
        make_tables(connection, request.sources, request.statement.tables, _contents(source))
        threading.Thread(target=_end_with_caller, daemon=True).start()
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        relation = connection.sql(request.statement.text, params=list(request.parameters) or None)
        reader = relation.to_arrow_reader(ROWS_PER_BATCH)
    write_message(sink, MessageKind.SCHEMA, as_stream(reader.schema))
    while (batch := _next(reader, settings)) is not None:
        write_message(sink, MessageKind.BATCH, as_stream(reader.schema, batch))


def _next(reader: pyarrow.RecordBatchReader, settings: QuerySettings) -> pyarrow.RecordBatch | None:
    with translated_errors(settings):
        try:
            return reader.read_next_batch()
        except StopIteration:
            return None


def _contents(source: IO[bytes]) -> Iterator[pyarrow.Table]:
    """The rows of the table `contents`, sent by the caller."""
    while True:
        kind, body = read_message(source)
        if kind == MessageKind.CONTENTS_END:
            return
        yield ipc.open_stream(body).read_all()


def _end_with_caller() -> None:
    """Waits for the end of the pipe: the caller sends nothing more."""
    os.read(0, 1)  # not through sys.stdin, whose lock would abort an exiting interpreter
    os._exit(1)


# -- messages ---------------------------------------------------------------------------------------------------------


class MessageKind:
    REQUEST: Final = b"Q"
    CONTENTS: Final = b"C"
    CONTENTS_END: Final = b"X"
    SCHEMA: Final = b"S"
    BATCH: Final = b"B"
    END: Final = b"E"
    FAILURE: Final = b"F"


def write_message(stream: IO[bytes], kind: bytes, body: bytes | pyarrow.Buffer = b"") -> None:
    stream.write(frame_head(1 + len(body)) + kind)
    stream.write(body)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[bytes, memoryview]:
    """Kind and body of the next message. Raises EOFError at the end of the stream."""
    frame = read_frame(stream)
    return frame[:1], memoryview(frame)[1:]


def as_stream(schema: pyarrow.Schema, batch: pyarrow.RecordBatch | None = None) -> pyarrow.Buffer:
    """An Arrow stream of one batch, or of none."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()


@contextmanager
def translated_errors(settings: QuerySettings) -> Iterator[None]:
    """Translates errors of DuckDB and Arrow into those of `holdfast.errors`."""
    import duckdb

    try:
        yield
    except MemoryError:  # of Python or of Arrow
        raise too_much_memory(settings) from None
    except duckdb.Error as error:
        raise _error(error, settings) from None
    except (pyarrow.ArrowException, OSError) as error:  # errors while rows are read come through Arrow
        raise _error(error, settings) from None


def too_long(settings: QuerySettings) -> TooLarge:
    return TooLarge(f"SQL takes longer than {settings.sql_seconds_max:g} s: narrow it, or raise query.sql_seconds_max")


def too_much_memory(settings: QuerySettings) -> TooLarge:
    return TooLarge(
        f"SQL takes more than {settings.sql_memory_bytes} bytes of memory and {settings.sql_spill_bytes_max} of disk: "
        "narrow it, or raise query.sql_memory_bytes and query.sql_spill_bytes_max"
    )


def _error(error: Exception, settings: QuerySettings) -> HoldfastError:
    kind, _, rest = str(error).partition("Error: ")
    message = " ".join((rest or kind).split("\n\n")[0].split())
    match kind.strip():
        case "Out of Memory":
            return too_much_memory(settings)
        case "Permission":
            return Denied(f"cannot run SQL: {message}")
        case "IO":
            return DamagedIndex(f"cannot read the tables of the index: {message}; run it again, or {REPAIR}")
    return MalformedQuery(f"cannot run SQL: {message}")
