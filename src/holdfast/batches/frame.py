"""Frames: many entries compressed together, each frame a whole zstd frame that can be read by itself.

    ┌────────────┬────────────┬─────┬──────────────────────────────┐
    │ zstd frame │ zstd frame │ ... │ seek table, once the file is │
    │  ~64 KiB of│            │     │  full or its batch is sealed │
    │  entries   │            │     │  (a skippable frame)         │
    └────────────┴────────────┴─────┴──────────────────────────────┘

Every frame carries its content size and a checksum of its content. The seek table is that of the zstd seekable format:
magic 0x184D2A5E, size, then for each frame its compressed and decompressed size (4 bytes each, little endian), the
number of frames, a descriptor byte 0, and the magic 0x8F92EAB1.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import zstandard

from holdfast.batches.entry import VERSION, JournalEntry, parse_entries
from holdfast.env import paths
from holdfast.env.files import File
from holdfast.errors import DamagedBatch, FormatTooNew, FormatTooOld, HoldfastError

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


def frame_compressor() -> zstandard.ZstdCompressor:
    """For one thread at a time."""
    return zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True)


_OF_THREAD = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    """One per thread: creating one costs half as much as using it once."""
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
    """The length of the frame at `at`; None if `raw` ends inside it. Raises DamagedBatch if there is no frame."""
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


_VERSION = f"version: {VERSION}\n".encode()
_OLD_VERSIONS = ("2.0",)
_WINDOW = 1 << 20
_FRAME_LENGTH_MAX = 256 << 20


class Walked(NamedTuple):
    """A sound frame with its entries. A seek table has none; its place says 0 entries."""

    place: FramePlace
    entries: list[JournalEntry]


class Passed(NamedTuple):
    """Bytes that are not a sound frame. `torn`: nothing sound follows, as after a crash."""

    offset: int
    length: int
    reason: str
    torn: bool


class _Window:
    """A part of the file in memory, moved and widened as needed."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.name = file.path
        self.size = file.size()
        self.start = 0
        self.raw = b""

    def at(self, offset: int, length: int) -> int:
        """Reads the bytes at `offset`, if the file has them; returns their index in `raw`."""
        if not (self.start <= offset and min(offset + length, self.size) <= self.start + len(self.raw)):
            self.start = offset
            self.raw = self._file.read(offset, max(length, _WINDOW))
        return offset - self.start


def walk(file: File, number: int, generation: int, start: int = 0) -> Iterator[Walked | Passed]:
    """Everything from `start` to the end of the file, in order: frames and damaged ranges cover every byte."""
    window = _Window(file)
    at = start
    while at < window.size:
        found = _frame_at(window, at, number, generation)
        if isinstance(found, Walked):
            yield found
            at += found.place.length
            continue
        beyond = _next_sound(window, at + 1, number, generation)
        yield Passed(at, beyond - at, found, torn=beyond == window.size)
        at = beyond


def _frame_at(window: _Window, offset: int, number: int, generation: int) -> Walked | str:
    """The frame at this place, or why there is none."""
    try:
        length = _length_at(window, offset)
        if length is None:
            return "the file ends before the frame does"
        index = window.at(offset, length)
        if is_skippable(window.raw, index):
            return Walked(FramePlace(number, generation, offset, length, 0, 0, 0), [])
        content = decompress(window.raw[index : index + length])
        if content.startswith(b"version: ") and not content.startswith(_VERSION):
            raise _wrong_version(window.name, content[9 : content.find(b"\n")].decode("ascii", "replace"))
        entries = parse_entries(content)
    except DamagedBatch as error:
        return str(error)
    first = next((entry.serial for entry in entries if entry.serial), 0)
    return Walked(FramePlace(number, generation, offset, length, len(content), first, len(entries)), entries)


def _wrong_version(name: Path, version: str) -> HoldfastError:
    if version not in _OLD_VERSIONS:
        return FormatTooNew(f"'{name}' has entries of version {version}: use a later release")
    return FormatTooOld(
        f"'{name}' has entries of version {version}, of an earlier release: run its 'holdfast export -o FILE.warc.gz' "
        f"for each collection, make a new archive, copy '{paths.REFUSED}' and '{paths.AUDIT}', and import the files"
    )


def _length_at(window: _Window, offset: int) -> int | None:
    want = _WINDOW
    while True:
        index = window.at(offset, want)
        length = frame_length(window.raw, index)
        if length is not None or window.start + len(window.raw) >= window.size:
            return length
        if want >= _FRAME_LENGTH_MAX:
            raise DamagedBatch(f"a frame of more than {_FRAME_LENGTH_MAX} bytes")
        want *= 4


def _next_sound(window: _Window, offset: int, number: int, generation: int) -> int:
    """Where the next sound frame begins; the end of the file if there is none."""
    while offset < window.size:
        index = window.at(offset, _WINDOW)
        found = window.raw.find(MAGIC, index)
        if found < 0:
            offset = max(offset + 1, window.start + len(window.raw) - len(MAGIC) + 1)
            if window.start + len(window.raw) >= window.size:
                break
            continue
        offset = window.start + found
        if isinstance(_frame_at(window, offset, number, generation), Walked):
            return offset
        offset += 1
    return window.size
