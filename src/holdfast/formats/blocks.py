"""The block of a record on its way to whoever reads it: in memory when small, through the source when large."""

from __future__ import annotations

from typing import Literal, Protocol

from holdfast.errors import MalformedInput
from holdfast.formats.http import HttpHead, parse_head
from holdfast.formats.record import Record
from holdfast.formats.source import CHUNK_BYTES, Plausible, Source


class Checks(Protocol):
    """What is tested while a block passes, and the faults that came to light."""

    def feed(self, piece: bytes | memoryview) -> None: ...
    def faults(self) -> list[str]: ...
    def whole(self, block: BytesBlock) -> list[str]:
        """The faults of a block that is in memory, instead of feeding it."""


class BytesBlock:
    """A block that lies whole within bytes at hand."""

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
        """The head of the HTTP message that it is; looked for once, however many ask."""
        if self._http is False:
            self._http = parse_head(self._data[self._start : self._end])
        return self._http

    def whole(self) -> memoryview:
        """All of it, however much was read."""
        return memoryview(self._data)[self._start : self._end]


class StreamBlock:
    """A block that is read from the source as it is asked for. `position` moves on with it."""

    def __init__(self, source: Source, record: Record, plausible: Plausible) -> None:
        self._source = source
        self._left = record.content_length
        self._offset = record.offset
        self.fault = ""  # why it cannot be read to its end
        self._plausible = plausible
        self._boundary = -1  # the last one that was looked at
        self.checks: Checks | None = None

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            size = self._left
        if size <= CHUNK_BYTES:
            return self._piece(size)
        parts = []
        while size and (piece := self._piece(size)):
            parts.append(piece)
            size -= len(piece)
        return b"".join(parts)

    def drain(self) -> None:
        while self._left:
            self._piece(self._left)

    def failure(self, fault: str) -> MalformedInput:
        """What to raise when the block, or what must follow it, is damaged."""
        self.fault = fault
        return MalformedInput(f"damaged record at {self._offset}: {fault}; go on with the next to salvage what follows")

    def _piece(self, size: int) -> bytes:
        """Between one byte and `size`."""
        if not size:
            return b""
        source = self._source
        if not source.fill(1):
            raise self.failure(source.broken or f"the file ends {self._left} bytes before the block does")
        start = source.pos
        end = min(start + size, len(source.data))
        for boundary in source.boundaries(source.position - 1, source.base + end):
            if boundary > self._boundary:
                self._boundary = boundary
                self._look_at(boundary)
        piece = source.data if start == 0 and end == len(source.data) else source.data[start:end]
        source.pos = end
        self._left -= len(piece)
        if self.checks is not None:
            self.checks.feed(piece)
        return piece

    def _look_at(self, boundary: int) -> None:
        """A record that goes on over the end of a member must not swallow the record in the next one."""
        source = self._source
        if self._plausible(source.data[boundary - source.base :][:CHUNK_BYTES]):
            source.go(boundary)
            raise self.failure("its length reaches over the next record")
        source.one_each = False
