"""Compaction of a log volume: copies the live entries of a run of segments, in order, into one new segment (B14).

Online: puts, fetches and deletes continue. Bounded: one run at a time, so that the extra disk space is at most one
segment, and the memory one window. Safe at every kill point: the new segment is durable under its own name before any
slot points to it, the slots are durable before the old files are removed, and an interrupted switch is repeated at the
next opening.

Copied are: blocks and replicas that a slot points to, the current count entries, tickets that are still remembered, and
removals while an earlier segment holds dead blocks that a rebuild might otherwise bring back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from holdfast.env import File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, TICKET, Header
from holdfast.storage.volumes.group_commit import uninterruptible
from holdfast.storage.volumes.local import Compaction, Progress
from holdfast.storage.volumes.log.keydir import Keydir, KeydirChange, SegmentFacts, Slot, pack_facts
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.segment import (
    SEGMENT_HEADER_BYTES,
    Damage,
    SegmentEntry,
    damaged_header,
    lone_ticket,
    walk,
)
from holdfast.storage.volumes.log.segment_files import ListedSegment, SegmentFiles

if TYPE_CHECKING:
    from holdfast.storage.volumes.log.volume import LogVolume

COPY_BYTES = 4 << 20  # appended at once


@dataclass(slots=True)
class _Copy:
    """The result of copying one run."""

    blocks: int = 0
    skipped_bytes: int = 0
    skipped_blocks: int = 0


def compact(volume: LogVolume, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
    """Reclaims the space of dead entries in every segment where their share is at least `dead_share_min`."""
    volume.flush()
    tail = volume.ledger.segments.get(volume.ledger.position.segment)
    if tail is not None and tail.dead_bytes:
        volume.seal()
    segments = before = after = 0
    for run in plan(volume, dead_share_min):
        before += sum(volume.ledger.segments[number].bytes for number in run)
        after += compact_run(volume, run, progress)
        segments += len(run)
    return Compaction(segments, before, after)


def plan(volume: LogVolume, dead_share_min: float) -> list[list[int]]:
    """Runs of neighbouring sealed segments worth rewriting, each small enough for one segment."""
    limit = volume.settings.segment_bytes_max
    runs: list[list[int]] = []
    room, lane = 0, 0
    known, last = volume.keydir.segments(), volume.keydir.position().segment
    lanes = volume.segments.lanes
    for number in sorted(known, key=lambda n: (lanes.of(n), n)):
        if number == last:  # by the keydir: what is not durable yet may fail
            continue
        if lanes.of(number) != lane:
            room, lane = 0, lanes.of(number)
        facts = known[number]
        live = facts.bytes - facts.dead_bytes
        wanted = facts.dead_bytes > 0 and facts.dead_bytes >= dead_share_min * facts.bytes
        if not wanted and not (live <= limit // 4 and room >= live):
            room = 0
            continue
        if room >= live:
            runs[-1].append(number)
            room -= live
        else:
            runs.append([number])
            room = limit - live
    return runs


def compact_run(
    volume: LogVolume, run: list[int], progress: Progress | None = None, *, skip_damage: bool = False
) -> int:
    """Rewrites the run as one segment; returns its size. Durable on return. Damage raises, or is skipped."""
    volume.flush()
    volume.keydir.sync()  # from here on no replay needs the old segments
    known = volume.ledger.segments
    generation = max(known[number].generation for number in run) + 1
    through = max(known[number].through for number in run)
    file = volume.segments.create(run[0], generation, through)
    try:
        copied = _copy(volume, _entries(volume, run, progress), file, run[0], skip_damage=skip_damage)
    except HoldfastError:
        volume.segments.discard([file.path])  # it may take the disk's last space
        raise
    return _replace(volume, run, file, generation, copied)


@uninterruptible
def _replace(volume: LogVolume, run: list[int], file: File, generation: int, copied: _Copy) -> int:
    """Replaces the run by the new segment, in an order in which every interruption is harmless."""
    volume.segments.publish(file, run[0], generation)
    with volume.commits.exclusive():
        durable = volume.keydir.segments()
        old_paths = [volume.segments.path(number, durable[number].generation) for number in run]
        facts = _merged(durable, run, generation, file.size(), copied)
        gone: dict[int, bytes | None] = dict.fromkeys(run)
        volume.keydir.apply(KeydirChange(segments=gone | {run[0]: pack_facts(facts)}))
        expected = _merged(volume.ledger.segments, run, generation, file.size(), copied)
        volume.ledger.replace_segments(run, {run[0]: expected})
    _switch(volume, run[0], generation)
    volume.keydir.sync()
    volume.segments.discard(old_paths)
    return facts.bytes


def _merged(known: dict[int, SegmentFacts], run: list[int], generation: int, size: int, copied: _Copy) -> SegmentFacts:
    return SegmentFacts(
        generation,
        max(known[number].through for number in run),
        known[run[0]].first_serial,
        size,
        sum(known[number].dead_bytes for number in run) - copied.skipped_bytes,
        copied.blocks,
        max(0, sum(known[number].dead_blocks for number in run) - copied.skipped_blocks),  # damaged ones may not count
    )


def _switch(volume: LogVolume, segment: int, generation: int) -> None:
    """Points the slots to the new segment, a batch at a time, so that writers wait only milliseconds."""
    ledger = volume.ledger
    for batch in moved_entries(volume.segments, segment, generation):
        with volume.commits.exclusive():
            volume.keydir.apply(KeydirChange(relocated(batch, volume.keydir.slots)))
            pending = [moved for moved in batch if moved.header.signature in ledger.slots_changed]
            ledger.patch_slots(relocated(pending, ledger.slots))


def _copy(
    volume: LogVolume, steps: Iterator[tuple[File, SegmentEntry | Damage]], file: File, first: int, *, skip_damage: bool
) -> _Copy:
    copied = _Copy()
    keep_removals = holds_dead_blocks(volume, volume.segments.lanes.of(first), first)
    buffers: list[Buffer] = []
    gathered = 0
    for source, step in steps:
        if isinstance(step, Damage):
            if not skip_damage and not is_buried(volume, source, step):
                raise DamagedBlock(
                    f"cannot compact '{source.path}': damaged at {step.offset}: expected {step.expected}, "
                    f"found {step.found}; run 'holdfast check --repair'"
                )
            copied.skipped_bytes += step.length
            copied.skipped_blocks += not skip_damage
        elif is_needed(volume, step.header, keep_removals):
            copied.blocks += step.header.kind in (BLOCK, REPLICA)
            buffers.append(lone_ticket(step) if step.header.kind == TICKET else step.raw)
            gathered += len(step.raw)
        else:
            copied.skipped_bytes += len(step.raw)
            copied.skipped_blocks += step.header.kind in (BLOCK, REPLICA)
        if gathered >= COPY_BYTES:
            file.append(buffers)
            buffers, gathered = [], 0
    file.append(buffers)
    return copied


def _entries(
    volume: LogVolume, run: list[int], progress: Progress | None
) -> Iterator[tuple[File, SegmentEntry | Damage]]:
    for number in run:
        facts = volume.ledger.segments[number]
        file = volume.segments.file(number, facts.generation)
        for step in volume.segments.walk(number, file, file.size(), facts.first_serial - 1):
            if progress is not None:
                progress(step.length if isinstance(step, Damage) else len(step.raw))
            yield file, step


def holds_dead_blocks(volume: LogVolume, lane: int, before: int) -> bool:
    """True if segments that are replayed earlier hold blocks that a rebuild would bring back without removals."""
    known, lane_of = volume.keydir.segments(), volume.segments.lanes.of
    earlier = (number for number in known if (number < before if lane_of(number) == lane else lane == 0))
    return any(known[number].dead_blocks for number in earlier)


def is_buried(volume: LogVolume, file: File, damage: Damage) -> bool:
    """True if the damaged bytes were a block that was healed since."""
    header = damaged_header(file, damage)
    if header is None or header.kind not in (BLOCK, REPLICA):
        return False
    slot = find_slot(volume.keydir.slots(header.signature), header)
    return slot is not None and slot.serial > header.serial


def is_needed(volume: LogVolume, header: Header, keep_removals: bool) -> bool:
    """By the keydir, not the ledger: a change that is not durable yet must not make an entry obsolete."""
    if header.kind == COUNT and header.references == 0:
        return keep_removals
    if header.kind == TICKET:
        return volume.keydir.has_ticket(header.signature)
    slot = find_slot(volume.keydir.slots(header.signature), header)
    if slot is None:
        return False
    return header.serial == (slot.count_serial if header.kind == COUNT else slot.serial)


BATCH = 2_000
Lookup = Callable[[bytes], tuple[Slot, ...]]


class Moved(NamedTuple):
    """An entry that was copied into a compacted segment."""

    header: Header
    segment: int
    generation: int
    offset: int


def moved_entries(segments: SegmentFiles, segment: int, generation: int) -> Iterator[list[Moved]]:
    """Blocks and replicas of a compacted segment, in batches."""
    file = segments.file(segment, generation)
    steps = walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size())
    moved = (
        Moved(step.header, segment, generation, step.offset)
        for step in steps
        if isinstance(step, SegmentEntry) and step.header.kind in (BLOCK, REPLICA)
    )
    while batch := list(islice(moved, BATCH)):
        yield batch


def relocated(batch: list[Moved], lookup: Lookup) -> dict[bytes, tuple[Slot, ...]]:
    """The slots of these entries, pointing to their new places. Slots that have changed since are not included."""
    slots: dict[bytes, tuple[Slot, ...]] = {}
    for header, segment, generation, offset in batch:
        known = slots.get(header.signature) or lookup(header.signature)
        old = find_slot(known, header)
        if old is not None and old.serial == header.serial:
            new = old._replace(segment=segment, generation=generation, offset=offset)
            slots[header.signature] = tuple(new if slot is old else slot for slot in known)
    return slots


def finish_compactions(
    keydir: Keydir, segments: SegmentFiles, current: Iterable[ListedSegment], left: set[int]
) -> list[ListedSegment]:
    """Finishes after a crash between publishing compacted segments and discarding those they replace, `left`.

    The dead entries of the returned segments can only be counted after the log has been replayed: see `recount`.
    """
    known, lane_of = keydir.segments(), segments.lanes.of
    finished = []
    for listed in current:
        lane = lane_of(listed.segment)
        run = [n for n in known if listed.segment <= n <= listed.through and lane_of(n) == lane]
        if not run or not any(listed.segment <= n <= listed.through and lane_of(n) == lane for n in left):
            continue
        for batch in moved_entries(segments, listed.segment, listed.generation):
            keydir.apply(KeydirChange(relocated(batch, keydir.slots)))
        size = segments.file(listed.segment, listed.generation).size()
        first_serial = min(known[number].first_serial for number in run)
        facts = SegmentFacts(listed.generation, listed.through, first_serial, size)
        gone: dict[int, bytes | None] = dict.fromkeys(run)
        keydir.apply(KeydirChange(segments=gone | {listed.segment: pack_facts(facts)}))
        finished.append(listed)
    return finished


def recount(ledger: SegmentLedger, segments: SegmentFiles, listed: ListedSegment) -> None:
    """Counts the blocks and dead entries of a segment again, entry by entry."""
    file = segments.file(listed.segment, listed.generation)
    known = ledger.segments[listed.segment]
    facts = SegmentFacts(known.generation, known.through, known.first_serial, known.bytes)
    for step in walk(file, segments.uid, SEGMENT_HEADER_BYTES, file.size()):
        if isinstance(step, SegmentEntry):
            tally(facts, step.header, ledger.slots)
    ledger.correct(listed.segment, facts)


def tally(facts: SegmentFacts, header: Header, lookup: Lookup) -> None:
    """Adds an entry to the facts of its segment: is it a block, and is it dead?"""
    if header.kind == TICKET:
        facts.dead_bytes += header.length
        return
    slot = find_slot(lookup(header.signature), header)
    if header.kind == COUNT:
        facts.dead_bytes += 0 if slot and slot.count_serial == header.serial else HEADER_BYTES
    elif header.kind in (BLOCK, REPLICA):
        facts.blocks += 1
        if slot is None or slot.serial != header.serial:
            facts.dead_blocks += 1
            facts.dead_bytes += header.length
