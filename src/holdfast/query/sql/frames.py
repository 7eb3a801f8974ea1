"""Frames between the caller of a statement and the process that runs it.

    ┌──────┬────────┬──────────────┐
    │ kind │ length │ body         │      the length is 8 bytes, little endian
    │ 1    │ 8      │ length bytes │
    └──────┴────────┴──────────────┘

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

_LENGTH = 8


class FrameKind:
    """What a frame holds."""

    REQUEST: Final = b"Q"
    CONTENTS: Final = b"C"
    CONTENTS_END: Final = b"X"
    SCHEMA: Final = b"S"
    BATCH: Final = b"B"
    END: Final = b"E"
    FAILURE: Final = b"F"


def write_frame(stream: IO[bytes], kind: bytes, body: bytes | pyarrow.Buffer = b"") -> None:
    stream.write(kind + len(body).to_bytes(_LENGTH, "little"))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """Kind and body of the next frame. Raises EOFError where the stream ends."""
    head = stream.read(1 + _LENGTH)
    wanted = int.from_bytes(head[1:], "little")
    body = stream.read(wanted) if len(head) == 1 + _LENGTH else b""
    if len(head) <= _LENGTH or len(body) < wanted:
        raise EOFError
    return head[:1], body


def as_stream(schema: pyarrow.Schema, batch: pyarrow.RecordBatch | None = None) -> pyarrow.Buffer:
    """An Arrow stream of one batch, or of none."""
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, schema) as writer:
        if batch is not None:
            writer.write_batch(batch)
    return sink.getvalue()
