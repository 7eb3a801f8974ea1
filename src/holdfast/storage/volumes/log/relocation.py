"""Switching from a run of segments to the compacted one that replaces it. Repeatable, so a crash costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, TICKET, Header
from holdfast.storage.volumes.log.keydir import BlockPlace, Keydir, KeydirChange, SegmentFacts, Slot, pack_facts
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry, walk
from holdfast.storage.volumes.log.segment_files import ListedSegment, SegmentFiles

BATCH = 2_000
Lookup = Callable[[bytes], tuple[Slot, ...]]


class Moved:
    """An entry that now stands in a compacted segment."""

    __slots__ = ("header", "place")

    def __init__(self, header: Header, place: BlockPlace) -> None:
        self.header = header
        self.place = place


def moved_entries(segments: SegmentFiles, segment: int, generation: int) -> Iterator[list[Moved]]:
    """Blocks and replicas of a compacted segment, in batches."""
    file = segments.file(segment, generation)
    steps = walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size())
    moved = (
        Moved(step.header, BlockPlace(segment, generation, step.offset, step.header.stored))
        for step in steps
        if isinstance(step, SegmentEntry) and step.header.kind in (BLOCK, REPLICA)
    )
    while batch := list(islice(moved, BATCH)):
        yield batch


def relocation(batch: list[Moved], lookup: Lookup) -> KeydirChange:
    """The change that points the slots of these entries to their new places. Slots that moved on are left alone."""
    slots: dict[bytes, tuple[Slot, ...]] = {}
    for moved in batch:
        header = moved.header
        known = slots.get(header.signature) or lookup(header.signature)
        old = find_slot(known, header.overflow, header.home)
        if old is not None and old.serial == header.serial:
            segment, generation, offset, _ = moved.place
            new = old._replace(segment=segment, generation=generation, offset=offset)
            slots[header.signature] = tuple(new if slot is old else slot for slot in known)
    return KeydirChange(slots, {}, None)


def finish_compactions(
    keydir: Keydir, segments: SegmentFiles, current: Iterable[ListedSegment], left: set[int]
) -> list[ListedSegment]:
    """After a crash between publishing compacted segments and discarding what they replace, the numbers `left`.

    What the returned segments hold of dead entries can only be told when the log has been replayed: see `recount`.
    """
    known, lane_of = keydir.segments(), segments.lanes.of
    finished = []
    for listed in current:
        lane = lane_of(listed.segment)
        run = [n for n in known if listed.segment <= n <= listed.through and lane_of(n) == lane]
        if not run or not any(listed.segment <= n <= listed.through and lane_of(n) == lane for n in left):
            continue
        for batch in moved_entries(segments, listed.segment, listed.generation):
            keydir.write(relocation(batch, keydir.slots))
        size = segments.file(listed.segment, listed.generation).size()
        first_serial = min(known[number].first_serial for number in run)
        facts = SegmentFacts(listed.generation, listed.through, first_serial, size)
        gone: dict[int, bytes | None] = dict.fromkeys(run)
        keydir.write(KeydirChange({}, gone | {listed.segment: pack_facts(facts)}, None))
        finished.append(listed)
    return finished


def recount(ledger: SegmentLedger, segments: SegmentFiles, listed: ListedSegment) -> None:
    """Blocks and dead entries of a segment, counted by looking at every one."""
    file = segments.file(listed.segment, listed.generation)
    known = ledger.segments[listed.segment]
    facts = SegmentFacts(known.generation, known.through, known.first_serial, known.bytes)
    for step in walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size()):
        if isinstance(step, SegmentEntry):
            tally(facts, step.header, ledger.slots)
    ledger.correct(listed.segment, facts)


def tally(facts: SegmentFacts, header: Header, lookup: Lookup) -> None:
    """Counts an entry of the segment: is it a block, and is it dead?"""
    if header.kind == TICKET:
        facts.dead_bytes += header.length
        return
    slot = find_slot(lookup(header.signature), header.overflow, header.home)
    if header.kind == COUNT:
        facts.dead_bytes += 0 if slot and slot.count_serial == header.serial else HEADER_BYTES
    elif header.kind in (BLOCK, REPLICA):
        facts.blocks += 1
        if slot is None or slot.serial != header.serial:
            facts.dead_blocks += 1
            facts.dead_bytes += header.length
