"""The `log` organization: append-only segments, a keydir, and group commit. The default.

A commit decides under the volume's lock what its operations mean, hands the resulting entries to the current group and
waits for it (`volumes/group_commit`). One caller thus pays one sync; sixteen share one. A commit with an idempotency
key writes one more entry, before its own, and is atomic.

Readers look up places in the keydir. Many blocks are read together (`gather`): places are looked up in one call, and
neighbours are read with one. Headers are then checked as columns: signature, sizes and encoding must be what the keydir
says, and both checksums must hold. A block for which any of that fails is left to the reader of single blocks, which
reports why.

Threads: any thread may call any method. The lock of the group commit guards the ledger and the gathering group; the
thread that leads a flush owns the tail file and writes the keydir. What must not be interrupted runs behind
`Uninterruptible`, away from the main thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from isal.isal_zlib import crc32

from holdfast.config import StoreSettings
from holdfast.env import Environment, File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, HEADER_BYTES, MAGIC, REPLICA, TICKET, Header
from holdfast.storage.identity import Identity
from holdfast.storage.volume import (
    Block,
    BlockFacts,
    BlockKey,
    Encoded,
    EncodedGroup,
    Gathered,
    IdempotencyKey,
    Operation,
    OperationResult,
    ScanPosition,
    VolumeStat,
)
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.group_commit import Group, GroupCommitted
from holdfast.storage.volumes.idempotency import Kept, Past, Sessions, key_name, pack_past, past_bytes
from holdfast.storage.volumes.log.keydir import KeydirChange, Position, SegmentFacts, Slot
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot
from holdfast.storage.volumes.log.lookup import FollowerIndex, WriterIndex
from holdfast.storage.volumes.log.recovery import open_keydir, recover
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, SegmentEntry, offset_behind, walk
from holdfast.storage.volumes.log.segment_files import SegmentFiles
from holdfast.storage.volumes.operations import Change, decide
from holdfast.storage.volumes.spec import VolumeSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


RUN_BYTES = 4 << 20  # read with one call, and a block more at most
GAP_BYTES = 32 << 10  # of other blocks, that are read rather than skipped
_CHECKED_BYTES = 310
# Where in a header the texts stand; see `holdfast.storage.block`.
_BEGIN, _SIGNATURE, _HOME = slice(0, 28), slice(87, 151), slice(161, 188)
_SIGNATURE_CHARS = _SIGNATURE.stop - _SIGNATURE.start
_ENCODING = slice(195, 227)  # codec, 12 bytes, and from the 24th on the dictionary
_SIZE, _STORED, _DATA_CRC, _HEADER_CRC = slice(233, 245), slice(253, 265), slice(294, 302), slice(310, 318)
_OWN_FIRST = b"00000 home -               "  # overflow 0, and no home: the volume's own block


def slot_type() -> Any:
    """A slot as the keydir packs it, for those that are alone under their signature."""
    import numpy as np

    return np.dtype(
        [
            ("overflow", "<u4"),
            ("replica", "u1"),
            ("home", "u1"),
            ("segment", "<u4"),
            ("generation", "<u4"),
            ("offset", "<u8"),
            ("stored", "<u8"),
            ("size", "<u8"),
            ("references", "<u8"),
            ("count_serial", "<u8"),
            ("serial", "<u8"),
        ]
    )


class _Read(NamedTuple):
    """Blocks as they were read, none of them checked; in the same order."""

    places: list[int]  # among the slots
    headers: list[memoryview]
    data: list[memoryview]


def gather(
    signatures: Sequence[bytes],
    packed: Sequence[bytes | None],
    open_file: Callable[[int, int], File],
    uid: bytes,
) -> Gathered:
    """The volume's own blocks, overflow 0, of the signatures; `packed` are their slots."""
    import numpy as np

    kind = slot_type()
    alone = [index for index, each in enumerate(packed) if each is not None and len(each) == kind.itemsize]
    slots = np.frombuffer(b"".join([packed[index] or b"" for index in alone]), kind)
    is_own = (slots["overflow"] == 0) & (slots["home"] == 0)
    if not is_own.all():
        alone = [index for index, own in zip(alone, is_own.tolist(), strict=True) if own]
        slots = slots[is_own]
    groups: list[EncodedGroup] = []
    read = _read(slots, open_file)
    if read.places:
        asked = [alone[place] for place in read.places]
        begin = MAGIC + BLOCK.ljust(8) + b" " + uid
        sound, encodings = _checked(read, slots[read.places], [signatures[index] for index in asked], begin)
        sizes = slots["size"][read.places].tolist()
        for encoding in np.unique(encodings[sound]).tolist():
            chosen = np.flatnonzero(sound & (encodings == encoding)).tolist()
            columns = [asked[each] for each in chosen], [sizes[each] for each in chosen]
            data = [read.data[each] for each in chosen]
            groups.append(EncodedGroup(encoding[:12].rstrip().decode(), int(encoding[24:32], 16), *columns, data))
    if sum([len(group.indexes) for group in groups]) == len(signatures):
        return Gathered(groups, [])
    found = {index for group in groups for index in group.indexes}
    return Gathered(groups, [index for index in range(len(signatures)) if index not in found])


def _read(slots: NDArray[Any], open_file: Callable[[int, int], File]) -> _Read:
    import numpy as np

    order = np.lexsort((slots["offset"], slots["generation"], slots["segment"]))
    slots = slots[order]
    begins, datas = slots["offset"].tolist(), (slots["offset"] + HEADER_BYTES).tolist()
    ends = (slots["offset"] + HEADER_BYTES + slots["stored"]).tolist()
    places = order.tolist()
    read = _Read([], [], [])
    for first, behind in _runs(slots):
        start, size = begins[first], max(ends[first:behind]) - begins[first]
        try:
            raw = memoryview(open_file(int(slots["segment"][first]), int(slots["generation"][first])).read(start, size))
        except FileNotFoundError:  # compacted since
            continue
        if len(raw) != size:
            continue
        read.places.extend(places[first:behind])
        read.headers.extend([raw[at - start : at - start + HEADER_BYTES] for at in begins[first:behind]])
        bounds = zip(datas[first:behind], ends[first:behind], strict=True)
        read.data.extend([raw[at - start : end - start] for at, end in bounds])
    return read


def _runs(slots: NDArray[Any]) -> Iterable[tuple[int, int]]:
    """Slots in the order of files and offsets, cut where they do not lie close together in one file."""
    import numpy as np

    begins, files = slots["offset"], slots[["segment", "generation"]]
    ends = begins + HEADER_BYTES + slots["stored"]
    firsts = np.ones(len(slots), bool)
    firsts[1:] = (files[1:] != files[:-1]) | (begins[1:] > ends[:-1] + GAP_BYTES)
    parts = (begins - begins[firsts][np.cumsum(firsts) - 1]) // RUN_BYTES  # of runs that are too long
    firsts[1:] |= parts[1:] != parts[:-1]
    return pairwise([*np.flatnonzero(firsts).tolist(), len(slots)])


def _checked(
    read: _Read, slots: NDArray[Any], signatures: list[bytes], begin: bytes
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which blocks are sound, and how each is encoded."""
    import numpy as np

    headers = np.frombuffer(b"".join(read.headers), np.uint8).reshape(-1, HEADER_BYTES)
    expected = np.full((len(headers), _SIGNATURE_CHARS), 32, np.uint8)
    texts = np.frombuffer(b"".join(signatures).hex().encode(), np.uint8).reshape(len(headers), -1)
    expected[:, : texts.shape[1]] = texts
    sound: NDArray[Any] = (headers[:, _BEGIN] == np.frombuffer(begin, np.uint8)).all(axis=1)
    sound &= (headers[:, _SIGNATURE] == expected).all(axis=1)
    sound &= (headers[:, _HOME] == np.frombuffer(_OWN_FIRST, np.uint8)).all(axis=1)
    sound &= _decimal(headers[:, _SIZE]) == slots["size"]
    sound &= _decimal(headers[:, _STORED]) == slots["stored"]
    sound &= _hexadecimal(headers[:, _HEADER_CRC]) == np.array([crc32(each[:_CHECKED_BYTES]) for each in read.headers])
    sound &= _hexadecimal(headers[:, _DATA_CRC]) == np.array([crc32(each) for each in read.data])
    width = _ENCODING.stop - _ENCODING.start
    return sound, np.ascontiguousarray(headers[:, _ENCODING]).view(f"S{width}").ravel()


def _decimal(digits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    import numpy as np

    powers = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.uint64)
    values: NDArray[np.uint64] = (digits - np.uint8(48)).astype(np.uint64) @ powers
    return values


def _hexadecimal(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    import numpy as np

    values = np.where(digits >= 97, digits - np.uint8(87), digits - np.uint8(48)).astype(np.int64)
    powers = 16 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    result: NDArray[np.int64] = values @ powers
    return result


MANY = 8  # keys that are looked up in one call
SCAN_BATCH = 512
SCAN_BATCH_BYTES = 8 << 20


class LogIndex(Protocol):
    """What the reading half must be told: where blocks are."""

    def slots(self, signature: bytes) -> tuple[Slot, ...]: ...
    def slots_of(self, signatures: list[bytes]) -> list[tuple[Slot, ...]]: ...
    def packed_slots_of(self, signatures: list[bytes]) -> list[bytes | None]: ...
    def signatures(self) -> Iterator[bytes]: ...
    def all_slots(self, start: bytes = b"") -> Iterator[tuple[bytes, tuple[Slot, ...]]]:
        """Every signature from `start` on with its slots, by ascending signature."""

    def facts(self) -> tuple[Position, dict[int, SegmentFacts]]:
        """Position with totals, and the segments."""

    def refresh(self) -> None:
        """Places may have changed since they were looked up."""


class LogReading:
    """Any thread may call any method."""

    organization = "log"

    def __init__(
        self, name: str, dictionaries: DictionaryShelf, env: Environment, segments: SegmentFiles, index: LogIndex
    ) -> None:
        self.name = name
        self._dictionaries = dictionaries
        self._env = env
        self._segments = segments
        self._index = index
        self.damage = KnownDamage(env, segments.directory)

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

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        self.damage.note(keys)

    def may_be_damaged(self) -> bool:
        return bool(self.damage.keys())

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        if len(keys) < MANY:
            return [self._fetch(key, self._index.slots(key.signature)) for key in keys]
        found = self._index.slots_of([key.signature for key in keys])
        return [self._fetch(key, slots) for key, slots in zip(keys, found, strict=True)]

    def gather(self, signatures: Sequence[bytes]) -> Gathered:
        packed = self._index.packed_slots_of(list(signatures))
        return gather(signatures, packed, self._segments.file, self._segments.uid)

    def _fetch(self, key: BlockKey, slots: tuple[Slot, ...]) -> Block | None:
        slot = find_slot(slots, key.overflow, key.home)
        if slot is None:
            return None
        try:
            return self._read(key, slot)
        except (DamagedBlock, FileNotFoundError):
            self._index.refresh()  # it may have been moved by a compaction, or be on its way into its file
        slot = find_slot(self._index.slots(key.signature), key.overflow, key.home)
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
        file = self._segments.file(slot.segment, slot.generation)
        return self._parsed(key, slot, file.read(slot.offset, HEADER_BYTES + slot.stored))

    def _parsed(self, key: BlockKey, slot: Slot, raw: Buffer) -> Block:
        """The block in these bytes, verified."""
        header = block.parse(raw)
        if header is None or header.signature != key.signature or header.stored != slot.stored:
            raise self._damaged(slot, "a header for this content", repr(bytes(raw[:28])), key)
        data = memoryview(raw)[HEADER_BYTES:]
        found = block.checksum(data)
        if found != header.checksum:
            raise self._damaged(slot, f"crc32 {header.checksum:08x}", f"{found:08x}", key)
        path = self._segments.path(slot.segment, slot.generation)
        return _block(header, data, slot.references, path, slot.offset)

    def _missing(self, segment: int, generation: int) -> DamagedBlock:
        path = self._segments.path(segment, generation)
        return DamagedBlock(f"segment '{path}' is missing; run 'holdfast check --repair'")

    def _damaged(self, slot: Slot, expected: str, found: str, key: BlockKey) -> DamagedBlock:
        path = self._segments.path(slot.segment, slot.generation)
        return DamagedBlock(
            f"cannot read block '{key.signature.hex()}' in '{path}' at {slot.offset}: "
            f"expected {expected}, found {found}; run 'holdfast check --repair'"
        )

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        # Serials up to `seen` are done with: compaction changes the segments, but keeps the order.
        seen = after.serial if after is not None else -1
        for file, end, has_dead in self._files_in_order(seen):
            batch: list[SegmentEntry] = []
            batch_bytes = 0
            start = SEGMENT_HEADER_BYTES
            if after is not None:
                start, after = self._behind(after, file, end), None  # the files that follow are all new
            for step in walk(file, self._segments.uid, start, end):
                if isinstance(step, Damage):
                    self._note_scanned(step)
                    continue
                if step.header.serial <= seen:
                    continue
                seen = step.header.serial
                if step.header.kind in (BLOCK, REPLICA):
                    batch.append(step)
                    batch_bytes += step.header.stored
                    if len(batch) >= SCAN_BATCH or batch_bytes >= SCAN_BATCH_BYTES:
                        yield self._live(batch, file.path, look_up=counted or has_dead)
                        batch, batch_bytes = [], 0
            if batch:
                yield self._live(batch, file.path, look_up=counted or has_dead)

    def _note_scanned(self, damage: Damage) -> None:
        """The scan goes on; that the block is damaged is remembered, if it is one that counts."""
        header = damage.header
        if header is not None and header.kind in (BLOCK, REPLICA):
            slot = find_slot(self._index.slots(header.signature), header.overflow, header.home)
            if slot is not None and slot.serial == header.serial:
                self.damage.note([BlockKey(header.signature, header.overflow, header.home)])

    def _behind(self, mark: ScanPosition, file: File, end: int) -> int:
        """Where in this file the entries behind the mark begin. The keydir knows, unless the block is gone."""
        slot = find_slot(self._index.slots(mark.key.signature), mark.key.overflow, mark.key.home)
        here = slot is not None and file.path == self._segments.path(slot.segment, slot.generation)
        if slot is not None and here and slot.serial == mark.serial:
            return slot.offset + HEADER_BYTES + slot.stored
        return offset_behind(file, self._segments.uid, SEGMENT_HEADER_BYTES, end, mark.serial)

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
                file = self._segments.file(number, generation)
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

    def _live(self, entries: list[SegmentEntry], path: Path, *, look_up: bool) -> list[Block]:
        if not look_up:
            return [_block(header, raw[HEADER_BYTES:], header.references, path, at) for at, header, raw in entries]
        found = self._index.slots_of([entry.header.signature for entry in entries])
        blocks = []
        for (offset, header, raw), slots in zip(entries, found, strict=True):
            slot = find_slot(slots, header.overflow, header.home)
            if slot is not None and slot.serial == header.serial:
                blocks.append(_block(header, raw[HEADER_BYTES:], slot.references, path, offset))
        return blocks

    def signatures(self) -> Iterator[bytes]:
        return self._index.signatures()

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        return self._dictionaries.newest() if number is None else self._dictionaries.read(number)

    def refresh(self) -> None:
        self._index.refresh()

    def stat(self) -> VolumeStat:
        position, segments = self._index.facts()
        return VolumeStat(
            organization=self.organization,
            blocks=position.blocks,
            replicas=position.replicas,
            references=position.references,
            content_bytes=position.content_bytes,
            stored_bytes=position.stored_bytes,
            referenced_bytes=position.referenced_bytes,
            disk_bytes=sum(facts.bytes for facts in segments.values()),
            dead_bytes=sum(facts.dead_bytes for facts in segments.values()),
            free_bytes=self._env.files.free_bytes(self._segments.directory),
            dictionaries=len(self._dictionaries.numbers()),
        )


def _block(header: Header, data: memoryview, references: int, path: Path, offset: int) -> Block:
    return Block(
        BlockKey(header.signature, header.overflow, header.home),
        header.kind == REPLICA,
        references,
        Encoded(header.codec.decode(), header.dictionary, header.size, data),
        path,
        offset,
        header.serial,
    )


def _facts(key: BlockKey, slot: Slot, damaged: Collection[BlockKey]) -> BlockFacts:
    return BlockFacts(key, slot.replica, slot.size, slot.stored, slot.references, key in damaged)


class LogReader(LogReading):
    """A log volume open for reading, while another process may write to it."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        segments = SegmentFiles(env, directory, identity.uid, settings.open_segments_max, identity.lanes)
        self._follower = FollowerIndex(directory, segments, settings.keydir_cache_bytes, env)
        super().__init__(name, DictionaryShelf(env, directory, identity), env, segments, self._follower)

    def close(self) -> None:
        self._follower.close()
        self._segments.close()


class LogBlocks:
    """The blocks of a volume as the ledger has them, for one commit. To be used with the volume's lock held."""

    def __init__(self, ledger: SegmentLedger, damage: KnownDamage) -> None:
        self._ledger = ledger
        self._damage = damage
        self.damaged: frozenset[BlockKey] | None = None  # None: not looked up yet
        self.slots: tuple[Slot, ...] | None = None  # of the operation's signature, if it has looked them up

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        slots = self.slots = self._ledger.slots(signature)
        if not slots:
            return ()
        damaged = self._known_damage()
        return [_facts(BlockKey(signature, slot.overflow, slot.home), slot, damaged) for slot in slots]

    def find(self, key: BlockKey) -> BlockFacts | None:
        slots = self.slots = self._ledger.slots(key.signature)
        slot = find_slot(slots, key.overflow, key.home)
        return _facts(key, slot, self._known_damage()) if slot is not None else None

    def require_counter(self, key: BlockKey) -> None:
        """The keydir has every counter."""

    def _known_damage(self) -> frozenset[BlockKey]:
        if self.damaged is None:
            self.damaged = self._damage.keys()
        return self.damaged


class LogVolume(GroupCommitted, LogReading):
    """A log volume open for writing."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.identity = identity
        self._ticketed = False  # a commit with an idempotency key has begun in this segment, and must end in it
        segments = SegmentFiles(env, directory, identity.uid, settings.open_segments_max, identity.lanes)
        dictionaries = DictionaryShelf(env, directory, identity)
        dictionaries.settle()
        self.keydir = open_keydir(directory, segments, settings)
        try:
            self.ledger = SegmentLedger(self.keydir, segments.lanes)
            recover(self.ledger, self.keydir, segments)
        except BaseException:
            self.keydir.abandon()
            raise
        GroupCommitted.__init__(self, name, self)
        index = WriterIndex(self.ledger, self.keydir, self.flush)
        LogReading.__init__(self, name, dictionaries, env, segments, index)
        self.segments = segments
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

    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        blocks = LogBlocks(self.ledger, self.damage)
        results = []
        for operation in operations:
            blocks.slots = None
            result, change = decide(operation, blocks)
            if change is not None:
                self._append(change, blocks.slots)
                if blocks.damaged and change.kind != COUNT:
                    blocks.damaged -= {change.key}  # written again, hence sound
            results.append(result)
        return results

    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        """All operations, behind an entry that keeps their outcomes; none of them, if one fails."""
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
            raise
        finally:
            self._ticketed = False
        if self.ledger.position.serial == serial and not void:  # nothing has changed: nothing to be remembered
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

    def _append(self, change: Change, slots: tuple[Slot, ...] | None) -> None:
        buffers = self._part()
        position = self.ledger.position
        header = change.header(self.identity, position.serial + 1, self._durable_serial)
        packed = block.pack(header)
        self.ledger.apply(header, position.segment, position.offset, slots)
        data = change.encoded.data
        buffers.extend((packed, data) if len(data) else (packed,))

    def _part(self) -> list[Buffer]:
        """Where the next entry goes: a new segment, if the current one is full."""
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

    def prepare(self) -> object:
        return self.ledger.take(), self.ledger.position.serial

    def write(self, group: Group, prepared: object) -> None:
        change, _ = _prepared(prepared)
        for segment, buffers in group.parts:
            if segment != self._tail_number:
                self._start_segment(segment)
            assert self._tail is not None
            self._tail.append(buffers)
            self._tail.sync()
        self._write_keydir(change)

    def _write_keydir(self, change: KeydirChange) -> None:
        """RocksDB accepts nothing more after a failed write, not even when there is space again."""
        try:
            self.keydir.write(change)
        except HoldfastError as error:
            self._failure = error
            raise

    def _start_segment(self, segment: int) -> None:
        self._segments.publish(self._segments.create(segment, 0, segment), segment, 0)
        self._tail, self._tail_number = self._segments.open_tail(segment, 0), segment

    def settle(self, prepared: object) -> None:
        self.ledger.settle()
        self._durable_serial = _prepared(prepared)[1]

    def abort(self, error: BaseException) -> None:
        """Out of space: back to the last durable state, and open for smaller things. Anything else: no more writes."""
        self.ledger.reset()
        if not isinstance(error, VolumeFull):
            self._failure = error
        if not isinstance(error, HoldfastError):
            return
        try:
            self._cut_back()  # also after a failed sync: no later one would write these bytes, so none may follow them
        except Exception as failure:  # whatever it is, the tail can no longer be trusted
            self._failure = failure

    def _cut_back(self) -> None:
        position = self.ledger.position
        if self._tail is None:
            return
        if self._tail_number != position.segment:
            stride = self.ledger.lanes.stride
            begun = range(position.segment + stride, self._tail_number + 1, stride)
            self._segments.discard([self._segments.path(number, 0) for number in begun])
            self._tail_number, self._tail = position.segment, None
            if position.segment:
                generation = self.ledger.segments[position.segment].generation
                self._tail = self._segments.open_tail(position.segment, generation)
        if self._tail is not None:
            self._tail.truncate(position.offset)
            self._tail.sync()

    # -- sealing and closing ------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Ends the current segment, so that compaction may touch it. Durable on return."""
        self.shield.run(self._seal)

    def _seal(self) -> None:
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
        """Everything acknowledged is safe with or without this; it makes the next opening fast."""
        self.shield.close()
        if self._failure is None:
            self.commits.flush()
            self.keydir.close()
        else:
            self.keydir.abandon()
        self._segments.close()
        self._tail = None


def _prepared(prepared: object) -> tuple[KeydirChange, int]:
    assert isinstance(prepared, tuple)
    change, serial = prepared
    return change, serial


def open_log(spec: VolumeSpec) -> LogVolume:
    """Opens for writing."""
    return LogVolume(spec.name, spec.directory, spec.identity, spec.settings, spec.env)
