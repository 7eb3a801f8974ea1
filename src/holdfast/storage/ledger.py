"""The ledger: what the entries of a log mean. The one place where an entry changes slots, counts and space.

The writer applies each entry as it appends it, recovery applies the tail, a rebuild applies everything, and `check`
applies everything to a scratch keydir and compares: all through `Ledger.apply`, so they cannot disagree.

An entry is dead once nothing depends on it: a block that was removed or replaced, a count that a later count or a
removal overrode. A removal (`count` 0) is dead from the start as far as space goes, but must outlive all dead blocks in
earlier segments, or a rebuild would bring them back; compaction sees to that.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from holdfast.storage.block import COUNT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.keydir import (
    KeydirChange,
    Place,
    Position,
    SegmentFacts,
    Slot,
    pack_facts,
    pack_position,
)
from holdfast.storage.segment import SEGMENT_HEADER_BYTES


class LedgerSource(Protocol):
    """Where a ledger reads the state it starts from."""

    def slots(self, signature: bytes) -> tuple[Slot, ...]: ...
    def segments(self) -> dict[int, SegmentFacts]: ...
    def position(self) -> Position: ...


def find_slot(slots: tuple[Slot, ...], overflow: int, home: bytes) -> Slot | None:
    for slot in slots:
        if slot.overflow == overflow and slot.home == home:
            return slot
    return None


class Ledger:
    """Not thread-safe: the owner's lock guards it."""

    def __init__(self, source: LedgerSource) -> None:
        self._source = source
        self.reset()

    def reset(self) -> None:
        """Back to what the source holds; everything applied but not taken is forgotten."""
        self.position = self._source.position()
        self.segments = self._source.segments()
        self.slots_changed: dict[bytes, tuple[Slot, ...]] = {}
        self._slots_taken: dict[bytes, tuple[Slot, ...]] = {}
        self._segments_changed: set[int] = set()
        self._starts: tuple[list[int], list[int]] | None = None

    def slots(self, signature: bytes) -> tuple[Slot, ...]:
        """Any thread may ask: a change is visible in at least one of the three places at any moment."""
        changed = self.slots_changed.get(signature)
        if changed is None:
            changed = self._slots_taken.get(signature)
        return self._source.slots(signature) if changed is None else changed

    def begin_segment(self, segment: int, generation: int, through: int) -> None:
        """A segment begins; the next entry is its first."""
        first = self.position.serial + 1
        self.segments[segment] = SegmentFacts(generation, through, first, SEGMENT_HEADER_BYTES)
        self._segments_changed.add(segment)
        self._starts = None
        self.position.segment, self.position.offset = segment, SEGMENT_HEADER_BYTES

    def replace_segments(self, old: list[int], segment: int, facts: SegmentFacts) -> None:
        """A compacted segment has taken the place of a run of segments; the slots follow by `patch_slots`."""
        for number in old:
            del self.segments[number]
        self.segments[segment] = facts
        self._segments_changed = self._segments_changed - set(old) | {segment}
        self._starts = None

    def patch_slots(self, patched: dict[bytes, tuple[Slot, ...]]) -> None:
        """Blocks have moved: changes that are still to be taken must say so too."""
        self.slots_changed.update(
            (signature, slots) for signature, slots in patched.items() if signature in self.slots_changed
        )

    def correct(self, segment: int, facts: SegmentFacts) -> None:
        """The facts of a segment have been counted anew."""
        self.segments[segment] = facts
        self._segments_changed.add(segment)

    def skip(self, segment: int, offset: int, length: int) -> None:
        """Damaged bytes take up space and nothing else."""
        facts = self.segments[segment]
        facts.bytes += length
        facts.dead_bytes += length
        self._segments_changed.add(segment)
        self.position.offset = offset + length

    def apply(self, header: Header, segment: int, offset: int, slots: tuple[Slot, ...] | None = None) -> None:
        """The entry with this header, at this place, has become part of the log. `slots`, if they are known already."""
        facts = self.segments[segment]
        length = HEADER_BYTES + header.stored
        facts.bytes += length
        self._segments_changed.add(segment)
        position = self.position
        position.serial, position.segment, position.offset = header.serial, segment, offset + length
        if slots is None:
            slots = self.slots(header.signature)
        if header.kind == COUNT:
            self._recount(header, facts, slots)
        else:
            self._place(header, Place(segment, facts.generation, offset, header.stored), facts, slots)

    def _place(self, header: Header, place: Place, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        facts.blocks += 1
        old = find_slot(slots, header.overflow, header.home)
        if old is not None:
            self._bury(old)
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
        self.slots_changed[header.signature] = (*slots, new)
        self._count(new, +1)

    def _recount(self, header: Header, facts: SegmentFacts, slots: tuple[Slot, ...]) -> None:
        old = find_slot(slots, header.overflow, header.home)
        if old is None or header.references == 0:
            facts.dead_bytes += HEADER_BYTES
        if old is None:
            return
        if header.references == 0:
            self._bury(old)
            self.slots_changed[header.signature] = tuple(slot for slot in slots if slot is not old)
            return
        self._bury_count(old)
        new = Slot(*old[:8], header.references, header.serial, old.serial)
        self.slots_changed[header.signature] = tuple(new if slot is old else slot for slot in slots)
        if not new.replica:
            self.position.references += new.references - old.references
            self.position.referenced_bytes += (new.references - old.references) * new.size

    def _bury(self, slot: Slot) -> None:
        segment = self.segment_of(slot.serial)  # not `slot.segment`: a compaction may be moving it this moment
        facts = self.segments[segment]
        facts.dead_bytes += HEADER_BYTES + slot.stored
        facts.dead_blocks += 1
        self._segments_changed.add(segment)
        self._bury_count(slot)
        self._count(slot, -1)

    def _bury_count(self, slot: Slot) -> None:
        """The count entry that set this slot's references, if it is not the block itself, is of no use any more."""
        if slot.count_serial != slot.serial:
            segment = self.segment_of(slot.count_serial)
            self.segments[segment].dead_bytes += HEADER_BYTES
            self._segments_changed.add(segment)

    def _count(self, slot: Slot, sign: int) -> None:
        position = self.position
        if slot.replica:
            position.replicas += sign
            return
        position.blocks += sign
        position.content_bytes += sign * slot.size
        position.stored_bytes += sign * slot.stored
        position.references += sign * slot.references
        position.referenced_bytes += sign * slot.size * slot.references

    def segment_of(self, serial: int) -> int:
        """The segment that holds, or held, the entry with this serial."""
        if self._starts is None:
            ordered = sorted(self.segments)
            self._starts = (ordered, [self.segments[number].first_serial for number in ordered])
        numbers, starts = self._starts
        return numbers[max(bisect_right(starts, serial) - 1, 0)]

    def take(self) -> KeydirChange:
        """All changes since the last `take`, ready to be written to the source; then comes `settle`."""
        change = KeydirChange(
            self.slots_changed,
            {segment: pack_facts(self.segments[segment]) for segment in self._segments_changed},
            pack_position(self.position),
        )
        self._slots_taken = self.slots_changed  # before the next line: see `slots`
        self.slots_changed, self._segments_changed = {}, set()
        return change

    def settle(self) -> None:
        """The source has what was taken."""
        self._slots_taken = {}
