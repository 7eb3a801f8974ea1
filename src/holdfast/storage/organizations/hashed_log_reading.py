"""Reading a hashed log: everything as from a log, save that a scan delivers blocks in the order of their signatures.

The order is that of the keys: signature, overflow, home. A mark is therefore a key and nothing else: whatever is
distributed or compacted meanwhile, no block crosses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.errors import DamagedBlock
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.keydir import Slot
from holdfast.storage.organizations.log import LogReader
from holdfast.storage.organizations.log_reading import SCAN_BATCH, SCAN_BATCH_BYTES, LogReading
from holdfast.storage.volume import Block, BlockKey, Mark

WHOLE_BYTES_MAX = 64 << 20  # a log up to this size is read in one stroke; blocks of a larger one are read one by one


class SortedReading(LogReading):
    """Any thread may call any method."""

    organization = "hashed-log"

    def scan(self, *, counted: bool = True, after: Mark | None = None) -> Iterator[list[Block]]:
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
