"""The redo journal: how commits reach the files of a tree or hash volume.

A commit is decided under the volume's lock. The thread that leads the flush makes the changes of the whole group
durable in the journal, as one transaction, then applies them to the files. So no byte is overwritten without another
durable copy. Changes are absolute: to apply them again leads to the same state.

The file `redo` has the form of a segment: a header, then transactions. A transaction is an entry of kind `state`, whose
`references` is the number of entries that follow: changes, and a `ticket` for each commit with an idempotency key. It
is atomic: an incomplete one at the end was never acknowledged.

    volume   state                        changes
    ------   --------------------------   ------------------------------------------------------------
    tree     nothing                      `block` and `replica` with their data, `count` with the counter
    hash     text, see `hash.state`       `page`: the bytes of a page, named by file and number

Opening applies again what may not be durable in the files: of a tree, which syncs its files after each transaction, the
last one; of a hash volume, all. After the files are synced (a *checkpoint*), the journal is replaced by one with only
the state and the remembered tickets.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.env import Environment, File, paths
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError, VolumeFull
from holdfast.model import Fault
from holdfast.storage.block import STATE, TICKET, Header
from holdfast.storage.identity import Identity
from holdfast.storage.volume import BlockKey, Encoded, IdempotencyKey, Operation, OperationResult
from holdfast.storage.volumes.group_commit import Group, GroupCommitted
from holdfast.storage.volumes.idempotency import Kept, Past, Sessions, key_name, pack_past
from holdfast.storage.volumes.local import LocalVolume, VolumeSpec, encoded_of, key_of
from holdfast.storage.volumes.log.segment import (
    SEGMENT_HEADER_BYTES,
    Damage,
    JournalFile,
    SegmentEntry,
    acknowledged_bytes,
    require_own_journal,
    walk,
)
from holdfast.storage.volumes.operations import Change, KnownBlocks, PlannedBlocks

Ticket = tuple[bytes, Kept]  # the name of an idempotency key, and the outcome kept for it


class JournalContents(NamedTuple):
    """What a journal holds."""

    state: bytes  # of the last transaction
    transactions: list[list[Change]]  # their changes
    tickets: list[Ticket]
    serial: int  # of the last entry
    end: int  # of the last whole transaction
    excess: int  # bytes after it, never acknowledged


def read_journal(file: File, identity: Identity) -> JournalContents:
    """All whole transactions. Raises DamagedBlock or FormatTooNew."""
    require_own_journal(file, identity.uid)
    size, end = file.size(), acknowledged_bytes(file, identity.uid)
    state, serial = None, 0
    transactions: list[list[Change]] = []
    tickets: list[Ticket] = []
    for step in walk(file, identity.uid, SEGMENT_HEADER_BYTES, end):
        if isinstance(step, Damage) or (state is None and step.header.kind != STATE):
            raise DamagedBlock(f"cannot read '{file.path}': it is damaged; run 'holdfast check --repair'")
        serial = step.header.serial
        if step.header.kind == STATE:
            state = bytes(step.data)
            transactions.append([])
        elif step.header.kind == TICKET:
            tickets.append(_ticket(step))
        else:
            transactions[-1].append(_change(step.header, bytes(step.data)))
    if state is None:
        raise DamagedBlock(f"cannot read '{file.path}': it has no state; run 'holdfast check --repair'")
    return JournalContents(state, transactions, tickets, serial, end, size - end)


def _ticket(entry: SegmentEntry) -> Ticket:
    return entry.header.signature, Kept(entry.header.serial, bytes(entry.data))


def _change(header: Header, data: bytes) -> Change:
    return Change(header.kind, key_of(header), encoded_of(header, memoryview(data)), header.references)


class RedoJournal(JournalFile):
    """The writer's journal. One thread at a time."""

    def __init__(self, env: Environment, directory: Path, identity: Identity) -> None:
        super().__init__(env, directory / paths.REDO, identity.uid)
        self._identity = identity
        self._serial = self._durable = 0
        self._least = SEGMENT_HEADER_BYTES  # its length when it was last replaced

    def open(self) -> JournalContents:
        """Reads the journal, cuts off a torn end and makes the rest durable. Raises as `read_journal`."""
        files = self._env.files
        files.remove(self.draft)
        files.sync_directory(self.path.parent)
        self._file = files.open(self.path, writable=True)
        contents = read_journal(self._file, self._identity)
        self.end = contents.end
        if contents.excess:
            self._file.truncate(self.end)
        self._file.sync()  # a killed process may have left it unsynced
        self.begin_behind(contents.serial)
        return contents

    def begin_behind(self, serial: int) -> None:
        """Serials continue after this one."""
        self._serial = self._durable = serial

    @property
    def next_serial(self) -> int:
        """A lower bound for the serial of the next entry."""
        return self._serial + 1

    def is_long(self, bytes_max: int) -> bool:
        """True if it is time to replace it. One with many remembered tickets may be longer."""
        return self.end > max(bytes_max, 2 * self._least)

    def append(self, state: bytes, changes: Sequence[Change], tickets: Sequence[Ticket]) -> None:
        """Appends a transaction, durable on return. If it raises, see `cut_back`."""
        self.write(self._packed(state, changes, tickets))
        self._durable = self._serial

    def read(self) -> JournalContents:
        """What it holds now."""
        assert self._file is not None
        return read_journal(self._file, self._identity)

    def renew(self, state: bytes, tickets: Sequence[Ticket]) -> None:
        """Starts again after a checkpoint. See `replace`."""
        self.replace(self._packed(state, (), tickets))
        self._durable, self._least = self._serial, self.end

    def _packed(self, state: bytes, changes: Sequence[Change], tickets: Sequence[Ticket]) -> list[Buffer]:
        entries = [
            Change(STATE, BlockKey(bytes(8)), _plain(state), len(changes) + len(tickets)),
            *changes,
            *(Change(TICKET, BlockKey(name), _plain(kept.data), 0) for name, kept in tickets),
        ]
        buffers: list[Buffer] = []
        for entry in entries:
            self._serial += 1
            buffers += (entry.packed_header(self._identity, self._serial, self._durable), entry.encoded.data)
        return buffers


def _plain(data: bytes) -> Encoded:
    return Encoded("none", 0, len(data), data)


class Prepared(NamedTuple):
    """What one group of commits changes."""

    changes: list[Change]
    tickets: list[Ticket]
    kept: list[Ticket] | None  # all tickets, if a checkpoint is due


class JournaledVolume(GroupCommitted, LocalVolume):
    """The commits of a volume with a journal.

    Commits are decided by the blocks in the files and the changes planned on top of them. The lock of the group commit
    guards the plan. The thread that leads a flush, or holds `commits.exclusive`, is alone with journal and files.
    """

    journal_bytes_max: int  # beyond it there is a checkpoint

    def __init__(self, spec: VolumeSpec) -> None:
        """After that of the reading half."""
        GroupCommitted.__init__(self, self)
        self._journal = RedoJournal(spec.env, spec.directory, spec.identity)
        self._remembered = Sessions()
        self._position = 0
        self._discard()

    @abstractmethod
    def _known_blocks(self) -> KnownBlocks:
        """The blocks as they are without the planned changes."""

    @abstractmethod
    def write(self, group: Group, prepared: Any) -> None:
        """As `Flusher`: writes the changes to the journal, then applies them to the files."""

    @abstractmethod
    def settle(self, prepared: object) -> None:
        """As `Flusher`."""

    @abstractmethod
    def _checkpoint(self, tickets: Sequence[Ticket]) -> None:
        """Starts the journal again, if there is space for it. All its changes are applied."""

    @property
    def _sessions(self) -> Sessions:
        return self._remembered

    def position(self) -> int:
        """Changes with every commit that changes something."""
        return self._position

    def _discard(self) -> None:
        """With the lock held: returns to the last durable state."""
        self._changes: list[Change] = []  # of the gathering group
        self._tickets: list[Ticket] = []
        self._known = self._known_blocks()
        self._plan = PlannedBlocks(self._known)

    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        if self.commits.idle:
            self._discard()
        outcomes, changes = self._plan.decide(operations)
        if changes:
            self._changes += changes
            self._position += 1
            self._gather()
        return outcomes

    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        name, before = key_name(idempotency_key), self._position
        outcomes = self._perform(operations)
        if self._position == before and not void:  # no change, nothing to remember
            return outcomes
        data = pack_past(Past(self._remembered.settled(idempotency_key), void, outcomes))
        kept = Kept(self._journal.next_serial, data)
        self._remembered.apply(name, kept)
        self._remembered.take()  # forgotten ones leave the journal at the next checkpoint
        self._tickets.append((name, kept))
        self._gather()
        return outcomes

    def _gather(self) -> None:
        """Marks the gathering group as not empty."""
        if not self.commits.current.parts:
            self.commits.current.parts.append((0, []))

    def _read_again(self) -> None:
        """With the lock held: forgets cached blocks that have changed. Planned changes stay."""
        self._known = self._known_blocks()
        self._plan = self._plan.over(self._known)

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._refuse_after_failure()
        self._dictionaries.add(number, data)

    # -- flushing: Flusher --------------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        kept = self._remembered.all_kept() if self._is_checkpoint_due() else None
        prepared = Prepared(self._changes, self._tickets, kept)
        self._changes, self._tickets = [], []
        self._plan = PlannedBlocks(self._plan)
        return prepared

    def _is_checkpoint_due(self) -> bool:
        return self._journal.is_long(self.journal_bytes_max)

    @contextmanager
    def _must_succeed(self) -> Iterator[None]:
        """After a failure inside, the volume refuses to write: the next opening replays the journal."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise

    def _drop_applied(self) -> None:
        """Takes the bytes of applied changes out of the journal: they may have been removed since (N2).

        For the holder of `commits.exclusive`. Tickets of commits that are not flushed yet stay out.
        """
        gathering = {name for name, _ in self._tickets}
        self._checkpoint([each for each in self._remembered.all_kept() if each[0] not in gathering])

    def abort(self, error: BaseException) -> None:
        """Returns to the last durable state. Accepts further writes if there was no space, or a bucket is damaged."""
        self._discard()
        if not isinstance(error, VolumeFull | DamagedBlock):
            self._failure = error
        if not isinstance(error, HoldfastError):
            return
        try:
            self._journal.cut_back()
            self._remembered = Sessions(self._journal.read().tickets)
            if isinstance(error, VolumeFull) and self._failure is None:
                self._checkpoint(self._remembered.all_kept())  # the journal may fill the disk
        except Exception as failure:  # the journal can no longer be trusted
            self._failure = failure

    def close(self) -> None:
        """Makes the next opening fast. Everything acknowledged is durable with or without it."""
        if self._failure is None:
            self.commits.flush()
            self._checkpoint(self._remembered.all_kept())
        self._journal.close()


# -- check and repair -------------------------------------------------------------------------------------------------


def check_journal(spec: VolumeSpec, notes: list[str]) -> JournalContents | Fault:
    """The contents of the journal, or its fault."""
    path = spec.directory / paths.REDO
    try:
        contents = read_journal(spec.env.files.open(path), spec.identity)
    except (FileNotFoundError, DamagedBlock) as error:
        return Fault(spec.name, str(path), 0, "damaged journal", "a journal", str(error), remedy="it can be rebuilt")
    if contents.excess:
        notes.append(f"'{path}' ends with {contents.excess} bytes that were never acknowledged")
    return contents


def set_aside(spec: VolumeSpec, path: Path) -> Path:
    """Moves a damaged file to `lost/`, durably; returns its new path."""
    target = spec.directory / paths.LOST / "-".join(path.relative_to(spec.directory).parts)
    move_file(spec.env, path, target)
    return target


def move_file(env: Environment, path: Path, target: Path) -> None:
    """Durable on return."""
    env.files.make_directory(target.parent)
    env.files.rename(path, target)
    env.files.sync_directory(target.parent)
    env.files.sync_directory(path.parent)


def applied_tickets(file: File, identity: Identity) -> list[Ticket]:
    """The readable tickets of a damaged journal, of transactions that are surely applied.

    These are the checkpoint it begins with, and any that another one followed. Entries of one transaction have the
    same `after`.
    """
    transactions: dict[int, list[SegmentEntry]] = {}
    for step in walk(file, identity.uid, SEGMENT_HEADER_BYTES, file.size()):
        if isinstance(step, SegmentEntry):
            transactions.setdefault(step.header.after, []).append(step)
    applied = list(transactions.values())
    if applied and applied[-1][0].offset > SEGMENT_HEADER_BYTES:
        applied.pop()
    return [_ticket(entry) for entries in applied for entry in entries if entry.header.kind == TICKET]
