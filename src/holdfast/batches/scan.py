"""A walk through a journal file, frame by frame, over damage to what is sound beyond it (I3).

A frame is sound if its checksum holds and it consists of whole entries. Where one is not, the walk looks for the next
magic at which a sound frame begins, and reports which bytes it passed over. Memory is bounded by the largest frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.batches.entry import VERSION, JournalEntry, parse_entries
from holdfast.batches.frame import MAGIC, FramePlace, decompress, frame_length, is_skippable
from holdfast.env.files import File
from holdfast.errors import DamagedBatch, FormatTooNew

_VERSION = f"version: {VERSION}\n".encode()
_WINDOW = 1 << 20
_FRAME_LENGTH_MAX = 256 << 20


class Walked(NamedTuple):
    """A sound frame with its entries; none in a seek table, whose place says 0 entries."""

    place: FramePlace
    entries: list[JournalEntry]


class Passed(NamedTuple):
    """Bytes that are no sound frame. `torn`: nothing sound follows, as after a crash."""

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
        """Makes the bytes at `offset` available as far as the file has them; returns their index in `raw`."""
        if not (self.start <= offset and min(offset + length, self.size) <= self.start + len(self.raw)):
            self.start = offset
            self.raw = self._file.read(offset, max(length, _WINDOW))
        return offset - self.start


def walk(file: File, number: int, generation: int, start: int = 0) -> Iterator[Walked | Passed]:
    """Everything from `start` to the end of the file, in order; places and passed ranges leave no byte out."""
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
    """The frame there, or why there is none."""
    try:
        length = _length_at(window, offset)
        if length is None:
            return "the file ends before the frame does"
        index = window.at(offset, length)
        if is_skippable(window.raw, index):
            return Walked(FramePlace(number, generation, offset, length, 0, 0, 0), [])
        content = decompress(window.raw[index : index + length])
        if content.startswith(b"version: ") and not content.startswith(_VERSION):
            line = content[: content.find(b"\n")].decode("ascii", "replace")
            raise FormatTooNew(f"'{window.name}' has entries of '{line}' at {offset}: use a later release")
        entries = parse_entries(content)
    except DamagedBatch as error:
        return str(error)
    first = next((entry.serial for entry in entries if entry.serial), 0)
    return Walked(FramePlace(number, generation, offset, length, len(content), first, len(entries)), entries)


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
