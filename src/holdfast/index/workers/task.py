"""Messages between the index builder and its workers: marshalled values, each in a frame (`env.child_process`)."""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from holdfast.env.child_process import packed_frame, read_frame
from holdfast.index.extract import ExtractionLimits


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
    return packed_frame(marshal.dumps(value))


def unpack(stream: IO[bytes]) -> Any:
    """The value of the next frame. Raises EOFError where the stream ends."""
    return marshal.loads(read_frame(stream))
