"""Segment files: a short header, then entries (blocks, replicas, counts, tickets) one after the other.

    byte  text                                                    meaning
    ----  ------------------------------------------------------  -------------------------------------------------
       0  HOLDFAST-SEGMENT/1 9f3a61c2\\n                            magic and version, uid of the volume
      28  segment 00000007 generation 000001 through 00000009\\n    a compacted segment stands for a whole run of them
      80  crc32 1a2b3c4d\\n\\n                                       of the 80 bytes before
      96  entries, each as `block` describes, serials ascending

Nothing read is trusted: `walk` yields every sound entry, and a `Damage` for every range between. It finds the next
sound entry by its magic, its checksum, the volume's uid and an ascending serial. Entries inside a content (an archived
archive) are therefore not mistaken for entries.

**Lanes.** A log has one lane: its segments are numbered 1, 2, 3, ... A hashed log has a lane for each of its ranges of
signatures, 1 to `logs`, and lane 0, the *front*, where all entries arrive. The front's segments are numbered 1000,
2000, 3000, ...; when one is distributed, its entries for lane 17 become segment 1017, 2017, 3017, ... So the number
gives the lane, and within a lane serials ascend from segment to segment. The front is later than all lanes.

**Journals** of tree and hash volumes are framed as segments (`JournalFile`). Appended entries are durable on return. A
journal that has grown is replaced by a draft, synced and renamed: a crash leaves the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env import Environment, paths
from holdfast.env.files import Buffer, File
from holdfast.errors import DamagedBlock, FormatTooNew, VolumeDown, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES, MAGIC, STATE, TICKET, Header

if TYPE_CHECKING:
    from holdfast.storage.volumes.log.keydir import SegmentFacts

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
    """A sound entry: its offset, its header, its bytes."""

    offset: int
    header: Header
    raw: memoryview  # header and data

    @property
    def data(self) -> memoryview:
        return self.raw[HEADER_BYTES:]


class Damage(NamedTuple):
    """A range of a segment that cannot be read. `header` is given if only the data is damaged."""

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
    """Raises FormatTooNew if `raw` has a later version of `magic` than 1, unless that is a damaged digit."""
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
    A commit with an idempotency key is atomic, as is a transaction of a journal: if its end is missing, all is torn.
    """
    torn: int | None = None
    whole, complete = end, floor  # where the last atomic commit begins, and its last serial
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
    """The header of the entry in a damaged range: sound, or with a single wrong byte corrected."""
    if damage.header is not None:
        return damage.header
    mended = block.mended(file.read(damage.offset, HEADER_BYTES)) if damage.length >= HEADER_BYTES else None
    header = block.parse(mended) if mended is not None else None
    return header if header is not None and header.length == damage.length else None


def lone_ticket(entry: SegmentEntry) -> bytes:
    """A copy of a ticket: the entries of its commit may be gone, and it must not claim others."""
    return block.pack(entry.header._replace(references=0)) + bytes(entry.data)


def offset_behind(file: File, uid: bytes, start: int, end: int, serial: int) -> int:
    """Where the entries after this serial begin, by headers alone; or the first header that cannot be read."""
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


STRIDE: Final = 1000  # between two segments of the front
LOGS_MAX: Final = STRIDE - 1
_SPACE_BITS: Final = 32


class SegmentRanges(NamedTuple):
    """The lanes of a volume; `logs` is 0 for a plain log."""

    logs: int = 0

    @property
    def stride(self) -> int:
        """The difference between the numbers of two segments of the front."""
        return STRIDE if self.logs else 1

    def of(self, segment: int) -> int:
        """The lane of a segment."""
        return segment % STRIDE if self.logs else 0

    def front(self, segment: int) -> int:
        """The segment of the front that this one was distributed from."""
        return segment - self.of(segment)

    def for_signature(self, signature: bytes) -> int:
        """The lane of a signature: ascending lanes hold ascending ranges of signatures."""
        if not self.logs:
            return 0
        head = int.from_bytes(signature[:4].ljust(4, b"\0"), "big")
        return 1 + (head * self.logs >> _SPACE_BITS)

    def first_signature(self, lane: int) -> bytes:
        """The least signature of a lane; that of the lane after the last one is above all signatures."""
        if lane > self.logs:
            return b"\xff" * 65
        return (-(-((lane - 1) << _SPACE_BITS) // self.logs)).to_bytes(4, "big").rstrip(b"\0")

    def replay_order(self, segment: int) -> tuple[int, int]:
        """Lane by lane, the front last."""
        return self.of(segment) or STRIDE, segment

    def is_distributed(self, segment: int, known: Mapping[int, SegmentFacts]) -> bool:
        """True if a segment of the front that still exists was distributed, by the keydir's `known` segments."""
        if not self.logs or self.of(segment) or segment in known:
            return False
        runs = ((number, run.through) for number, run in known.items() if self.of(number))
        return any(self.front(first) <= segment <= self.front(through) for first, through in runs)

    def next_front(self, known: Iterable[int]) -> int:
        """The number of a new segment of the front: above all others, since distributed segments keep their numbers."""
        return self.front(max(known, default=0)) + self.stride


_NUMBERS: Final = (1, 0, 1)  # segment, generation, through


class JournalFile:
    """The writer's file. For one thread at a time.

    After a `failure` it is unknown what the next opening will find: nothing more is appended.
    """

    def __init__(self, env: Environment, path: Path, uid: bytes) -> None:
        self.path = path
        self.failure: BaseException | None = None
        self._env = env
        self._uid = uid
        self._file: File | None = None  # None: not created yet, or closed
        self.end = SEGMENT_HEADER_BYTES

    @property
    def draft(self) -> Path:
        """The path of its successor while it is written."""
        return self.path.with_name(self.path.name + paths.UNFINISHED)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Appends; durable on return. If it raises, see `cut_back`."""
        if self.failure is not None:
            raise VolumeDown(
                f"'{self.path}' is not written to after a failure ({self.failure}); open the archive again"
            )
        assert self._file is not None
        self._file.append(buffers)
        self._file.sync()
        self.end += sum(map(len, buffers))

    def cut_back(self) -> None:
        """Removes what a failed `write` left: after a failed sync, no later one would write it."""
        assert self._file is not None
        self._file.truncate(self.end)
        self._file.sync()

    def replace(self, entries: Sequence[Buffer]) -> None:
        """Replaces the journal by one with these entries; durable on return.

        Raises VolumeFull, and changes nothing, if there is no space for the draft.
        """
        files = self._env.files
        files.remove(self.draft)
        file = files.open(self.draft, writable=True, create=True)
        try:
            file.append([journal_header(self._uid), *entries])
            file.sync()
        except VolumeFull:
            file.close()
            files.remove(self.draft)
            raise
        file.close()
        try:
            files.rename(self.draft, self.path)
            files.sync_directory(self.path.parent)
            new = files.open(self.path, writable=True)
        except BaseException as error:
            self.failure = error  # the next opening finds either file
            raise
        if self._file is not None:
            self._file.close()
        self._file = new
        self.end = SEGMENT_HEADER_BYTES + sum(map(len, entries))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def journal_header(uid: bytes) -> bytes:
    """The first bytes of a volume's journal."""
    return pack_segment_header(SegmentHeader(uid, *_NUMBERS))


def require_own_journal(file: File, uid: bytes) -> None:
    """Raises DamagedBlock or FormatTooNew if it is not a journal of this volume."""
    if read_segment_header(file).uid != uid:
        raise DamagedBlock(f"'{file.path}' is of another volume; run 'holdfast check --repair'")


def acknowledged_bytes(file: File, uid: bytes) -> int:
    """The end of the journal of a writer that crashed, without the torn tail."""
    return torn_from(file, uid, SEGMENT_HEADER_BYTES, file.size(), 0)
