"""The `log` organization: append-only segments, a keydir, and group commit. The default.

A commit decides under the volume's lock what its operations mean, hands the resulting entries to the current group and
waits for it (`holdfast.storage.commit`). One caller thus pays one sync; sixteen share one. A commit with a ticket
writes one more entry, before its own, and happens as a whole or not at all.

Threads: any thread may call any method. The lock of the group commit guards the ledger and the gathering group; the
thread that leads a flush owns the tail file and writes the keydir. What must not be interrupted is done behind a
`Shield`, away from the main thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment, File
from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES, TICKET, Header
from holdfast.storage.commit import Group
from holdfast.storage.identity import Identity
from holdfast.storage.keydir import KeydirChange, Slot
from holdfast.storage.ledger import Ledger
from holdfast.storage.organizations.committing import GroupCommitted
from holdfast.storage.organizations.dictionaries import DictionaryShelf
from holdfast.storage.organizations.log_decisions import LogDecisions
from holdfast.storage.organizations.log_index import FollowerIndex, WriterIndex
from holdfast.storage.organizations.log_reading import LogReading
from holdfast.storage.organizations.log_recovery import open_keydir, recover
from holdfast.storage.organizations.segments import SegmentFiles
from holdfast.storage.organizations.spec import VolumeSpec
from holdfast.storage.tickets import Kept, Past, Sessions, pack_past, past_bytes, ticket_name
from holdfast.storage.volume import (
    BlockKey,
    Encoded,
    Operation,
    Outcome,
    Ticket,
)


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


class LogVolume(GroupCommitted, LogReading):
    """A log volume open for writing."""

    def __init__(
        self, name: str, directory: Path, identity: Identity, settings: StoreSettings, env: Environment
    ) -> None:
        self.directory = directory
        self.settings = settings
        self.identity = identity
        self._algorithm = identity.signature.encode()
        self._ticketed = False  # a commit with a ticket has begun in this segment, and must end in it
        segments = SegmentFiles(env, directory, identity.uid, settings.open_segments_max, identity.lanes)
        dictionaries = DictionaryShelf(env, directory, identity)
        dictionaries.settle()
        self.keydir = open_keydir(directory, segments, settings)
        try:
            self.ledger = Ledger(self.keydir, segments.lanes)
            recover(self.ledger, self.keydir, segments)
        except BaseException:
            self.keydir.abandon()
            raise
        GroupCommitted.__init__(self, name, self)
        index = WriterIndex(self.ledger, self.keydir, self.flush)
        LogReading.__init__(self, name, dictionaries, env, segments, index)
        self._decisions = LogDecisions(self.ledger, self._append, self.damage.keys)
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

    def _perform(self, operations: Sequence[Operation]) -> list[Outcome]:
        return self._decisions.perform(operations)

    def _perform_once(self, operations: Sequence[Operation], ticket: Ticket, *, void: bool = False) -> list[Outcome]:
        """All operations, behind an entry that keeps their outcomes; none of them, if one fails."""
        name, length = ticket_name(ticket), past_bytes(operations)
        group, position = self.commits.current, self.ledger.position
        mark = group.mark()
        self.ledger.begin()
        try:
            buffers = self._part()
            self._ticketed = True
            slot, serial = len(buffers), position.serial + 1
            buffers.append(b"")
            self.ledger.occupy(serial, position.segment, position.offset, HEADER_BYTES + length)
            outcomes = self._decisions.perform(operations)
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
        data = pack_past(Past(sessions.settled(ticket), void, outcomes))
        assert len(data) == length
        entry = Encoded("none", 0, length, data)
        header = self._header(TICKET, BlockKey(name), entry, position.serial - serial, serial=serial)
        buffers[slot] = block.pack(header) + data
        sessions.apply(name, Kept(serial, data))
        return outcomes

    def _append(self, kind: bytes, key: BlockKey, encoded: Encoded, references: int, slots: tuple[Slot, ...]) -> None:
        buffers = self._part()
        header = self._header(kind, key, encoded, references)
        packed = block.pack(header)
        position = self.ledger.position
        self.ledger.apply(header, position.segment, position.offset, slots)
        buffers.extend((packed, encoded.data) if len(encoded.data) else (packed,))

    def _part(self) -> list[Buffer]:
        """Where the next entry goes: a new segment, if the current one is full."""
        position, group = self.ledger.position, self.commits.current
        if not self._ticketed and (position.segment == 0 or position.offset >= self.settings.segment_bytes_max):
            number = self.ledger.next_segment()
            self.ledger.begin_segment(number, 0, number)
        if not group.parts or group.parts[-1][0] != position.segment:
            group.parts.append((position.segment, []))
        return group.parts[-1][1]

    def _header(self, kind: bytes, key: BlockKey, encoded: Encoded, references: int, *, serial: int = 0) -> Header:
        return Header(
            kind,
            self.identity.uid,
            serial or self.ledger.position.serial + 1,
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
