"""Gzip files as archives write them: one member per record, for random access (RFC 1952).

    | 1f 8b 08 flags time(4) extra os | deflated | CRC-32 (4) | size (4) |   repeated

The output of a step is limited, so a file that inflates to a thousand times its size costs time, not memory.
"""

from __future__ import annotations

from typing import BinaryIO

from isal import isal_zlib

from holdfast.formats.io.source import MemberSource

MAGIC = b"\x1f\x8b\x08"
_DAMAGE: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub takes the class for an instance
_WINDOW_BITS = 31  # with a gzip head and trailer
_STEP_BYTES = 8 * 1024  # given at a time: the bytes after the end of a member are copied
_OUT_BYTES_MAX = 256 * 1024  # of one step
_PROBE_BYTES = 1024


class GzipSource(MemberSource):
    unit = "gzip member"

    def __init__(self, stream: BinaryIO, first: bytes = b"") -> None:
        super().__init__(stream, first)
        self._inflater: isal_zlib.Decompress | None = None

    def _next(self) -> bytes:
        while not self.broken:
            inflater = self._inflater
            if self._at >= len(self._raw) and not self._refill():
                if inflater is None:
                    return b""
                out = inflater.decompress(b"", _OUT_BYTES_MAX)  # what the limit of the last step held back
                if not out:
                    self._break("a gzip member is cut off by the end of the file")
                self._decoded += len(out)
                return out
            if inflater is None:
                self._start_member()
                inflater = self._inflater = isal_zlib.decompressobj(_WINDOW_BITS)
            given = self._raw[self._at : self._at + _STEP_BYTES]
            try:
                out = inflater.decompress(given, _OUT_BYTES_MAX)
            except _DAMAGE as error:
                self._break(f"damaged gzip member: {error}")
                return b""
            ended = inflater.eof
            rest = inflater.unused_data if ended else inflater.unconsumed_tail
            self._at += len(given) - len(rest)
            self._decoded += len(out)
            if ended:
                self._inflater = None
                self._mark()
            if out:
                return out
        return b""

    def _break(self, reason: str) -> None:
        self.broken = reason
        self._inflater = None

    def _find_member(self, start: int) -> int:
        return self._raw.find(MAGIC, start)

    def _probe(self) -> bytes:
        try:
            given = memoryview(self._raw)[self._at : self._at + self.probe_bytes]
            return isal_zlib.decompressobj(_WINDOW_BITS).decompress(given, _PROBE_BYTES)
        except _DAMAGE:
            return b""
