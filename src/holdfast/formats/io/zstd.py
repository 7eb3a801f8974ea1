"""Zstandard files as archives write them: one frame per record, an optional dictionary before all others.

    | 2A 4D 18 5D -> 5D 2A 4D 18 | size (4) | dictionary, plain or itself a zstd frame |      skippable, first only
    | 28 B5 2F FD | frame header | block ... block | checksum (4, optional) |                repeated
    | 5x 2A 4D 18 | size (4) | anything |                                                     skippable, passed over

    block: | last (1 bit), kind (2 bits), size (21 bits) | data |    decodes to 128 KiB at most

Frames are walked block by block, because the size of a block bounds what it decodes to: so the memory that a step takes
is known before it is made.
"""

from __future__ import annotations

from typing import BinaryIO

import zstandard

from holdfast.formats.io.source import MemberSource

MAGIC = b"\x28\xb5\x2f\xfd"
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
SKIPPABLE = tuple(bytes([0x50 + low, 0x2A, 0x4D, 0x18]) for low in range(16))
DICTIONARY_BYTES_MAX = 16 * 1024 * 1024
_FRAME_HEAD_MAX = 18
_BLOCK_HEAD = 3
_RLE = 1
_STEP_BYTES = 128 * 1024  # compressed bytes of one step at most, unless a single block
_STEP_BLOCKS = 2  # blocks of one step at most: each may decode to 128 KiB
_PROBE_BYTES = 1024


class ZstdSource(MemberSource):
    unit = "zstd frame"
    probe_bytes = 128 * 1024 + 64  # the whole of its first block is needed

    def __init__(self, stream: BinaryIO, first: bytes = b"") -> None:
        super().__init__(stream, first)
        self._decompressor = zstandard.ZstdDecompressor()
        self._decoder: zstandard.ZstdDecompressionObj | None = None
        self._checksum = 0  # bytes of it, at the end of the current frame
        self._skip = 0  # bytes of a skippable frame that are left

    def _next(self) -> bytes:
        while not self.broken:
            if self._skip:
                self._skip_some()
            elif self._decoder is not None:
                if out := self._step():
                    return out
            elif not self._open_frame():
                break
        return b""

    def _have(self, size: int) -> bool:
        """True if `size` bytes of the file are in the buffer, joined."""
        while len(self._raw) - self._at < size:
            kept, at, before = self._kept, self._at, self._raw
            if not self._refill():
                return False
            if at < len(before):  # the frame goes on across the edge: join instead of keeping
                self._kept = kept[:-1] if kept and kept[-1] is before else kept
                self._raw, self._at = before + self._raw, at
                self._trim()
        return True

    def _trim(self) -> None:
        """What was decoded of the joined bytes moves to those that are kept."""
        if self._at > self.kept_bytes_max:
            self._keep(self._raw[: self._at])
            self._raw, self._at = self._raw[self._at :], 0

    def _open_frame(self) -> bool:
        """Reads a frame's header; False at the end of the file or of what can be read."""
        if not self._have(1):
            return False
        self._start_member()
        self._raw, self._at = self._raw[self._at :], 0
        self._have(_FRAME_HEAD_MAX)
        magic = self._raw[:4]
        if magic in SKIPPABLE and len(self._raw) >= 8:
            return self._open_skippable(magic, int.from_bytes(self._raw[4:8], "little"))
        try:
            size = zstandard.frame_header_size(self._raw) if magic == MAGIC else 0
        except zstandard.ZstdError:
            size = 0
        if not 0 < size <= len(self._raw):
            self._break("no zstd frame begins here" if magic != MAGIC else "damaged head of a zstd frame")
            return False
        self._checksum = 4 if self._raw[4] & 4 else 0
        self._decoder = self._decompressor.decompressobj()
        return self._feed(size) is not None

    def _open_skippable(self, magic: bytes, size: int) -> bool:
        if magic != DICTIONARY_MAGIC or self._member or size > DICTIONARY_BYTES_MAX:
            self._at, self._skip = 8, size
            if not size:
                self._end_skippable()
            return True
        if not self._have(8 + size):
            self._break("the dictionary is cut off by the end of the file")
            return False
        try:
            self._decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(self._raw[8 : 8 + size]))
        except zstandard.ZstdError as error:
            self._break(f"damaged dictionary: {error}")
            return False
        self._at = 8 + size
        self._end_skippable()
        return True

    def _skip_some(self) -> None:
        if not self._have(1):
            return self._break("a skippable frame is cut off by the end of the file")
        step = min(self._skip, len(self._raw) - self._at)
        self._at += step
        self._skip -= step
        if not self._skip:
            self._end_skippable()

    def _end_skippable(self) -> None:
        self._pass()
        self._mark()

    def _step(self) -> bytes:
        """Decodes the next blocks of the frame, at its cut end what there is; none when it ends or is damaged."""
        size, blocks, last = 0, 0, False
        while not last and blocks < _STEP_BLOCKS and (not blocks or size < _STEP_BYTES):
            if not self._have(size + _BLOCK_HEAD):
                break
            at = self._at + size
            head = int.from_bytes(self._raw[at : at + _BLOCK_HEAD], "little")
            block = _BLOCK_HEAD + (1 if head >> 1 & 3 == _RLE else head >> 3)
            if not self._have(size + block):
                break
            last = bool(head & 1)
            size += block
            blocks += 1
        ended = last and self._have(size + self._checksum)
        if not blocks:
            size = len(self._raw) - self._at  # less than a block, of which a part may be decoded
        out = self._feed(size + (self._checksum if ended else 0))
        if ended and out is not None:
            self._decoder = None
            self._mark()
        elif last or not blocks:
            self._break(self.broken or "a zstd frame is cut off by the end of the file")
        return out or b""

    def _feed(self, size: int) -> bytes | None:
        assert self._decoder is not None
        try:
            out = self._decoder.decompress(memoryview(self._raw)[self._at : self._at + size])
        except zstandard.ZstdError as error:
            self._break(f"damaged zstd frame: {error}")
            return None
        self._at += size
        self._decoded += len(out)
        return out

    def _break(self, reason: str) -> None:
        self.broken = reason
        self._decoder = None
        self._skip = 0

    def _find_member(self, start: int) -> int:
        return self._raw.find(MAGIC, start)

    def _probe(self) -> bytes:
        given = memoryview(self._raw)[self._at : self._at + self.probe_bytes]
        try:
            with self._decompressor.stream_reader(given) as reader:
                return reader.read(_PROBE_BYTES)
        except zstandard.ZstdError:
            return b""


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict:
    if data.startswith(MAGIC):
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            data = reader.read(DICTIONARY_BYTES_MAX)
    return zstandard.ZstdCompressionDict(data)
