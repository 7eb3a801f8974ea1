"""Messages between the caller of a statement and the process that runs it, each in a frame (`env.child_process`).

The first byte of a frame is the kind of its message, the rest is the body.

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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

import pyarrow
from pyarrow import ipc

from holdfast.config import QuerySettings
from holdfast.env.child_process import frame_head, read_frame
from holdfast.errors import DamagedIndex, Denied, HoldfastError, MalformedQuery, TooLarge
from holdfast.index.state import REPAIR


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
    import pyarrow

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
