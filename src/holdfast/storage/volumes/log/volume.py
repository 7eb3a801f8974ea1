"""The `log` organization: append-only segments, a keydir, and group commit. The default.

A commit decides under the volume's lock what its operations do, adds the entries to the current group and waits for it
(`volumes/group_commit`). One caller pays one sync; sixteen share one. A commit with an idempotency key writes one more
entry, before its own, and is atomic.

Readers look up places in the keydir. Many blocks are read together (`bulk_read`), and scans read spans (`span`).

Threads: any thread may call any method. The lock of the group commit guards the ledger and the gathering group. The
thread that leads a flush owns the tail file and writes the keydir.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from isal.isal_zlib import crc32

from holdfast.env import File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, REPLICA, TICKET
from holdfast.storage.volume import (
    Block,
    BlockFacts,
    BlockKey,
    Encoded,
    Gathered,
    IdempotencyKey,
    Operation,
    OperationResult,
    ScanPosition,
    VolumeStat,
)
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.group_commit import Group, GroupCommitted, uninterruptible
from holdfast.storage.volumes.idempotency import Kept, Past, Sessions, key_name, pack_past, past_bytes
from holdfast.storage.volumes.local import LocalVolume, VolumeSpec, block_of, key_of
from holdfast.storage.volumes.log.bulk_read import gather
from holdfast.storage.volumes.log.follower import FollowerIndex
from holdfast.storage.volumes.log.keydir import Keydir, KeydirChange, Position, SegmentFacts, Slot
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.recovery import open_keydir, recover
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, offset_behind
from holdfast.storage.volumes.log.segment_files import SegmentFiles
from holdfast.storage.volumes.log.span import SPAN_BYTES, EntrySpan, walk_spans
from holdfast.storage.volumes.operations import Change, decide

MANY = 8  # keys that are looked up in one call


class LogReading(LocalVolume):
    """Any thread may call any method."""

    organization = "log"
    span_bytes = SPAN_BYTES  # read at once by a scan

    def __init__(self, spec: VolumeSpec, segments: SegmentFiles, index: FollowerIndex | WriterIndex) -> None:
        super().__init__(spec)
        self.segments = segments
        self._index = index

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        if len(signatures) < MANY:
            found = [self._index.slots(signature) for signature in signatures]
        else:
            found = self._index.slots_of(list(signatures))
        damaged = self.damage.keys() if any(found) else frozenset()
        return [
            tuple([_facts(BlockKey(signature, slot.overflow, slot.home), slot, damaged) for slot in slots])
            for signature, slots in zip(signatures, found, strict=True)
        ]

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        if len(keys) < MANY:
            return [self._fetch(key, self._index.slots(key.signature)) for key in keys]
        found = self._index.slots_of([key.signature for key in keys])
        return [self._fetch(key, slots) for key, slots in zip(keys, found, strict=True)]

    def fetch_up_to(self, keys: Sequence[BlockKey], bytes_max: int) -> list[Block | None]:
        """The first blocks, at least one, as many as have no more than `bytes_max` bytes of data together."""
        found = self._fitting(keys, bytes_max)
        return [self._fetch(key, slots) for key, slots in zip(keys, found, strict=False)]

    def _fitting(self, keys: Sequence[BlockKey], bytes_max: int) -> list[tuple[Slot, ...]]:
        """The slots of the keys that `fetch_up_to` reads."""
        found = self._index.slots_of([key.signature for key in keys])
        size = 0
        for count, (key, slots) in enumerate(zip(keys, found, strict=True)):
            if (slot := find_slot(slots, key)) is not None:
                size += slot.stored
            if count and size > bytes_max:
                return found[:count]
        return found

    def gather(self, signatures: Sequence[bytes]) -> Gathered:
        packed = self._index.packed_slots_of(list(signatures))
        return gather(signatures, packed, self.segments.file, self.segments.uid)

    def _fetch(self, key: BlockKey, slots: tuple[Slot, ...]) -> Block | None:
        slot = find_slot(slots, key)
        if slot is None:
            return None
        try:
            return self._read(key, slot)
        except (DamagedBlock, FileNotFoundError):
            self._index.refresh()  # a compaction may have moved it, or it is not in its file yet
        slot = find_slot(self._index.slots(key.signature), key)
        if slot is None:
            return None
        try:
            return self._read(key, slot)
        except DamagedBlock:
            self.damage.note([key])
            raise
        except FileNotFoundError:
            self.damage.note([key])
            raise self._missing(slot.segment, slot.generation) from None

    def _read(self, key: BlockKey, slot: Slot) -> Block:
        _, _, _, segment, generation, offset, stored, *_ = slot
        file = self.segments.file(segment, generation)
        return self._parsed(key, slot, file.read(offset, HEADER_BYTES + stored), file.path)

    def _parsed(self, key: BlockKey, slot: Slot, raw: Buffer, path: Path) -> Block:
        """The block in these bytes, verified. Raises DamagedBlock."""
        encoding = block.parse_encoding(raw, key.signature)
        if encoding is None or encoding.stored != slot.stored:
            raise self._damaged(slot, "a header for this content", repr(bytes(raw[:28])), key)
        codec, dictionary, size, _, checksum = encoding
        data = memoryview(raw)[HEADER_BYTES:]
        found = crc32(data)
        if found != checksum:
            raise self._damaged(slot, f"crc32 {checksum:08x}", f"{found:08x}", key)
        encoded = Encoded(codec, dictionary, size, data)
        return Block(key, slot.replica, slot.references, encoded, path, slot.offset, slot.serial)

    def _missing(self, segment: int, generation: int) -> DamagedBlock:
        path = self.segments.path(segment, generation)
        return DamagedBlock(f"segment '{path}' is missing; run 'holdfast check --repair'")

    def _damaged(self, slot: Slot, expected: str, found: str, key: BlockKey) -> DamagedBlock:
        path = self.segments.path(slot.segment, slot.generation)
        return DamagedBlock(
            f"cannot read block '{key.signature.hex()}' in '{path}' at {slot.offset}: "
            f"expected {expected}, found {found}; run 'holdfast check --repair'"
        )

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        # Serials up to `seen` are done with: compaction changes the segments, but keeps the order.
        seen = after.serial if after is not None else -1
        for file, end, has_dead in self._files_in_order(seen):
            start = SEGMENT_HEADER_BYTES
            if after is not None:
                start, after = self._behind(after, file, end), None  # the files that follow are all new
            for step in walk_spans(file, self.segments.uid, start, end, self.span_bytes):
                if isinstance(step, Damage):
                    self._note_scanned(step)
                    continue
                if isinstance(step, EntrySpan):
                    blocks = step.blocks(file.path, seen)
                elif step.header.serial > seen and step.header.kind in (BLOCK, REPLICA):
                    blocks = [block_of(step.header, step.data, step.header.references, file.path, step.offset)]
                else:
                    continue
                if blocks:
                    seen = blocks[-1].serial
                    if live := self._live(blocks) if counted or has_dead else blocks:
                        yield live

    def _note_scanned(self, damage: Damage) -> None:
        """Remembers that a block is damaged, if it is the current one; the scan continues."""
        header = damage.header
        if header is not None and header.kind in (BLOCK, REPLICA):
            slot = find_slot(self._index.slots(header.signature), header)
            if slot is not None and slot.serial == header.serial:
                self.damage.note([key_of(header)])

    def _behind(self, mark: ScanPosition, file: File, end: int) -> int:
        """The offset of the first entry after the mark, from the keydir unless the block is gone."""
        slot = find_slot(self._index.slots(mark.key.signature), mark.key)
        here = slot is not None and file.path == self.segments.path(slot.segment, slot.generation)
        if slot is not None and here and slot.serial == mark.serial:
            return slot.offset + HEADER_BYTES + slot.stored
        return offset_behind(file, self.segments.uid, SEGMENT_HEADER_BYTES, end, mark.serial)

    def _files_in_order(self, seen: int) -> Iterator[tuple[File, int, bool]]:
        """The segments that may hold serials after `seen`, their ends, and whether they hold dead blocks.

        After a compaction meanwhile, a segment may hold entries of earlier ones too.
        """
        position, segments = self._index.facts()
        left = sorted(segments)
        begun = [number for number in left if segments[number].first_serial <= seen + 1]
        left = left[max(0, len(begun) - 1) :]
        while left:
            number = left[0]
            generation = segments[number].generation
            if number != position.segment and segments[number].blocks <= segments[number].dead_blocks:
                left.pop(0)  # nothing in it counts: it may as well be missing
                continue
            try:
                file = self.segments.file(number, generation)
            except FileNotFoundError:
                self._index.refresh()
                position, segments = self._index.facts()
                if number in segments and segments[number].generation == generation:
                    raise self._missing(number, generation) from None
                left = [each for each in sorted(segments) if segments[each].through >= number]
                continue
            end = position.offset if number == position.segment else file.size()
            yield file, end, segments[number].dead_blocks > 0
            left.pop(0)

    def _live(self, blocks: list[Block]) -> list[Block]:
        """The blocks that are still in the volume, with their current counters."""
        found = self._index.slots_of([block.key.signature for block in blocks])
        slots = [find_slot(slots, block.key) for block, slots in zip(blocks, found, strict=True)]
        return [
            block._replace(references=slot.references)
            for block, slot in zip(blocks, slots, strict=True)
            if slot is not None and slot.serial == block.serial
        ]

    def signatures(self) -> Iterator[bytes]:
        return (signature for signature, _ in self._index.all_slots())

    def refresh(self) -> None:
        self._index.refresh()

    def stat(self) -> VolumeStat:
        position, segments = self._index.facts()
        disk_bytes = sum(facts.bytes for facts in segments.values())
        return self._stat(position, disk_bytes, sum(facts.dead_bytes for facts in segments.values()))


def _facts(key: BlockKey, slot: Slot, damaged: Collection[BlockKey]) -> BlockFacts:
    return BlockFacts(key, slot.replica, slot.size, slot.stored, slot.references, key in damaged)


class LogReader(LogReading):
    """A log volume open for reading, while another process may write to it."""

    def __init__(self, spec: VolumeSpec) -> None:
        segments = spec.segments()
        self._follower = FollowerIndex(spec, segments)
        super().__init__(spec, segments, self._follower)

    def close(self) -> None:
        self._follower.close()
        self.segments.close()


class WriterIndex:
    """The writer's view: the ledger first, then the keydir. Lookups of many signatures see acknowledged blocks only."""

    def __init__(self, ledger: SegmentLedger, keydir: Keydir, flush: Callable[[], None]) -> None:
        self._keydir = keydir
        self.refresh = flush  # a block may be looked up before it is in its file
        self.slots = ledger.slots
        self.slots_of = keydir.slots_of
        self.packed_slots_of = keydir.packed_slots_of

    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        self.refresh()
        return self._keydir.all_slots(start)

    def facts(self) -> tuple[Position, dict[int, SegmentFacts]]:
        self.refresh()
        return self._keydir.position(), self._keydir.segments()


class LogBlocks:
    """The blocks of a volume by the ledger. Used with the volume's lock held."""

    def __init__(self, ledger: SegmentLedger, damage: KnownDamage) -> None:
        self._ledger = ledger
        self._damage = damage
        self.damaged: frozenset[BlockKey] | None = None  # None: not looked up yet
        self.slots: tuple[Slot, ...] | None = None  # of the operation's signature, if it looked them up

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        slots = self.slots = self._ledger.slots(signature)
        if not slots:
            return ()
        damaged = self._known_damage()
        return [_facts(BlockKey(signature, slot.overflow, slot.home), slot, damaged) for slot in slots]

    def find(self, key: BlockKey) -> BlockFacts | None:
        slots = self.slots = self._ledger.slots(key.signature)
        slot = find_slot(slots, key)
        return _facts(key, slot, self._known_damage()) if slot is not None else None

    def forget_damage(self) -> None:
        """Known damage is looked up again when it is first needed."""
        self.damaged = None

    def require_counter(self, key: BlockKey) -> None:
        """The keydir has every counter."""

    def _known_damage(self) -> frozenset[BlockKey]:
        if self.damaged is None:
            self.damaged = self._damage.keys()
        return self.damaged


class LogVolume(GroupCommitted, LogReading):
    """A log volume open for writing."""

    def __init__(self, spec: VolumeSpec) -> None:
        self._ticketed = False  # a commit with an idempotency key has begun in this segment and must end in it
        segments = spec.segments()
        DictionaryShelf(spec.env, spec.directory, spec.identity).settle()
        self.keydir = open_keydir(spec.directory, segments, spec.settings)
        try:
            self.ledger = SegmentLedger(self.keydir, segments.lanes)
            recover(self.ledger, self.keydir, segments)
        except BaseException:
            self.keydir.abandon()
            raise
        GroupCommitted.__init__(self, self)
        LogReading.__init__(self, spec, segments, WriterIndex(self.ledger, self.keydir, self.flush))
        self._blocks = LogBlocks(self.ledger, self.damage)
        self._durable_serial = self.ledger.position.serial
        self._tail_number = self.ledger.position.segment
        self._tail: File | None = None
        if self._tail_number:
            self._tail = segments.open_tail(self._tail_number, self.ledger.segments[self._tail_number].generation)

    def position(self) -> int:
        return self.ledger.position.serial

    # -- operations, under the lock -----------------------------------------------------------------------------

    @property
    def _sessions(self) -> Sessions:
        return self.ledger.sessions

    def _begin(self) -> None:
        self._blocks.forget_damage()

    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        blocks, results = self._blocks, []
        for operation in operations:
            blocks.slots = None
            result, change = decide(operation, blocks)
            if change is not None:
                self._append(change, blocks.slots)
                if blocks.damaged and change.kind != COUNT:
                    blocks.damaged -= {change.key}  # written again, so it is sound
            results.append(result)
        return results

    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        """All operations, after an entry that keeps their results; none of them if one fails."""
        if len(operations) == 1:
            return [self._perform_one(operations[0], idempotency_key)]
        name, length = key_name(idempotency_key), past_bytes(operations)
        group, position = self.commits.current, self.ledger.position
        mark = group.mark()
        self.ledger.begin()
        try:
            buffers = self._part()
            self._ticketed = True
            slot, serial = len(buffers), position.serial + 1
            buffers.append(b"")
            self.ledger.occupy(serial, position.segment, position.offset, HEADER_BYTES + length)
            outcomes = self._perform(operations)
        except BaseException:
            self.ledger.roll_back()
            group.cut_back(mark)
            self._blocks.forget_damage()  # what it was to write again is still damaged
            raise
        finally:
            self._ticketed = False
        if self.ledger.position.serial == serial and not void:  # nothing changed: nothing to remember
            self.ledger.roll_back()
            group.cut_back(mark)
            return outcomes
        self.ledger.end()
        sessions = self.ledger.sessions
        data = pack_past(Past(sessions.settled(idempotency_key), void, outcomes))
        assert len(data) == length
        entry = Change(TICKET, BlockKey(name), Encoded("none", 0, length, data), position.serial - serial)
        buffers[slot] = entry.packed_header(self.identity, serial, self._durable_serial) + data
        sessions.apply(name, Kept(serial, data))
        return outcomes

    def _perform_one(self, operation: Operation, idempotency_key: IdempotencyKey) -> OperationResult:
        """As `_perform_once`: what can fail comes before the first change, so there is nothing to roll back."""
        name, blocks, ledger, identity = key_name(idempotency_key), self._blocks, self.ledger, self.identity
        blocks.slots = None
        result, change = decide(operation, blocks)
        if change is None:  # nothing to remember
            return result
        sessions, serial = ledger.sessions, ledger.position.serial + 1
        past = pack_past(Past(sessions.settled(idempotency_key), False, [result]))
        ticket = Change(TICKET, BlockKey(name), Encoded("none", 0, len(past), past), 1)
        header = change.header(identity, serial + 1, self._durable_serial)
        head = ticket.packed_header(identity, serial, self._durable_serial) + past + block.pack(header)
        buffers = self._part()
        position = ledger.position
        ledger.occupy(serial, position.segment, position.offset, HEADER_BYTES + len(past))
        ledger.apply(header, position.segment, position.offset, blocks.slots)
        buffers.append(head)
        if header.stored:
            buffers.append(change.encoded.data)
        if blocks.damaged and change.kind != COUNT:
            blocks.damaged -= {change.key}  # written again, so it is sound
        sessions.apply(name, Kept(serial, past))
        return result

    def _append(self, change: Change, slots: tuple[Slot, ...] | None) -> None:
        buffers = self._part()
        position = self.ledger.position
        header = change.header(self.identity, position.serial + 1, self._durable_serial)
        packed = block.pack(header)
        self.ledger.apply(header, position.segment, position.offset, slots)
        data = change.encoded.data
        buffers.extend((packed, data) if len(data) else (packed,))

    def _part(self) -> list[Buffer]:
        """The buffers for the next entry, in a new segment if the current one is full."""
        position, group = self.ledger.position, self.commits.current
        if not self._ticketed and (position.segment == 0 or position.offset >= self.settings.segment_bytes_max):
            number = self.ledger.next_segment()
            self.ledger.begin_segment(number, 0, number)
        if not group.parts or group.parts[-1][0] != position.segment:
            group.parts.append((position.segment, []))
        return group.parts[-1][1]

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._refuse_after_failure()
        self._dictionaries.add(number, data)

    # -- flushing: Flusher --------------------------------------------------------------------------------------

    def prepare(self) -> tuple[KeydirChange, int]:
        return self.ledger.take(), self.ledger.position.serial

    def write(self, group: Group, prepared: Any) -> None:
        for segment, buffers in group.parts:
            if segment != self._tail_number:
                self._start_segment(segment)
            assert self._tail is not None
            self._tail.append(buffers)
            self._tail.sync()
        self._write_keydir(prepared[0])

    def _write_keydir(self, change: KeydirChange) -> None:
        """A failed write is final: RocksDB accepts no more, even when there is space again."""
        try:
            self.keydir.apply(change)
        except HoldfastError as error:
            self._failure = error
            raise

    def _start_segment(self, segment: int) -> None:
        self.segments.publish(self.segments.create(segment, 0, segment), segment, 0)
        self._tail, self._tail_number = self.segments.open_tail(segment, 0), segment

    def settle(self, prepared: Any) -> None:
        self.ledger.settle()
        self._durable_serial = prepared[1]

    def abort(self, error: BaseException) -> None:
        """Out of space: returns to the last durable state, for smaller commits. Anything else: no more writes."""
        self.ledger.reset()
        if not isinstance(error, VolumeFull):
            self._failure = error
        if not isinstance(error, HoldfastError):
            return
        try:
            self._cut_back()  # also after a failed sync: later ones would not write these bytes
        except Exception as failure:  # the tail can no longer be trusted
            self._failure = failure

    def _cut_back(self) -> None:
        position = self.ledger.position
        if self._tail is None:
            return
        if self._tail_number != position.segment:
            stride = self.ledger.lanes.stride
            begun = range(position.segment + stride, self._tail_number + 1, stride)
            self.segments.discard([self.segments.path(number, 0) for number in begun])
            self._tail_number, self._tail = position.segment, None
            if position.segment:
                generation = self.ledger.segments[position.segment].generation
                self._tail = self.segments.open_tail(position.segment, generation)
        if self._tail is not None:
            self._tail.truncate(position.offset)
            self._tail.sync()

    # -- sealing and closing ------------------------------------------------------------------------------------

    @uninterruptible
    def seal(self) -> None:
        """Ends the current segment, so that it can be compacted. Durable on return."""
        self.commits.flush()
        with self.commits.exclusive():
            self._refuse_after_failure()
            if self.commits.current.parts or self.ledger.position.segment == 0:
                return
            number = self.ledger.next_segment()
            self._start_segment(number)
            self.ledger.begin_segment(number, 0, number)
            self._write_keydir(self.ledger.take())
            self.ledger.settle()

    def close(self) -> None:
        """Makes the next opening fast. Acknowledged blocks are safe without it."""
        if self._failure is None:
            self.commits.flush()
            self.keydir.close()
        else:
            self.keydir.abandon()
        self.segments.close()
        self._tail = None
