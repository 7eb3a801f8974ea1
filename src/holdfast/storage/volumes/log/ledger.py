"""The ledger: the only place where an entry of a log changes slots, counters and space.

The writer applies each entry as it appends it, recovery applies the tail, a rebuild applies everything, and `check`
applies everything to a scratch keydir and compares. All use `SegmentLedger.apply`, so they cannot disagree.

An entry is dead once nothing depends on it: a block that was removed or replaced, a count that a later count or a
removal overrode. A removal (`count` 0) is dead space from the start, but must outlive all dead blocks in earlier
segments, or a rebuild would bring them back; compaction sees to that. A ticket is dead space from the start too;
compaction keeps it while it is remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.storage.block import COUNT, HEADER_BYTES, REPLICA, TICKET, Header
from holdfast.storage.volume import BlockKey, held
from holdfast.storage.volumes.idempotency import Kept, Sessions
from holdfast.storage.volumes.local import count_block
from holdfast.storage.volumes.log.keydir import (
    Keydir,
    KeydirChange,
    Position,
    SegmentFacts,
    Slot,
    pack_facts,
    pack_position,
)
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry, SegmentRanges


def find_slot(slots: tuple[Slot, ...], key: BlockKey | Header) -> Slot | None:
    """The slot of the block with this key, or of the block that an entry with this header is about."""
    for slot in slots:
        if slot.overflow == key.overflow and slot.home == key.home:
            return slot
    return None


@dataclass(slots=True)
class _Undo:
    """The state before the changes since `begin`."""

    position: Position
    slots: dict[bytes, tuple[Slot, ...] | None] = field(default_factory=dict)
    segments: dict[int, SegmentFacts | None] = field(default_factory=dict)


class SegmentLedger:
    """Not thread-safe: guarded by the owner's lock."""

    def __init__(self, source: Keydir, lanes: SegmentRanges, *, remember_tickets: bool = True) -> None:
        """A reader does not need to remember tickets."""
        self._source = source
        self.lanes = lanes
        self._remember_tickets = remember_tickets
        self.reset()

    def reset(self) -> None:
        """Returns to the state of the source; drops everything applied but not taken."""
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
        """The past of commits with idempotency keys, read from the source when first needed."""
        if self._sessions is None:
            self._sessions = Sessions(self._source.tickets())
        return self._sessions

    def begin(self) -> None:
        """Makes later changes revocable by `roll_back`, until `end`. Tickets must be applied after `end`."""
        self._undo = _Undo(self.position.copy())

    def end(self) -> None:
        self._undo = None

    def roll_back(self) -> None:
        """Restores the state of `begin`."""
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
        """Any thread may call: a change is visible in at least one of the three places at any moment."""
        changed = self.slots_changed.get(signature)
        if changed is None:
            changed = self._slots_taken.get(signature)
        return self._source.slots(signature) if changed is None else changed

    def begin_segment(self, segment: int, generation: int, through: int) -> None:
        """Begins a segment; the next entry is its first."""
        first = self.floor(segment) + 1
        if self._undo is not None:
            self._undo.segments[segment] = None
        self.segments[segment] = SegmentFacts(generation, through, first, SEGMENT_HEADER_BYTES)
        self._segments_changed.add(segment)
        self._starts = {}
        self._go_on(segment, SEGMENT_HEADER_BYTES)

    def next_segment(self) -> int:
        """The number of the next segment."""
        return self.lanes.next_front([*self.segments, self.position.segment])

    def floor(self, segment: int) -> int:
        """A serial that all entries of a segment about to begin will exceed."""
        lane = self.lanes.of(segment)
        return self._floors.get(lane, 0) if lane else self.position.serial

    def _go_on(self, segment: int, offset: int) -> None:
        """Sets the offset of the next entry. Only the front gets new ones."""
        if self.lanes.of(segment) == 0:
            self.position.segment, self.position.offset = segment, offset

    def replace_segments(self, old: list[int], new: Mapping[int, SegmentFacts]) -> None:
        """Replaces these segments by others; `patch_slots` updates the slots."""
        for number in old:
            del self.segments[number]
        self.segments.update(new)
        self._segments_changed = self._segments_changed - set(old) | set(new)
        self._starts = {}

    def patch_slots(self, patched: dict[bytes, tuple[Slot, ...]]) -> None:
        """Updates the slots of moved blocks in changes that are not taken yet."""
        self.slots_changed.update(
            (signature, slots) for signature, slots in patched.items() if signature in self.slots_changed
        )

    def correct(self, segment: int, facts: SegmentFacts) -> None:
        """Sets the facts of a segment that were counted again."""
        self.segments[segment] = facts
        self._segments_changed.add(segment)

    def skip(self, segment: int, offset: int, length: int) -> None:
        """Counts damaged bytes, which only take up space."""
        facts = self.segments[segment]
        facts.bytes += length
        facts.dead_bytes += length
        self._segments_changed.add(segment)
        self._go_on(segment, offset + length)

    def apply_entry(self, entry: SegmentEntry, segment: int) -> None:
        """Applies an entry of any kind."""
        header = entry.header
        if header.kind == TICKET:
            self.occupy(header.serial, segment, entry.offset, header.length)
            if self._remember_tickets:
                self.sessions.apply(header.signature, Kept(header.serial, bytes(entry.data)))
        else:
            self.apply(header, segment, entry.offset)

    def occupy(self, serial: int, segment: int, offset: int, length: int) -> None:
        """Counts the space of a ticket; the caller passes its past to `sessions`."""
        facts = self._changing(segment)
        facts.bytes += length
        facts.dead_bytes += length
        self._advance(serial, segment, offset + length)

    def _advance(self, serial: int, segment: int, end: int) -> None:
        """Moves the position after an entry."""
        position = self.position
        lane = self.lanes.of(segment) if self.lanes.logs else 0
        if lane == 0:
            position.serial, position.segment, position.offset = serial, segment, end
        else:  # replayed: other lanes may have had later ones
            self._floors[lane] = serial
            position.serial = max(position.serial, serial)

    def apply(self, header: Header, segment: int, offset: int, slots: tuple[Slot, ...] | None = None) -> None:
        """Applies the block or count with this header at this place. `slots`: its signature's, if known."""
        facts = self._changing(segment)
        length = HEADER_BYTES + header.stored
        facts.bytes += length
        self._advance(header.serial, segment, offset + length)
        if slots is None:
            slots = self.slots(header.signature)
        if header.kind == COUNT:
            self._recount(header, facts, slots)
        else:
            self._place(header, segment, offset, facts, slots)

    def _place(self, header: Header, segment: int, offset: int, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        facts.blocks += 1
        if slots and (old := find_slot(slots, header)) is not None:
            self._bury(header.signature, old)
            slots = tuple(slot for slot in slots if slot is not old)
        new = Slot(
            header.overflow,
            header.home,
            header.kind == REPLICA,
            segment,
            facts.generation,
            offset,
            header.stored,
            header.size,
            header.references,
            header.serial,
            header.serial,
        )
        self._change_slots(header.signature, (*slots, new) if slots else (new,))
        self._count(new, +1)

    def _recount(self, header: Header, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        old = find_slot(slots, header)
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
        """Counts the entry that set this slot's references as dead, unless that is the block itself."""
        if slot.count_serial != slot.serial:
            self._changing(self.segment_of(slot.count_serial, signature)).dead_bytes += HEADER_BYTES

    def _changing(self, segment: int) -> SegmentFacts:
        """The facts of a segment that is about to change."""
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
        count_block(self.position, sign, slot.replica, slot.size, slot.stored, slot.references)

    def segment_of(self, serial: int, signature: bytes) -> int:
        """The segment that holds, or held, the entry with this serial and signature."""
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
        """All changes since the last `take`, to be written to the source; `settle` follows."""
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
        """Called when the source has what was taken."""
        self._slots_taken = {}
