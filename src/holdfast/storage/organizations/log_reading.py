"""The reading half of a log volume, shared by the writer and by reader processes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.env import Environment, File
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.block import BLOCK, HEADER_BYTES, REPLICA, Header
from holdfast.storage.damage import KnownDamage
from holdfast.storage.keydir import Position, SegmentFacts, Slot
from holdfast.storage.ledger import find_slot
from holdfast.storage.organizations.dictionaries import DictionaryShelf
from holdfast.storage.organizations.log_bulk import gather
from holdfast.storage.organizations.segments import SegmentFiles
from holdfast.storage.segment import SEGMENT_HEADER_BYTES, Damage, Entry, offset_behind, walk
from holdfast.storage.volume import Block, BlockFacts, BlockKey, Encoded, Gathered, Mark, VolumeStat

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
            tuple([_facts(signature, slot, damaged) for slot in slots])
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

    def scan(self, *, counted: bool = True, after: Mark | None = None) -> Iterator[list[Block]]:
        # Serials up to `seen` are done with: compaction changes the segments, but keeps the order.
        seen = after.serial if after is not None else -1
        for file, end, has_dead in self._files_in_order(seen):
            batch: list[Entry] = []
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

    def _behind(self, mark: Mark, file: File, end: int) -> int:
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

    def _live(self, entries: list[Entry], path: Path, *, look_up: bool) -> list[Block]:
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


def _facts(signature: bytes, slot: Slot, damaged: Collection[BlockKey]) -> BlockFacts:
    key = BlockKey(signature, slot.overflow, slot.home)
    return BlockFacts(key, slot.replica, slot.size, slot.stored, slot.references, key in damaged)
