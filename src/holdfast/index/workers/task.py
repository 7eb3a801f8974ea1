"""What the builder and its workers tell each other, marshalled; a frame is a length of 8 bytes and so many bytes."""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from holdfast.index.extract import ExtractionLimits

_LENGTH = 8


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works."""

    root: str  # of the archive
    limits: ExtractionLimits
    seconds_max: float  # of processor time for one document
    memory_bytes_max: int


class IndexTask(NamedTuple):
    """Records of a batch to be read."""

    batch: str
    number: int  # of the batch
    first: int  # serial
    end: int  # first serial that is not wanted
    places: tuple[bytes, ...]  # of the frames that hold them
    only: tuple[int, ...] = ()  # serials; empty: all of them


class TaskResult(NamedTuple):
    """What came of a task."""

    documents: list[dict[str, Any]]  # as tantivy takes them
    captures: bytes  # rows, as an Arrow stream
    links: bytes
    bytes: int  # of payloads that were read
    unresolved: list[int]  # numbers of revisits whose originals are not in the archive


def pack(value: Any) -> bytes:
    """A frame of plain values."""
    body = marshal.dumps(value)
    return len(body).to_bytes(_LENGTH, "little") + body


def read_frame(stream: IO[bytes]) -> Any:
    """The next frame's value. Raises EOFError where the stream ends."""
    length = stream.read(_LENGTH)
    wanted = int.from_bytes(length, "little")
    body = stream.read(wanted) if len(length) == _LENGTH else b""
    if len(length) < _LENGTH or len(body) < wanted:
        raise EOFError
    return marshal.loads(body)
