"""The ledger: what the entries of a log mean. The one place where an entry changes slots, counts and space.

The writer applies each entry as it appends it, recovery applies the tail, a rebuild applies everything, and `check`
applies everything to a scratch keydir and compares: all through `Ledger.apply`, so they cannot disagree.

An entry is dead once nothing depends on it: a block that was removed or replaced, a count that a later count or a
removal overrode. A removal (`count` 0) is dead from the start as far as space goes, but must outlive all dead blocks in
earlier segments, or a rebuild would bring them back; compaction sees to that. A ticket is dead space from the start,
too, and compaction keeps it as long as it is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.storage.block import COUNT, HEADER_BYTES, REPLICA, TICKET, Header
from holdfast.storage.volume import held
from holdfast.storage.volumes.idempotency import Kept, Sessions
from holdfast.storage.volumes.log.keydir import (
    BlockPlace,
    KeydirChange,
    Position,
    SegmentFacts,
    Slot,
    pack_facts,
    pack_position,
)
from holdfast.storage.volumes.log.ranges import SegmentRanges
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry


class LedgerSource(Protocol):
    """Where a ledger reads the state it starts from."""

    def slots(self, signature: bytes) -> tuple[Slot, ...]: ...
    def segments(self) -> dict[int, SegmentFacts]: ...
    def position(self) -> Position: ...
    def tickets(self) -> Iterator[tuple[bytes, Kept]]: ...


def find_slot(slots: tuple[Slot, ...], overflow: int, home: bytes) -> Slot | None:
    for slot in slots:
        if slot.overflow == overflow and slot.home == home:
            return slot
    return None


@dataclass(slots=True)
class _Undo:
    """What was there before the changes since `begin`."""

    position: Position
    slots: dict[bytes, tuple[Slot, ...] | None] = field(default_factory=dict)
    segments: dict[int, SegmentFacts | None] = field(default_factory=dict)


class SegmentLedger:
    """Not thread-safe: the owner's lock guards it."""

    def __init__(self, source: LedgerSource, lanes: SegmentRanges, *, remember_tickets: bool = True) -> None:
        """Who only reads has no use for tickets."""
        self._source = source
        self.lanes = lanes
        self._remember_tickets = remember_tickets
        self.reset()

    def reset(self) -> None:
        """Back to what the source holds; everything applied but not taken is forgotten."""
        self.position = self._source.position()
        self.segments = self._source.segments()
        self.slots_changed: dict[bytes, tuple[Slot, ...]] = {}
        self._slots_taken: dict[bytes, tuple[Slot, ...]] = {}
        self._segments_changed: set[int] = set()
        self._starts: dict[int, tuple[list[int], list[int]]] = {}  # by lane
        self._floors: dict[int, int] = {}  # by lane, while lanes are replayed
        self._sessions: Sessions | None = None
        self._undo: _Undo | None = None

    @property
    def sessions(self) -> Sessions:
        """What is remembered of commits with idempotency keys. Read from the source when it is first needed."""
        if self._sessions is None:
            self._sessions = Sessions(self._source.tickets())
        return self._sessions

    def begin(self) -> None:
        """What is applied from here on can be undone by `roll_back`, until `end`. Tickets are for after `end`."""
        self._undo = _Undo(self.position.copy())

    def end(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        """Everything is as it was at `begin`."""
        undo, self._undo = self._undo, None
        assert undo is not None
        self.position = undo.position
        for signature, slots in undo.slots.items():
            if slots is None:
                del self.slots_changed[signature]
            else:
                self.slots_changed[signature] = slots
        for segment, facts in undo.segments.items():
            if facts is not None:
                self.segments[segment] = facts
            else:
                del self.segments[segment]
                self._segments_changed.discard(segment)
                self._starts = {}

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        """Any thread may ask: a change is visible in at least one of the three places at any moment."""
        changed = self.slots_changed.get(signature)
        if changed is None:
            changed = self._slots_taken.get(signature)
        return self._source.slots(signature) if changed is None else changed

    def begin_segment(self, segment: int, generation: int, through: int) -> None:
        """A segment begins; the next entry is its first."""
        first = self.floor(segment) + 1
        if self._undo is not None:
            self._undo.segments[segment] = None
        self.segments[segment] = SegmentFacts(generation, through, first, SEGMENT_HEADER_BYTES)
        self._segments_changed.add(segment)
        self._starts = {}
        self._go_on(segment, SEGMENT_HEADER_BYTES)

    def next_segment(self) -> int:
        """The number of a segment that is to begin."""
        return self.lanes.next_front([*self.segments, self.position.segment])

    def floor(self, segment: int) -> int:
        """A serial that all entries of a segment exceed that is about to begin."""
        lane = self.lanes.of(segment)
        return self._floors.get(lane, 0) if lane else self.position.serial

    def _go_on(self, segment: int, offset: int) -> None:
        """The next entry of the segment is at this offset. Only at the front are there new ones."""
        if self.lanes.of(segment) == 0:
            self.position.segment, self.position.offset = segment, offset

    def replace_segments(self, old: list[int], new: Mapping[int, SegmentFacts]) -> None:
        """Others have taken the place of these segments; the slots follow by `patch_slots`."""
        for number in old:
            del self.segments[number]
        self.segments.update(new)
        self._segments_changed = self._segments_changed - set(old) | set(new)
        self._starts = {}

    def patch_slots(self, patched: dict[bytes, tuple[Slot, ...]]) -> None:
        """Blocks have moved: changes that are still to be taken must say so too."""
        self.slots_changed.update(
            (signature, slots) for signature, slots in patched.items() if signature in self.slots_changed
        )

    def correct(self, segment: int, facts: SegmentFacts) -> None:
        """The facts of a segment have been counted again."""
        self.segments[segment] = facts
        self._segments_changed.add(segment)

    def skip(self, segment: int, offset: int, length: int) -> None:
        """Damaged bytes take up space and nothing else."""
        facts = self.segments[segment]
        facts.bytes += length
        facts.dead_bytes += length
        self._segments_changed.add(segment)
        self._go_on(segment, offset + length)

    def apply_entry(self, entry: SegmentEntry, segment: int) -> None:
        """The entry, of whatever kind, is part of the log."""
        header = entry.header
        if header.kind == TICKET:
            self.occupy(header.serial, segment, entry.offset, header.length)
            if self._remember_tickets:
                self.sessions.apply(header.signature, Kept(header.serial, bytes(entry.data)))
        else:
            self.apply(header, segment, entry.offset)

    def occupy(self, serial: int, segment: int, offset: int, length: int) -> None:
        """A ticket takes up this place; `sessions` must be told what it says."""
        facts = self._changing(segment)
        facts.bytes += length
        facts.dead_bytes += length
        self._advance(serial, segment, offset + length)

    def _advance(self, serial: int, segment: int, end: int) -> None:
        """An entry has become part of the log."""
        position = self.position
        if (lane := self.lanes.of(segment)) == 0:
            position.serial, position.segment, position.offset = serial, segment, end
        else:  # replayed: other lanes may have had later ones
            self._floors[lane] = serial
            position.serial = max(position.serial, serial)

    def apply(self, header: Header, segment: int, offset: int, slots: tuple[Slot, ...] | None = None) -> None:
        """The block or count with this header, at this place, is part of the log. `slots`, if they are known."""
        facts = self._changing(segment)
        length = HEADER_BYTES + header.stored
        facts.bytes += length
        self._advance(header.serial, segment, offset + length)
        if slots is None:
            slots = self.slots(header.signature)
        if header.kind == COUNT:
            self._recount(header, facts, slots)
        else:
            self._place(header, BlockPlace(segment, facts.generation, offset, header.stored), facts, slots)

    def _place(self, header: Header, place: BlockPlace, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        facts.blocks += 1
        old = find_slot(slots, header.overflow, header.home)
        if old is not None:
            self._bury(header.signature, old)
            slots = tuple(slot for slot in slots if slot is not old)
        new = Slot(
            header.overflow,
            header.home,
            header.kind == REPLICA,
            *place,
            header.size,
            header.references,
            header.serial,
            header.serial,
        )
        self._change_slots(header.signature, (*slots, new))
        self._count(new, +1)

    def _recount(self, header: Header, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        old = find_slot(slots, header.overflow, header.home)
        if old is None or header.references == 0:
            facts.dead_bytes += HEADER_BYTES
        if old is None:
            return
        if header.references == 0:
            self._bury(header.signature, old)
            self._change_slots(header.signature, tuple(slot for slot in slots if slot is not old))
            return
        self._bury_count(header.signature, old)
        new = Slot(*old[:8], header.references, header.serial, old.serial)
        self._change_slots(header.signature, tuple(new if slot is old else slot for slot in slots))
        if not new.replica:
            difference = held(new.references) - held(old.references)
            self.position.references += difference
            self.position.referenced_bytes += difference * new.size

    def _bury(self, signature: bytes, slot: Slot) -> None:
        segment = self.segment_of(slot.serial, signature)  # not `slot.segment`: a compaction may be moving it now
        facts = self._changing(segment)
        facts.dead_bytes += HEADER_BYTES + slot.stored
        facts.dead_blocks += 1
        self._bury_count(signature, slot)
        self._count(slot, -1)

    def _bury_count(self, signature: bytes, slot: Slot) -> None:
        """The count entry that set this slot's references, if it is not the block itself, is of no use any more."""
        if slot.count_serial != slot.serial:
            self._changing(self.segment_of(slot.count_serial, signature)).dead_bytes += HEADER_BYTES

    def _changing(self, segment: int) -> SegmentFacts:
        """The facts of a segment, about to be changed."""
        facts = self.segments[segment]
        if self._undo is not None and segment not in self._undo.segments:
            self._undo.segments[segment] = facts.copy()
        self._segments_changed.add(segment)
        return facts

    def _change_slots(self, signature: bytes, slots: tuple[Slot, ...]) -> None:
        if self._undo is not None and signature not in self._undo.slots:
            self._undo.slots[signature] = self.slots_changed.get(signature)
        self.slots_changed[signature] = slots

    def _count(self, slot: Slot, sign: int) -> None:
        position = self.position
        if slot.replica:
            position.replicas += sign
            return
        position.blocks += sign
        position.content_bytes += sign * slot.size
        position.stored_bytes += sign * slot.stored
        position.references += sign * held(slot.references)
        position.referenced_bytes += sign * slot.size * held(slot.references)

    def segment_of(self, serial: int, signature: bytes) -> int:
        """The segment that holds, or held, the entry with this serial, which is about this signature."""
        lane = self.lanes.for_signature(signature)
        if lane not in self._starts:
            of = self.lanes.of
            ordered = sorted(
                (number for number in self.segments if of(number) in (0, lane)), key=lambda n: (of(n) == 0, n)
            )
            self._starts[lane] = (ordered, [self.segments[number].first_serial for number in ordered])
        numbers, starts = self._starts[lane]
        return numbers[max(bisect_right(starts, serial) - 1, 0)]

    def take(self) -> KeydirChange:
        """All changes since the last `take`, ready to be written to the source; then comes `settle`."""
        change = KeydirChange(
            self.slots_changed,
            {segment: pack_facts(self.segments[segment]) for segment in self._segments_changed},
            pack_position(self.position),
            self._sessions.take() if self._sessions is not None else {},
        )
        self._slots_taken = self.slots_changed  # before the next line: see `slots`
        self.slots_changed, self._segments_changed = {}, set()
        return change

    def settle(self) -> None:
        """The source has what was taken."""
        self._slots_taken = {}
