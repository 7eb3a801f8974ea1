"""Distributing a segment of a hashed log's front: what it holds for each lane becomes a segment of that lane.

Safe at every kill point: the new segments are durable under their own names before the keydir learns of them; it learns
of all of them, and forgets the old one, in one step; that step is durable before the old file goes. Whoever opens the
volume in between finds both: which of them count, the keydir tells, and without a keydir it is the old one
(`SegmentFiles.listing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.env import File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.block import TICKET
from holdfast.storage.keydir import KeydirChange, Place, SegmentFacts, pack_facts
from holdfast.storage.organizations.compaction import Progress
from holdfast.storage.organizations.log import LogVolume
from holdfast.storage.organizations.log_compaction import holds_dead_blocks, is_buried, is_needed
from holdfast.storage.organizations.log_relocation import Lookup, Moved, relocation, tally
from holdfast.storage.segment import SEGMENT_HEADER_BYTES, Damage, Entry, lone_ticket, walk


@dataclass(slots=True)
class _Share:
    """What one lane gets."""

    segment: int
    keep_removals: bool
    size: int = SEGMENT_HEADER_BYTES
    buffers: list[Buffer] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        raw = lone_ticket(entry) if entry.header.kind == TICKET else entry.raw
        self.moved.append(Moved(entry.header, Place(self.segment, 0, self.size, entry.header.stored)))
        self.buffers.append(raw)
        self.size += len(raw)

    def facts(self, lookup: Lookup, first_serial: int) -> SegmentFacts:
        facts = SegmentFacts(0, self.segment, first_serial, self.size)
        for moved in self.moved:
            tally(facts, moved.header, lookup)
        return facts


def sealed_fronts(volume: LogVolume) -> list[int]:
    """The segments of the front that get no more entries, the oldest first; by the keydir, as others may fail yet."""
    known, last = volume.keydir.segments(), volume.keydir.position().segment
    return sorted(number for number in known if volume.segments.lanes.of(number) == 0 and number < last)


def distribute(volume: LogVolume, front: int, progress: Progress | None = None) -> int:
    """Durable on return; says how many bytes were written. The oldest segment must come first. Damage stops it."""
    volume.flush()
    volume.keydir.sync()  # from here on no replay will need the old segment
    shares = _shares(volume, front, progress)
    drafts: list[tuple[File, int, int]] = []
    try:
        for share in shares:
            drafts.append((volume.segments.create(share.segment, 0, share.segment), share.segment, 0))
            drafts[-1][0].append(share.buffers)
        volume.segments.publish_all(drafts)
    except HoldfastError:
        paths = [file.path for file, _, _ in drafts]
        volume.segments.discard(paths + [volume.segments.path(share.segment, 0) for share in shares])
        raise
    return volume.shield.run(lambda: _switch(volume, front, shares))


def _shares(volume: LogVolume, front: int, progress: Progress | None) -> list[_Share]:
    lanes = volume.segments.lanes
    shares: dict[int, _Share] = {}
    for entry in _entries(volume, front, progress):
        lane = lanes.for_signature(entry.header.signature)
        share = shares.get(lane)
        if share is None:
            keep_removals = holds_dead_blocks(volume, lane, front + lane)
            share = shares[lane] = _Share(front + lane, keep_removals)
        if is_needed(volume, entry.header, share.keep_removals):
            share.take(entry)
    some = [share for share in shares.values() if share.moved]
    return some or [_Share(front + 1, False)]  # at least one, by which the keydir tells that it was distributed


def _entries(volume: LogVolume, front: int, progress: Progress | None) -> Iterator[Entry]:
    facts = volume.keydir.segments()[front]
    file = volume.segments.file(front, facts.generation)
    for step in walk(file, volume.segments.uid, SEGMENT_HEADER_BYTES, file.size(), facts.first_serial - 1):
        if isinstance(step, Damage):
            if is_buried(volume, file, step):
                continue
            raise DamagedBlock(
                f"cannot distribute '{file.path}': damaged at {step.offset}: expected {step.expected}, "
                f"found {step.found}; run 'holdfast check --repair'"
            )
        if progress is not None:
            progress(len(step.raw))
        yield step


def _switch(volume: LogVolume, front: int, shares: list[_Share]) -> int:
    """Keydir and ledger learn of it in one step."""
    ledger, keydir = volume.ledger, volume.keydir
    moved = [each for share in shares for each in share.moved]
    with volume.commits.exclusive():
        old = keydir.segments()[front]
        slots = dict(relocation(moved, keydir.slots).slots)
        facts = {share.segment: share.facts(keydir.slots, old.first_serial) for share in shares}
        packed: dict[int, bytes | None] = {number: pack_facts(each) for number, each in facts.items()}
        keydir.write(KeydirChange(slots, packed | {front: None}, None))
        if volume.commits.current.parts:  # entries that are not durable yet: the ledger is ahead
            pending = [each for each in moved if each.header.signature in ledger.slots_changed]
            ledger.patch_slots(dict(relocation(pending, ledger.slots).slots))
            facts = {share.segment: share.facts(ledger.slots, old.first_serial) for share in shares}
        ledger.replace_segments([front], facts)
    keydir.sync()
    volume.segments.discard([volume.segments.path(front, old.generation)])
    return sum(each.bytes for each in facts.values())
