"""Frames: many entries compressed together, each frame a whole zstd frame that can be read by itself.

    ┌────────────┬────────────┬─────┬──────────────────────────────┐
    │ zstd frame │ zstd frame │ ... │ seek table, once the file is │
    │  ~64 KB of │            │     │  full or its batch is sealed │
    │  entries   │            │     │  (a skippable frame)         │
    └────────────┴────────────┴─────┴──────────────────────────────┘

Every frame carries its content size and a checksum of its content. The seek table is that of the zstd seekable format:
magic 0x184D2A5E, size, then for each frame its compressed and decompressed size (4 bytes each, little endian), the
number of frames, a descriptor byte 0, and the magic 0x8F92EAB1.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import NamedTuple

import zstandard

from holdfast.errors import DamagedBatch

MAGIC = b"\x28\xb5\x2f\xfd"
SEEK_TABLE_MAGIC = b"\x5e\x2a\x4d\x18"
_SEEKABLE_MAGIC = 0x8F92EAB1
_FRAME_BYTES_MAX = 1 << 31
_PLACE = struct.Struct("<IIQIIII")


class FramePlace(NamedTuple):
    """Where a frame is, and which entries it holds."""

    number: int  # of the file in its batch
    generation: int  # how often that file was rewritten
    offset: int
    length: int  # compressed
    size: int  # of its content
    first_serial: int
    entries: int

    def pack(self) -> bytes:
        return _PLACE.pack(*self)

    @classmethod
    def unpack(cls, packed: bytes) -> FramePlace:
        return cls(*_PLACE.unpack(packed))


class FrameCompressor:
    """One thread at a time."""

    def __init__(self, level: int = 3) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)

    def compress(self, content: bytes) -> bytes:
        return self._compressor.compress(content)


_OF_THREAD = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    """One for each thread: to make one costs as much as half of what it then does."""
    found: zstandard.ZstdDecompressor | None = getattr(_OF_THREAD, "decompressor", None)
    if found is None:
        found = _OF_THREAD.decompressor = zstandard.ZstdDecompressor()
    return found


def decompress(frame: bytes) -> bytes:
    """The content of a whole frame. Raises DamagedBatch."""
    try:
        if zstandard.frame_content_size(frame) not in range(_FRAME_BYTES_MAX):
            raise DamagedBatch("a frame does not say how large its content is")
        return _decompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise DamagedBatch(f"cannot decompress a frame of {len(frame)} bytes: {error}") from None


def frame_length(raw: bytes, at: int) -> int | None:
    """How long the frame at `at` is; None if `raw` ends before it does. Raises DamagedBatch if no frame is there."""
    if len(raw) - at < 8:
        return None
    magic = raw[at : at + 4]
    if magic[1:] == SEEK_TABLE_MAGIC[1:] and magic[0] & 0xF0 == 0x50:  # any skippable frame
        end = at + 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
        return end - at if end <= len(raw) else None
    if magic != MAGIC:
        raise DamagedBatch(f"no frame at {at}")
    descriptor = raw[at + 4]
    single = descriptor >> 5 & 1
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    end = at + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + size_bytes
    while True:
        header = int.from_bytes(raw[end : end + 3], "little")
        kind = header >> 1 & 3
        if kind == 3:
            raise DamagedBatch(f"the frame at {at} has a block of an unknown kind")
        end += 3 + (1 if kind == 1 else header >> 3)
        if end > len(raw):
            return None
        if header & 1:
            break
    end += 4 * (descriptor >> 2 & 1)
    return end - at if end <= len(raw) else None


def is_skippable(raw: bytes, at: int) -> bool:
    return raw[at + 1 : at + 4] == SEEK_TABLE_MAGIC[1:]


def seek_table(frames: Sequence[tuple[int, int]]) -> bytes:
    """The skippable frame that ends a file, from the compressed and decompressed sizes of its frames."""
    entries = b"".join(struct.pack("<II", *sizes) for sizes in frames)
    footer = struct.pack("<IBI", len(frames), 0, _SEEKABLE_MAGIC)
    return SEEK_TABLE_MAGIC + struct.pack("<I", len(entries) + len(footer)) + entries + footer
