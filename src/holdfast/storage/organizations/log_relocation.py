"""Switching from a run of segments to the compacted one that replaces it. Repeatable, so a crash costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from holdfast.storage.block import BLOCK, COUNT, DICT, HEADER_BYTES, REPLICA, Header
from holdfast.storage.keydir import Keydir, KeydirChange, Place, SegmentFacts, Slot, pack_facts
from holdfast.storage.ledger import find_slot
from holdfast.storage.organizations.segments import Listed, SegmentFiles
from holdfast.storage.segment import SEGMENT_HEADER_BYTES, Entry, walk

BATCH = 2_000
Lookup = Callable[[bytes], tuple[Slot, ...]]


class Moved:
    """An entry that now stands in a compacted segment."""

    __slots__ = ("header", "place")

    def __init__(self, header: Header, place: Place) -> None:
        self.header = header
        self.place = place


def moved_entries(segments: SegmentFiles, segment: int, generation: int) -> Iterator[list[Moved]]:
    """Blocks and dictionaries of a compacted segment, in batches."""
    file = segments.file(segment, generation)
    steps = walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size())
    moved = (
        Moved(step.header, Place(segment, generation, step.offset, step.header.stored))
        for step in steps
        if isinstance(step, Entry) and step.header.kind != COUNT
    )
    while batch := list(islice(moved, BATCH)):
        yield batch


def relocation(batch: list[Moved], lookup: Lookup) -> KeydirChange:
    """The change that points the slots of these entries to their new places. Slots that moved on are left alone."""
    slots: dict[bytes, tuple[Slot, ...]] = {}
    dictionaries: dict[int, Place] = {}
    for moved in batch:
        header = moved.header
        if header.kind == DICT:
            dictionaries[header.dictionary] = moved.place
            continue
        known = slots.get(header.signature) or lookup(header.signature)
        old = find_slot(known, header.overflow, header.home)
        if old is not None and old.serial == header.serial:
            segment, generation, offset, _ = moved.place
            new = old._replace(segment=segment, generation=generation, offset=offset)
            slots[header.signature] = tuple(new if slot is old else slot for slot in known)
    return KeydirChange(slots, dictionaries, {}, None)


def finish_compactions(keydir: Keydir, segments: SegmentFiles, current: Iterable[Listed], left: set[int]) -> None:
    """After a crash between publishing compacted segments and discarding what they replace, the numbers `left`."""
    known = keydir.segments()
    for listed in current:
        run = [number for number in known if listed.segment <= number <= listed.through]
        if not run or not any(listed.segment <= number <= listed.through for number in left):
            continue
        for batch in moved_entries(segments, listed.segment, listed.generation):
            keydir.write(relocation(batch, keydir.slots))
        facts = _recounted(keydir, segments, listed, min(known[number].first_serial for number in run))
        gone: dict[int, bytes | None] = dict.fromkeys(run)
        keydir.write(KeydirChange({}, {}, gone | {listed.segment: pack_facts(facts)}, None))
    keydir.sync()


def _recounted(keydir: Keydir, segments: SegmentFiles, listed: Listed, first_serial: int) -> SegmentFacts:
    file = segments.file(listed.segment, listed.generation)
    facts = SegmentFacts(listed.generation, listed.through, first_serial, file.size())
    for step in walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size()):
        if not isinstance(step, Entry):
            continue
        header = step.header
        slot = find_slot(keydir.slots(header.signature), header.overflow, header.home)
        if header.kind == COUNT:
            facts.dead_bytes += 0 if slot and slot.count_serial == header.serial else HEADER_BYTES
        elif header.kind in (BLOCK, REPLICA):
            facts.blocks += 1
            if slot is None or slot.serial != header.serial:
                facts.dead_blocks += 1
                facts.dead_bytes += header.length
    return facts
