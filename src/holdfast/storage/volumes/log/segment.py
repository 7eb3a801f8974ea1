"""Segment files: a short header, then entries (blocks, replicas, counts, tickets) one after the other.

    byte  text                                                    meaning
    ----  ------------------------------------------------------  -------------------------------------------------
       0  HOLDFAST-SEGMENT/1 9f3a61c2\\n                            magic and version, uid of the volume
      28  segment 00000007 generation 000001 through 00000009\\n    a compacted segment stands for a whole run of them
      80  crc32 1a2b3c4d\\n\\n                                       of the 80 bytes before
      96  entries, each as `block` describes, serials ascending

Reading never trusts: `walk` yields every sound entry, and a `Damage` for every range that is not, finding the next
sound entry by its magic, its checksum, the volume's uid and an ascending serial. Copies of entries inside a content
(somebody archived an archive) are therefore not mistaken for entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env.files import File
from holdfast.errors import DamagedBlock, FormatTooNew
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES, MAGIC, STATE, TICKET, Header

SEGMENT_HEADER_BYTES: Final = 96
_MAGIC = b"HOLDFAST-SEGMENT/"
_FORMAT = b"HOLDFAST-SEGMENT/1 %b\nsegment %08d generation %06d through %08d\n"
WINDOW_BYTES: Final = 4 << 20  # read at once while walking


class SegmentHeader(NamedTuple):
    """The first bytes of a segment file."""

    uid: bytes
    segment: int
    generation: int
    through: int  # the last segment of the run that this file stands for


class SegmentEntry(NamedTuple):
    """A sound entry: its place, its header, its bytes."""

    offset: int
    header: Header
    raw: memoryview  # header and data

    @property
    def data(self) -> memoryview:
        return self.raw[HEADER_BYTES:]


class Damage(NamedTuple):
    """A range of a segment that cannot be read. `header` is there if only the data is damaged."""

    offset: int
    length: int
    expected: str
    found: str
    header: Header | None
    next_serial: int | None  # of the next sound entry; None at the end of the segment


def pack_segment_header(header: SegmentHeader) -> bytes:
    text = _FORMAT % header
    packed = text + b"crc32 %08x\n\n" % block.checksum(text)
    assert len(packed) == SEGMENT_HEADER_BYTES
    return packed


def read_segment_header(file: File) -> SegmentHeader:
    """Raises FormatTooNew or DamagedBlock."""
    raw = file.read(0, SEGMENT_HEADER_BYTES)
    check_version(raw, _MAGIC, file.path)
    text = raw[:80]
    found = b"crc32 %08x\n\n" % block.checksum(text)
    if len(raw) < SEGMENT_HEADER_BYTES or raw[80:] != found:
        raise DamagedBlock(
            f"cannot read the header of '{file.path}' at 0: checksum {found[6:14].decode()} does not match"
        )
    return SegmentHeader(raw[19:27], int(raw[36:44]), int(raw[56:62]), int(raw[71:79]))


def check_version(raw: bytes, magic: bytes, path: Path) -> None:
    """Raises FormatTooNew if `raw` starts with a higher version of `magic` than 1, and is not version 1, damaged."""
    version = raw[len(magic) :].split(maxsplit=1)[:1] if raw.startswith(magic) else []
    if version and version[0].isdigit() and int(version[0]) > 1:
        text, _, checksum = (magic + b"1" + raw[len(magic) + len(version[0]) :]).partition(b"crc32 ")
        if checksum[:8] == b"%08x" % block.checksum(text):
            return
        raise FormatTooNew(
            f"'{path}' has format version {int(version[0])}; this release reads version 1: use a later one"
        )


class _Window:
    """A moving view of a file, so that walking costs few reads and bounded memory."""

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._start = 0
        self._bytes = memoryview(b"")

    def view(self, offset: int, length: int) -> memoryview:
        inside = offset - self._start
        if inside < 0 or inside + length > len(self._bytes):
            wanted = max(length, min(WINDOW_BYTES, self._end - offset))
            self._bytes = memoryview(self._file.read(offset, wanted))
            self._start, inside = offset, 0
        return self._bytes[inside : inside + length]

    def find_magic(self, offset: int) -> int:
        """Where the next magic is at or after `offset`; the end if nowhere."""
        while offset < self._end:
            part = bytes(self.view(offset, min(WINDOW_BYTES, self._end - offset)))
            at = part.find(MAGIC)
            if at >= 0:
                return offset + at
            if len(part) < len(MAGIC):
                break
            offset += len(part) - len(MAGIC) + 1
        return self._end


def walk(file: File, uid: bytes, start: int, end: int, floor: int = -1) -> Iterator[SegmentEntry | Damage]:
    """Everything in [start, end) in order. `floor` is a serial that all entries must exceed."""
    window = _Window(file, end)
    offset = start
    while offset < end:
        raw = window.view(offset, min(HEADER_BYTES, end - offset))
        header = block.parse(raw)
        if header is None or not _fits(header, uid, offset, end, floor):
            following, serial = _resync(window, uid, offset + 1, end, floor)
            yield Damage(offset, following - offset, *_reason(header, raw), None, serial)
            offset = following
            continue
        length = HEADER_BYTES + header.stored
        raw = window.view(offset, length)
        found = crc32(raw[HEADER_BYTES:]) if header.stored else 0
        if found == header.checksum:
            yield SegmentEntry(offset, header, raw)
        else:
            yield Damage(offset, length, f"crc32 {header.checksum:08x}", f"{found:08x}", header, header.serial)
        floor = header.serial
        offset += length


def torn_from(file: File, uid: bytes, start: int, end: int, floor: int) -> int:
    """Where the unacknowledged end of a last segment or a journal begins; `end` if there is none.

    Damage is acknowledged if a later entry was written after it had been synced (`after`): it is not cut off.
    A commit with an idempotency key is atomic, as is a transaction of a journal: without its end, all of it is torn.
    """
    torn: int | None = None
    whole, complete = end, floor  # where the last atomic one begins, and its last serial
    for step in walk(file, uid, start, end, floor):
        if isinstance(step, Damage):
            if torn is None:
                torn = step.offset
        else:
            if torn is not None and step.header.after > floor:
                torn = None  # the damaged entries were durable before this one was written
            if torn is None:
                floor = step.header.serial
                if step.header.kind in (TICKET, STATE) and floor > complete:
                    whole, complete = step.offset, floor + step.header.references
    if floor < complete:
        return whole
    return end if torn is None else torn


def damaged_header(file: File, damage: Damage) -> Header | None:
    """The header of the entry that a damaged range was: the sound one, or one in which a single byte was wrong."""
    if damage.header is not None:
        return damage.header
    mended = block.mended(file.read(damage.offset, HEADER_BYTES)) if damage.length >= HEADER_BYTES else None
    header = block.parse(mended) if mended is not None else None
    return header if header is not None and header.length == damage.length else None


def lone_ticket(entry: SegmentEntry) -> bytes:
    """A ticket as it is copied: the entries of its commit may be gone, and it must not claim others."""
    return block.pack(entry.header._replace(references=0)) + bytes(entry.data)


def offset_behind(file: File, uid: bytes, start: int, end: int, serial: int) -> int:
    """Where the entries after this serial begin, by looking at headers only; or where one of them cannot be read."""
    while start < end:
        header = block.parse(file.read(start, HEADER_BYTES))
        if header is None or header.uid != uid or header.serial > serial:
            break
        start += header.length
    return start


def _fits(header: Header, uid: bytes, offset: int, end: int, floor: int) -> bool:
    return header.uid == uid and header.serial > floor and offset + HEADER_BYTES + header.stored <= end


def _reason(header: Header | None, raw: memoryview) -> tuple[str, str]:
    if header is not None:
        return (
            "an entry of this volume with an ascending serial, inside the file",
            f"serial {header.serial} of {header.uid!r}",
        )
    return "a sound header", repr(bytes(raw[:28]))


def _resync(window: _Window, uid: bytes, offset: int, end: int, floor: int) -> tuple[int, int | None]:
    while (offset := window.find_magic(offset)) < end:
        header = block.parse(window.view(offset, min(HEADER_BYTES, end - offset)))
        if header is not None and _fits(header, uid, offset, end, floor):
            return offset, header.serial
        offset += 1
    return end, None
