"""The `log` organization: append-only segments, a keydir, and group commit. The default.

A commit decides under the volume's lock what its operations mean, hands the resulting entries to the current group and
waits for it (`holdfast.storage.commit`). One caller thus pays one sync; sixteen share one.

Threads: any thread may call any method. The lock of the group commit guards the ledger and the gathering group; the
thread that leads a flush owns the tail file and writes the keydir. What must not be interrupted is done behind a
`Shield`, away from the main thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment, File
from holdfast.errors import HoldfastError, VolumeDown, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, REPLICA, Header
from holdfast.storage.commit import Group, GroupCommit
from holdfast.storage.identity import Identity
from holdfast.storage.keydir import KeydirChange, Slot
from holdfast.storage.ledger import Ledger, find_slot
from holdfast.storage.organizations.dictionaries import DictionaryShelf
from holdfast.storage.organizations.log_index import FollowerIndex, WriterIndex
from holdfast.storage.organizations.log_reading import LogReading
from holdfast.storage.organizations.log_recovery import open_keydir, recover
from holdfast.storage.organizations.segments import SegmentFiles
from holdfast.storage.shield import Shield
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Effect,
    Encoded,
    Operation,
    Outcome,
    Recount,
    Refer,
    Release,
    Store,
    next_key,
)

_NOTHING = Encoded("none", 0, 0, b"")


class LogReader(LogReading):
    """A log volume open for reading, while another process may write to it."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        segments = SegmentFiles(env, directory, identity.uid, settings.open_segments_max)
        self._follower = FollowerIndex(directory, segments, settings.keydir_cache_bytes, env)
        super().__init__(name, DictionaryShelf(env, directory, identity), env, segments, self._follower)

    def close(self) -> None:
        self._follower.close()
        self._segments.close()


class LogVolume(LogReading):
    """A log volume open for writing."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.identity = identity
        self._algorithm = identity.signature.encode()
        self._failure: BaseException | None = None
        segments = SegmentFiles(env, directory, identity.uid, settings.open_segments_max)
        dictionaries = DictionaryShelf(env, directory, identity)
        dictionaries.settle()
        self.keydir = open_keydir(directory, segments, settings)
        try:
            self.ledger = Ledger(self.keydir)
            recover(self.ledger, self.keydir, segments)
        except BaseException:
            self.keydir.abandon()
            raise
        self.commits = GroupCommit(self)
        self.shield = Shield(f"volume-{name}")
        index = WriterIndex(self.ledger, self.keydir, self.flush)
        super().__init__(name, dictionaries, env, segments, index)
        self.segments = segments
        self._durable_serial = self.ledger.position.serial
        self._tail_number = self.ledger.position.segment
        self._tail: File | None = None
        if self._tail_number:
            self._tail = segments.open_tail(self._tail_number, self.ledger.segments[self._tail_number].generation)

    def position(self) -> int:
        return self.ledger.position.serial

    # -- operations, under the lock -----------------------------------------------------------------------------

    def commit(self, operations: Sequence[Operation]) -> list[Outcome]:
        return self.shield.run(lambda: self._commit(operations))

    def _commit(self, operations: Sequence[Operation]) -> list[Outcome]:
        with self.commits.lock:
            self._refuse_after_failure()
            outcomes = [self._perform(operation) for operation in operations]
            group = self.commits.current
        if group.parts:
            self.commits.wait(group)
        return outcomes

    def flush(self) -> None:
        """Everything handed in before is durable, and in the keydir."""
        if not self.commits.idle:
            self.shield.run(self.commits.flush)

    def _perform(self, operation: Operation) -> Outcome:
        match operation:
            case Store():
                return self._store(operation)
            case Refer(key):
                return self._count(key, +1)
            case Release(key):
                return self._count(key, -1)
            case Adopt(key, encoded, references, replica):
                self._append(REPLICA if replica else BLOCK, key, encoded, references)
                return Outcome(Effect.NEW, key, references, len(encoded.data))
            case Recount(key, references, expected):
                return self._recount(key, references, expected)

    def _store(self, store: Store) -> Outcome:
        signature, encoded = store.signature, store.encoded
        slots = self.ledger.slots(signature)
        if slots and not store.force_new:
            for slot in slots:
                key = BlockKey(signature, slot.overflow, slot.home)
                if slot.home or slot.size != encoded.size:
                    continue
                if store.compared is None:
                    self._append_count(key, slot.references + 1, slots)
                    return Outcome(Effect.DUPLICATE, key, slot.references + 1, slot.stored)
                if key not in store.compared:
                    return Outcome(Effect.UNSURE, key)
        taken = [slot.overflow + 1 for slot in slots if not slot.home]
        key = next_key(signature, max([store.overflow_min, *taken]))
        self._append(BLOCK, key, encoded, store.references, slots)
        return Outcome(Effect.NEW, key, store.references, len(encoded.data))

    def _count(self, key: BlockKey, step: int) -> Outcome:
        slots = self.ledger.slots(key.signature)
        slot = find_slot(slots, key.overflow, key.home)
        if slot is None:
            return Outcome(Effect.MISSING, key)
        references = slot.references + step
        self._append_count(key, references, slots)
        return Outcome(Effect.COUNTED if references else Effect.REMOVED, key, references, slot.stored)

    def _recount(self, key: BlockKey, references: int, expected: int | None) -> Outcome:
        slot = find_slot(self.ledger.slots(key.signature), key.overflow, key.home)
        if slot is not None and expected not in (None, slot.references):
            return Outcome(Effect.CONFLICT, key, slot.references, slot.stored)
        return self._count(key, references - slot.references if slot is not None else 0)

    def _append_count(self, key: BlockKey, references: int, slots: tuple[Slot, ...] | None = None) -> None:
        self._append(COUNT, key, _NOTHING, references, slots)

    def _append(
        self, kind: bytes, key: BlockKey, encoded: Encoded, references: int, slots: tuple[Slot, ...] | None = None
    ) -> None:
        if slots is None:  # before anything changes: the keydir may fail
            slots = self.ledger.slots(key.signature)
        position, group = self.ledger.position, self.commits.current
        if position.segment == 0 or position.offset >= self.settings.segment_bytes_max:
            number = position.segment + 1
            self.ledger.begin_segment(number, 0, number)
        segment, offset = position.segment, position.offset
        header = Header(
            kind,
            self.identity.uid,
            position.serial + 1,
            self._durable_serial,
            self._algorithm,
            key.signature,
            key.overflow,
            key.home,
            encoded.codec.encode(),
            encoded.dictionary,
            encoded.size,
            len(encoded.data),
            references,
            block.checksum(encoded.data),
        )
        packed = block.pack(header)
        self.ledger.apply(header, segment, offset, slots)
        if not group.parts or group.parts[-1][0] != segment:
            group.parts.append((segment, []))
        group.parts[-1][1].extend((packed, encoded.data) if len(encoded.data) else (packed,))

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
            begun = range(position.segment + 1, self._tail_number + 1)
            self._segments.discard([self._segments.path(number, 0) for number in begun])
            self._tail_number, self._tail = position.segment, None
            if position.segment:
                generation = self.ledger.segments[position.segment].generation
                self._tail = self._segments.open_tail(position.segment, generation)
        if self._tail is not None:
            self._tail.truncate(position.offset)
            self._tail.sync()

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise VolumeDown(
                f"volume {self.name!r} refuses to write after a failure ({self._failure}); open the archive again"
            )

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
            number = self.ledger.position.segment + 1
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
