"""The block of a record as it is read: from memory if small, through the source if large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from holdfast.formats.http import HttpHead, parse_head
from holdfast.formats.io.source import CHUNK_BYTES, ByteSource, Plausible
from holdfast.formats.record import Record

CUT_OFF = "the record is cut off by the end of the file"
OVER_NEXT = "its length reaches over the next record"


class Checks(Protocol):
    """Tests a block that is read in pieces."""

    def feed(self, piece: bytes | memoryview) -> None: ...
    def faults(self) -> list[str]:
        """What is wrong with the block. To be called once, after the last piece."""


class BytesBlock:
    """A block that lies whole in a buffer."""

    __slots__ = ("_at", "_data", "_end", "_http", "_start")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._start = self._at = start
        self._end = end
        self._http: HttpHead | Literal[False] | None = False  # not looked for yet

    def read(self, size: int = -1) -> bytes:
        start = self._at
        end = self._end if size < 0 or size > self._end - start else start + size
        self._at = end
        return self._data[start:end]

    def http(self) -> HttpHead | None:
        """The head of the HTTP message that it is; parsed once."""
        if self._http is False:
            self._http = parse_head(self._data, self._start, self._end)
        return self._http

    def startswith(self, prefixes: tuple[bytes, ...]) -> bool:
        return self._data.startswith(prefixes, self._start, self._end)

    def whole(self) -> bytes:
        """All of it, however much was read."""
        return self._data[self._start : self._end]

    def cut(self, size: int) -> tuple[bytes, bytes]:
        """The first `size` bytes and the others, however much was read."""
        middle = self._start + size
        return self._data[self._start : middle], self._data[middle : self._end]

    def view(self, skip: int = 0) -> memoryview:
        """All of it but the first bytes, however much was read."""
        return memoryview(self._data)[self._start + skip : self._end]


class StreamBlock:
    """A block that is read from the source on demand; the source's `position` moves with it.

    It ends where the record's length says, or before, if the file ends, is damaged, or has another record there.
    """

    def __init__(self, source: ByteSource, record: Record, plausible: Plausible) -> None:
        self._source = source
        self._left = record.content_length
        self.fault = ""  # why it ended before its length
        self._plausible = plausible
        self._missing = 0
        self._boundary = -1  # the last one that was looked at
        self.checks: Checks | None = None

    def read(self, size: int = -1) -> bytes:
        if 0 <= size <= CHUNK_BYTES:
            return self._piece(min(size, self._left))
        if size < 0 or size > self._left:
            size = self._left
        parts = []
        while size and (piece := self._piece(size)):
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def drain(self) -> None:
        while self._left:
            self._piece(self._left)

    @property
    def missing(self) -> int:
        """Bytes that the length promised and that are not there; known at the end."""
        return self._missing

    def _end(self, fault: str) -> bytes:
        self.fault = fault
        self._missing, self._left = self._left, 0
        return b""

    def _piece(self, size: int) -> bytes:
        """Between one byte and `size`; none at the end."""
        if not size:
            return b""
        source = self._source
        if not source.fill(1):
            return self._end(source.broken or CUT_OFF)
        start = source.pos
        end = min(start + size, len(source.data))
        for boundary in source.boundaries(source.position - 1, source.base + end):
            if boundary > self._boundary:
                self._boundary = boundary
                if self._begins_record(boundary):
                    end = boundary - source.base
                    break
        if end == start:
            return self._end(OVER_NEXT)
        piece = source.data if start == 0 and end == len(source.data) else source.data[start:end]
        source.pos = end
        self._left -= len(piece)
        if self.checks is not None:
            self.checks.feed(piece)
        return piece

    def _begins_record(self, boundary: int) -> bool:
        """True if another record begins in the next member: this one must not swallow it."""
        source = self._source
        if self._plausible(source.data[boundary - source.base :][:CHUNK_BYTES]):
            self._boundary = boundary - 1  # met again as the end
            return True
        source.one_each = False
        return False


class OpenBlock:
    """A block whose length is not known: it ends where the next record begins, or with the file.

    `reach` gives a position up to which bytes belong to the block, and whether it ends there.
    """

    def __init__(self, source: ByteSource, reach: Callable[[], tuple[int, bool]]) -> None:
        self._source = source
        self._reach = reach
        self._upto = source.position
        self._ended = False
        self.size = 0  # of what was read

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        left = size
        while left and (piece := self._piece(left)):
            parts.append(piece)
            left -= len(piece) if left > 0 else 0
        return b"".join(parts)

    def drain(self) -> None:
        while self._piece(-1):
            pass

    def _piece(self, size: int) -> bytes:
        source = self._source
        if source.position >= self._upto and not self._ended:
            self._upto, self._ended = self._reach()
        end = self._upto - source.base
        if size >= 0:
            end = min(end, source.pos + size)
        piece = source.data[source.pos : end]
        source.pos += len(piece)
        self.size += len(piece)
        return piece
