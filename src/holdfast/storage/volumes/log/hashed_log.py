"""The `hashed-log` organization: a number of large logs, each for a range of signatures (B7, WebBase section 4.3.1).

Commits arrive at the *front*, an ordinary log: one append and one sync for many callers. The front is the paper's
buffer, made durable. A full segment of the front is distributed: its entries for each log become a segment of that
log's lane (`log.segment`). Small segments of a log are joined from time to time, and by compaction. Commits cost little
more than in a log, and a scan reads log by log in the order of the keys: signature, overflow, home. A scan position is
only a key: distribution and compaction never move a block across it.

A distribution is safe at every kill point. The new segments are durable under their own names before the keydir knows
them. The keydir adds them and drops the old one in one step, which is durable before the old file is removed. If the
volume is opened in between, both exist: the keydir decides which count, and without a keydir the old one does
(`SegmentFiles.listing`).

Threads: as `LogVolume`. One thread at a time distributes or compacts, while the others continue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from holdfast.env import File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.block import HEADER_BYTES, TICKET
from holdfast.storage.volume import Block, BlockKey, IdempotencyKey, Operation, OperationResult, Result, ScanPosition
from holdfast.storage.volumes.group_commit import uninterruptible
from holdfast.storage.volumes.local import Compaction, Progress, VolumeSpec, batched
from holdfast.storage.volumes.log.compaction import (
    Lookup,
    Moved,
    compact_run,
    holds_dead_blocks,
    is_buried,
    is_needed,
    relocated,
    tally,
)
from holdfast.storage.volumes.log.keydir import KeydirChange, SegmentFacts, Slot, pack_facts
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, SegmentEntry, lone_ticket, walk
from holdfast.storage.volumes.log.volume import LogReader, LogReading, LogVolume

WHOLE_BYTES_MAX = 64 << 20  # a log up to this size is read at once, a larger one block by block


class SortedReading(LogReading):
    """Any thread may call any method."""

    organization = "hashed-log"

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        lanes, key = self.segments.lanes, after.key if after is not None else None
        first = lanes.for_signature(key.signature) if key is not None else 1
        for lane in range(first, lanes.logs + 1):
            yield from batched(self._blocks_of(lane, key))

    def _blocks_of(self, lane: int, after: BlockKey | None) -> Iterator[Block]:
        """The blocks of one log and those in the front that belong to it, sorted."""
        found = list(self._slots_of(lane, after))
        logs = self._read_whole(lane) if found else {}
        for key, slot in found:
            try:
                raw = logs.get((slot.segment, slot.generation))
                if raw is None:
                    yield self._read(key, slot)
                else:
                    end = slot.offset + HEADER_BYTES + slot.stored
                    path = self.segments.path(slot.segment, slot.generation)
                    yield self._parsed(key, slot, raw[slot.offset : end], path)
                continue
            except (DamagedBlock, FileNotFoundError):
                pass  # moved since, or damaged, which `check` reports
            if (block := self._read_again(key)) is not None:
                yield block

    def _slots_of(self, lane: int, after: BlockKey | None) -> Iterator[tuple[BlockKey, Slot]]:
        lanes = self.segments.lanes
        start, end = lanes.first_signature(lane), lanes.first_signature(lane + 1)
        if after is not None:
            start = max(start, after.signature)
        for signature, slots in self._index.all_slots(start):
            if signature >= end:
                return
            keyed = [(BlockKey(signature, slot.overflow, slot.home), slot) for slot in slots]
            yield from sorted(each for each in keyed if after is None or each[0] > after)

    def _read_whole(self, lane: int) -> dict[tuple[int, int], memoryview]:
        """The segments of one log, each read at once, by number and generation."""
        _, segments = self._index.facts()
        of = self.segments.lanes.of
        mine = [(number, facts) for number, facts in segments.items() if of(number) == lane]
        logs: dict[tuple[int, int], memoryview] = {}
        if sum(facts.bytes for _, facts in mine) > WHOLE_BYTES_MAX:
            return logs
        for number, facts in mine:
            try:
                file = self.segments.file(number, facts.generation)
            except FileNotFoundError:
                continue  # compacted since: its blocks are looked up again
            logs[number, facts.generation] = memoryview(file.read(0, facts.bytes))
        return logs

    def _read_again(self, key: BlockKey) -> Block | None:
        try:
            return self._fetch(key, self._index.slots(key.signature))
        except DamagedBlock:
            return None


class HashedLogReader(SortedReading, LogReader):
    """A hashed log open for reading, while another process may write to it."""


@dataclass(slots=True)
class _Share:
    """The part of a segment that goes to one lane."""

    segment: int
    keep_removals: bool
    size: int = SEGMENT_HEADER_BYTES
    buffers: list[Buffer] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)

    def take(self, entry: SegmentEntry) -> None:
        raw = lone_ticket(entry) if entry.header.kind == TICKET else entry.raw
        self.moved.append(Moved(entry.header, self.segment, 0, self.size))
        self.buffers.append(raw)
        self.size += len(raw)

    def facts(self, lookup: Lookup, first_serial: int) -> SegmentFacts:
        facts = SegmentFacts(0, self.segment, first_serial, self.size)
        for moved in self.moved:
            tally(facts, moved.header, lookup)
        return facts


def sealed_fronts(volume: LogVolume) -> list[int]:
    """The sealed segments of the front, the oldest first; by the keydir, since later ones may still fail."""
    known, last = volume.keydir.segments(), volume.keydir.position().segment
    return sorted(number for number in known if volume.segments.lanes.of(number) == 0 and number < last)


def distribute(volume: LogVolume, front: int, progress: Progress | None = None) -> int:
    """Distributes the oldest segment of the front; returns the bytes written. Durable. Raises DamagedBlock."""
    volume.flush()
    volume.keydir.sync()  # from here on no replay needs the old segment
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
    return _switch(volume, front, shares)


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
    return some or [_Share(front + 1, False)]  # at least one, which shows that it was distributed


def _entries(volume: LogVolume, front: int, progress: Progress | None) -> Iterator[SegmentEntry]:
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


@uninterruptible
def _switch(volume: LogVolume, front: int, shares: list[_Share]) -> int:
    """Switches keydir and ledger to the new segments in one step."""
    ledger, keydir = volume.ledger, volume.keydir
    moved = [each for share in shares for each in share.moved]
    with volume.commits.exclusive():
        old = keydir.segments()[front]
        slots = relocated(moved, keydir.slots)
        facts = {share.segment: share.facts(keydir.slots, old.first_serial) for share in shares}
        packed: dict[int, bytes | None] = {number: pack_facts(each) for number, each in facts.items()}
        keydir.apply(KeydirChange(slots, packed | {front: None}))
        if volume.commits.current.parts:  # the ledger has entries that are not durable yet
            pending = [each for each in moved if each.header.signature in ledger.slots_changed]
            ledger.patch_slots(relocated(pending, ledger.slots))
            facts = {share.segment: share.facts(ledger.slots, old.first_serial) for share in shares}
        ledger.replace_segments([front], facts)
    keydir.sync()
    volume.segments.discard([volume.segments.path(front, old.generation)])
    return sum(each.bytes for each in facts.values())


SEGMENT_BYTES_MAX = 16 << 20  # of the front, which is distributed when full; of a range, beyond which nothing is joined
PIECES_MAX = 8  # small segments of a log before they are joined; small: up to a quarter of the maximum


class HashedLogVolume(SortedReading, LogVolume):
    """A hashed log open for writing."""

    def __init__(self, spec: VolumeSpec) -> None:
        size = min(spec.settings.segment_bytes_max, SEGMENT_BYTES_MAX)
        super().__init__(replace(spec, settings=replace(spec.settings, segment_bytes_max=size)))
        self._tidied = self._tail_number

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        outcomes = super().commit(operations, idempotency_key)
        self._tidy()
        return outcomes

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]) -> list[Result]:
        results = super().commit_all(commits)
        self._tidy()
        return results

    def _tidy(self) -> None:
        """Distributes the full segments of the front. After a failure, the next commit tries again."""
        if self._tail_number == self._tidied or not self.compaction.acquire(blocking=False):
            return
        try:
            self._tidied = self._tail_number
            with suppress(HoldfastError):  # the commit is durable: a full disk, or damage, must not fail it
                self._distribute(None)
                for lane in range(1, self.segments.lanes.logs + 1):
                    if run := self._pieces(lane):
                        compact_run(self, run)
        finally:
            self.compaction.release()

    def _distribute(self, progress: Progress | None) -> Compaction:
        files = before = after = 0
        for front in sealed_fronts(self):
            files += 1
            before += self.keydir.segments()[front].bytes
            after += distribute(self, front, progress)
        return Compaction(files, before, after)

    def _pieces(self, lane: int) -> list[int]:
        """The small segments at the end of a log, if they are many or large together."""
        known, size_max = self.keydir.segments(), self.settings.segment_bytes_max
        pieces: list[int] = []
        room = size_max
        for number in sorted((each for each in known if self.segments.lanes.of(each) == lane), reverse=True):
            size = known[number].bytes
            if size > size_max // 4 or size > room:
                break
            pieces.insert(0, number)
            room -= size
        return pieces if len(pieces) >= PIECES_MAX or room < size_max // 2 else []

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction:
        """Distributes the front, then joins neighbours in each log without their dead entries."""
        self.flush()
        if self.ledger.position.offset > SEGMENT_HEADER_BYTES:
            self.seal()
        done = self._distribute(progress)
        files, before, after = done.files, done.bytes_before, done.bytes_after
        for run in self._runs(dead_share_min):
            files += len(run)
            before += sum(self.keydir.segments()[number].bytes for number in run)
            after += compact_run(self, run, progress)
        return Compaction(files, before, after)

    def _runs(self, dead_share_min: float) -> list[list[int]]:
        """Neighbours in one log that fit into one segment; or single segments with enough dead bytes."""
        known, lane_of = self.keydir.segments(), self.segments.lanes.of
        runs: list[list[int]] = []
        room, lane = 0, 0
        for number in sorted((each for each in known if lane_of(each)), key=lambda n: (lane_of(n), n)):
            live = known[number].bytes - known[number].dead_bytes
            if runs and lane_of(number) == lane and live <= room:
                runs[-1].append(number)
                room -= live
            else:
                runs.append([number])
                room, lane = self.settings.segment_bytes_max - live, lane_of(number)
        dead = {number: known[number].dead_bytes for number in known}
        return [
            run
            for run in runs
            if len(run) > 1 or (dead[run[0]] and dead[run[0]] >= dead_share_min * known[run[0]].bytes)
        ]
