"""The `hashed-log` organization: a number of large logs, each for a range of signatures (B7, WebBase section 4.3.1).

What is committed arrives at the *front*, which is a log like any other: one append and one sync for many callers. The
front is the buffer of the paper, made durable. When a segment of it is full, it is distributed: what it holds for each
log is appended to that log in one stroke, as a segment of its own. Small segments of a log are joined from time to
time, and by compaction.

So additions cost little more than a log's, and a scan reads log after log and delivers sorted. See
`holdfast.storage.volumes.log.ranges` for the numbers of the segments.

Threads: as `LogVolume`. One at a time distributes or compacts; the others go on meanwhile.

Reading a hashed log: everything as from a log, save that a scan delivers blocks in the order of their signatures.

The order is that of the keys: signature, overflow, home. A mark is therefore a key and nothing else: whatever is
distributed or compacted meanwhile, no block crosses it.

Distributing a segment of a hashed log's front: what it holds for each lane becomes a segment of that lane.

Safe at every kill point: the new segments are durable under their own names before the keydir learns of them; it learns
of all of them, and forgets the old one, in one step; that step is durable before the old file goes. Whoever opens the
volume in between finds both: which of them count, the keydir tells, and without a keydir it is the old one
(`SegmentFiles.listing`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment, File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError
from holdfast.storage.block import HEADER_BYTES, TICKET
from holdfast.storage.identity import Identity
from holdfast.storage.volume import Block, BlockKey, IdempotencyKey, Operation, OperationResult, Result, ScanPosition
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.log.compaction import compact_run, holds_dead_blocks, is_buried, is_needed
from holdfast.storage.volumes.log.keydir import BlockPlace, KeydirChange, SegmentFacts, Slot, pack_facts
from holdfast.storage.volumes.log.relocation import Lookup, Moved, relocation, tally
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, SegmentEntry, lone_ticket, walk
from holdfast.storage.volumes.log.volume import SCAN_BATCH, SCAN_BATCH_BYTES, LogReader, LogReading, LogVolume
from holdfast.storage.volumes.spec import VolumeSpec

WHOLE_BYTES_MAX = 64 << 20  # a log up to this size is read in one stroke; blocks of a larger one are read one by one


class SortedReading(LogReading):
    """Any thread may call any method."""

    organization = "hashed-log"

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        lanes = self._segments.lanes
        first = lanes.for_signature(after.key.signature) if after is not None else 1
        for lane in range(first, lanes.logs + 1):
            batch: list[Block] = []
            batch_bytes = 0
            for block in self._blocks_of(lane, after.key if after is not None else None):
                batch.append(block)
                batch_bytes += len(block.encoded.data)
                if len(batch) >= SCAN_BATCH or batch_bytes >= SCAN_BATCH_BYTES:
                    yield batch
                    batch, batch_bytes = [], 0
            if batch:
                yield batch

    def _blocks_of(self, lane: int, after: BlockKey | None) -> Iterator[Block]:
        """The blocks of one log, and those on their way into it, sorted."""
        found = list(self._slots_of(lane, after))
        logs = self._read_whole(lane) if found else {}
        for key, slot in found:
            try:
                raw = logs.get((slot.segment, slot.generation))
                if raw is None:
                    yield self._read(key, slot)
                else:
                    end = slot.offset + HEADER_BYTES + slot.stored
                    yield self._parsed(key, slot, raw[slot.offset : end])
                continue
            except (DamagedBlock, FileNotFoundError):
                pass  # moved since it was looked up, or for `check` to report
            if (block := self._read_again(key)) is not None:
                yield block

    def _slots_of(self, lane: int, after: BlockKey | None) -> Iterator[tuple[BlockKey, Slot]]:
        lanes = self._segments.lanes
        start, end = lanes.first_signature(lane), lanes.first_signature(lane + 1)
        if after is not None:
            start = max(start, after.signature)
        for signature, slots in self._index.all_slots(start):
            if signature >= end:
                return
            keyed = [(BlockKey(signature, slot.overflow, slot.home), slot) for slot in slots]
            yield from sorted(each for each in keyed if after is None or each[0] > after)

    def _read_whole(self, lane: int) -> dict[tuple[int, int], memoryview]:
        """The segments of one log, each read in one stroke, by number and generation."""
        _, segments = self._index.facts()
        of = self._segments.lanes.of
        mine = [(number, facts) for number, facts in segments.items() if of(number) == lane]
        logs: dict[tuple[int, int], memoryview] = {}
        if sum(facts.bytes for _, facts in mine) > WHOLE_BYTES_MAX:
            return logs
        for number, facts in mine:
            try:
                file = self._segments.file(number, facts.generation)
            except FileNotFoundError:
                continue  # compacted meanwhile: its blocks are looked up again
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
    """What one lane gets."""

    segment: int
    keep_removals: bool
    size: int = SEGMENT_HEADER_BYTES
    buffers: list[Buffer] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)

    def take(self, entry: SegmentEntry) -> None:
        raw = lone_ticket(entry) if entry.header.kind == TICKET else entry.raw
        self.moved.append(Moved(entry.header, BlockPlace(self.segment, 0, self.size, entry.header.stored)))
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


PIECES_MAX = 8  # small segments of a log, before they are joined; small: up to a quarter of what they may be


class HashedLogVolume(SortedReading, LogVolume):
    """A hashed log open for writing."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        self._tidying = threading.Lock()
        size = min(settings.segment_bytes_max, settings.log_bytes_max)
        super().__init__(name, directory, identity, replace(settings, segment_bytes_max=size), env)
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
        """Distributes the segments of the front that have become full. What fails is left for the next time."""
        if self._tail_number == self._tidied or not self._tidying.acquire(blocking=False):
            return
        try:
            self._tidied = self._tail_number
            with suppress(HoldfastError):  # the commit is durable: a full disk, or damage, must not fail it
                self._distribute(None)
                for lane in range(1, self.segments.lanes.logs + 1):
                    if run := self._pieces(lane):
                        compact_run(self, run)
        finally:
            self._tidying.release()

    def _distribute(self, progress: Progress | None) -> Compaction:
        files = before = after = 0
        for front in sealed_fronts(self):
            files += 1
            before += self.keydir.segments()[front].bytes
            after += distribute(self, front, progress)
        return Compaction(files, before, after)

    def _pieces(self, lane: int) -> list[int]:
        """The small segments at the end of a log, if they are many, or together no longer small."""
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
        """Everything goes into its log; in each log, neighbours are joined, and what is dead is left out."""
        with self._tidying:
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
        """Neighbours in one log that together are no larger than a segment may be; alone, if much of one is dead."""
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


def open_hashed_log(spec: VolumeSpec) -> HashedLogVolume:
    """Opens for writing."""
    return HashedLogVolume(spec.name, spec.directory, spec.identity, spec.settings, spec.env)
