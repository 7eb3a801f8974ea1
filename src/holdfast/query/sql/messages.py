"""Messages between the caller of a statement and the process that runs it, each in a frame (`env.child_process`).

The first byte of a frame is the kind of its message, the rest is the body.

| kind | direction | body                                                                                  |
|------|-----------|---------------------------------------------------------------------------------------|
| `Q`  | to it     | what to run, pickled: it comes from the caller's own process                          |
| `C`  | to it     | rows of the table `contents`, an Arrow stream of one batch                            |
| `X`  | to it     | no more rows of `contents`                                                            |
| `S`  | from it   | the schema of the answer, an Arrow stream without rows                                |
| `B`  | from it   | some rows, an Arrow stream of one batch                                               |
| `E`  | from it   | the end of the answer                                                                 |
| `F`  | from it   | JSON: the name of an error of `holdfast.errors`, and its message                      |
"""

from __future__ import annotations

from typing import IO, Final

import pyarrow
from pyarrow import ipc

from holdfast.env.child_process import frame_head, read_frame


class MessageKind:
    """What a message is."""

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
    """Kind and body of the next message. Raises EOFError where the stream ends."""
    frame = read_frame(stream)
    return frame[:1], memoryview(frame)[1:]


def as_stream(schema: pyarrow.Schema, batch: pyarrow.RecordBatch | None = None) -> pyarrow.Buffer:
    """An Arrow stream of one batch, or of none."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()
