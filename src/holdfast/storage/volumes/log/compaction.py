"""Compaction of a log volume: live entries of a run of segments are copied, in order, into one new segment (B14).

Online: stores, fetches and releases go on. Bounded: one run at a time, so the extra disk is at most one segment, and
memory is one window. Safe at every kill point: the new segment is durable under its own name before any slot points to
it, the slots are durable before the old files go, and an interrupted switch is repeated at the next opening.

What is copied: blocks and replicas that a slot points to, the count entries that are in force, tickets that are still
remembered, and removals as long as an earlier segment still holds dead blocks that a rebuild might otherwise bring back
to life.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.env import File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.block import BLOCK, COUNT, REPLICA, TICKET, Header
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.log.keydir import KeydirChange, SegmentFacts, pack_facts
from holdfast.storage.volumes.log.ledger import find_slot
from holdfast.storage.volumes.log.relocation import moved_entries, relocation
from holdfast.storage.volumes.log.segment import Damage, SegmentEntry, damaged_header, lone_ticket
from holdfast.storage.volumes.log.volume import LogVolume

COPY_BYTES = 4 << 20  # appended at once


@dataclass(slots=True)
class _Copy:
    """What one run became."""

    blocks: int = 0
    skipped_bytes: int = 0
    skipped_blocks: int = 0


def compact(volume: LogVolume, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
    """Reclaims the space of dead entries in every segment where they take at least this share of it."""
    volume.flush()
    if _dead_share(volume, volume.ledger.position.segment) > 0:
        volume.seal()
    segments = before = after = 0
    for run in plan(volume, dead_share_min):
        before += sum(volume.ledger.segments[number].bytes for number in run)
        after += compact_run(volume, run, progress)
        segments += len(run)
    return Compaction(segments, before, after)


def plan(volume: LogVolume, dead_share_min: float) -> list[list[int]]:
    """Runs of neighbouring sealed segments worth rewriting, each small enough to become one segment."""
    limit = volume.settings.segment_bytes_max
    runs: list[list[int]] = []
    room, lane = 0, 0
    known, last = volume.keydir.segments(), volume.keydir.position().segment
    lanes = volume.segments.lanes
    for number in sorted(known, key=lambda n: (lanes.of(n), n)):
        if number == last:  # by the keydir, for what is not durable yet may fail
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


def _dead_share(volume: LogVolume, number: int) -> float:
    facts = volume.ledger.segments.get(number)
    return facts.dead_bytes / facts.bytes if facts else 0.0


def compact_run(
    volume: LogVolume, run: list[int], progress: Progress | None = None, *, skip_damage: bool = False
) -> int:
    """Rewrites the run as one segment; returns its size. Durable on return. Damage stops it, or is left out."""
    volume.flush()
    volume.keydir.sync()  # from here on no replay will need the old segments
    known = volume.ledger.segments
    generation = max(known[number].generation for number in run) + 1
    through = max(known[number].through for number in run)
    file = volume.segments.create(run[0], generation, through)
    try:
        copied = _copy(volume, _entries(volume, run, progress), file, run[0], skip_damage=skip_damage)
    except HoldfastError:
        volume.segments.discard([file.path])  # it may be the disk's last space
        raise
    return volume.shield.run(lambda: _replace(volume, run, file, generation, copied))


def _replace(volume: LogVolume, run: list[int], file: File, generation: int, copied: _Copy) -> int:
    """Puts the new segment in the place of the run, in the order that makes every interruption harmless."""
    volume.segments.publish(file, run[0], generation)
    with volume.commits.exclusive():
        durable = volume.keydir.segments()
        old_paths = [volume.segments.path(number, durable[number].generation) for number in run]
        facts = _merged(durable, run, generation, file.size(), copied)
        gone: dict[int, bytes | None] = dict.fromkeys(run)
        volume.keydir.write(KeydirChange({}, gone | {run[0]: pack_facts(facts)}, None))
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
    """Points the slots to the new segment, a batch at a time, so that writers wait for milliseconds only."""
    ledger = volume.ledger
    for batch in moved_entries(volume.segments, segment, generation):
        with volume.commits.exclusive():
            volume.keydir.write(relocation(batch, volume.keydir.slots))
            pending = [moved for moved in batch if moved.header.signature in ledger.slots_changed]
            ledger.patch_slots(dict(relocation(pending, ledger.slots).slots))


def _copy(
    volume: LogVolume,
    steps: Iterator[tuple[File, SegmentEntry | Damage]],
    file: File,
    first: int,
    *,
    skip_damage: bool,
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
    """Whether segments that are replayed earlier hold blocks that a rebuild would bring back without removals."""
    known, lane_of = volume.keydir.segments(), volume.segments.lanes.of
    earlier = (number for number in known if (number < before if lane_of(number) == lane else lane == 0))
    return any(known[number].dead_blocks for number in earlier)


def is_buried(volume: LogVolume, file: File, damage: Damage) -> bool:
    """Whether the damaged bytes were a block that has been healed since: then nobody needs them."""
    header = damaged_header(file, damage)
    if header is None or header.kind not in (BLOCK, REPLICA):
        return False
    slot = find_slot(volume.keydir.slots(header.signature), header.overflow, header.home)
    return slot is not None and slot.serial > header.serial


def is_needed(volume: LogVolume, header: Header, keep_removals: bool) -> bool:
    """By the keydir, not by the ledger: what is not durable yet must not make an entry obsolete."""
    if header.kind == COUNT and header.references == 0:
        return keep_removals
    if header.kind == TICKET:
        return volume.keydir.has_ticket(header.signature)
    slot = find_slot(volume.keydir.slots(header.signature), header.overflow, header.home)
    if slot is None:
        return False
    return header.serial == (slot.count_serial if header.kind == COUNT else slot.serial)
