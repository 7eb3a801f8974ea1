"""The journal of a tree volume: commits with idempotency keys, durable before the first file is changed for them.

It is a file like a segment (`tickets`): a header, then for each commit an entry of kind `ticket` and one entry for each
change of a file: `block` and `replica` with their data, `count` with the counter's value. The entry's `after` says up
to which serial all changes were durable in the files when it was written; a `mark` is an entry that says nothing else.

So what may have to be done again after a crash is what stands behind the highest `after`: the last batch. Nobody may
change a file of that batch in another way before a mark is durable; `TreeVolume` asks `unmarked` for every operation.

A journal that has grown is rewritten, with nothing but what is still remembered of commits. Without idempotency keys
there is no such file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.env import Environment, File, paths
from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, HoldfastError, VolumeDown, VolumeFull
from holdfast.storage.block import MARK, TICKET
from holdfast.storage.identity import Identity
from holdfast.storage.volume import BlockKey, Encoded
from holdfast.storage.volumes.idempotency import Kept, Sessions
from holdfast.storage.volumes.journal import JournalFile, acknowledged_bytes, journal_header, require_own_journal
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, SegmentEntry, lone_ticket, walk
from holdfast.storage.volumes.operations import NOTHING, Change

JOURNAL_BYTES_MAX: Final = 4 << 20  # beyond this it is rewritten
_SPARE_BYTES: Final = 64 << 10  # that must be free besides what a batch needs


class Promise(NamedTuple):
    """A commit with an idempotency key, decided: what is to be remembered under which name, and what it changes."""

    serial: int
    name: bytes
    data: bytes
    changes: list[Change]

    @property
    def end(self) -> int:
        """The serial of the next one."""
        return self.serial + 1 + len(self.changes)


class TreeJournal(JournalFile):
    """`append`, `done` and `renew` are for one thread at a time; `mark` is for any, with `unmarked` asked before."""

    def __init__(self, env: Environment, directory: Path, identity: Identity) -> None:
        super().__init__(env, directory / paths.TICKETS, identity)
        self.sessions = Sessions()
        self.unmarked: frozenset[bytes] = frozenset()  # signatures whose changes might be done again after a crash
        self._lock = threading.Lock()  # of the file
        self._serial = 0  # of the last entry
        self._applied = 0
        self._least = SEGMENT_HEADER_BYTES  # its length when it was written again

    # -- opening --------------------------------------------------------------------------------------------------

    def open(self, *, crashed: bool) -> list[Change]:
        """Reads what there is; returns what is to be done again. Raises DamagedBlock or FormatTooNew."""
        files = self._env.files
        files.remove(self.draft)
        if not files.exists(self.path):
            return []
        if crashed:  # a killed process may have left it unsynced, and what is done now must not outlive it
            files.sync_directory(self.path.parent)
        file = files.open(self.path, writable=True)
        end = sound_end(file, self._identity, crashed=crashed)
        if crashed:
            file.truncate(end)
            file.sync()
        self._file, self.end = file, end
        return self._load()

    def _load(self) -> list[Change]:
        """The state that the file tells."""
        assert self._file is not None
        self.sessions, self._serial, self._applied = Sessions(), 0, 0
        changes: list[tuple[int, Change]] = []
        for step in walk(self._file, self._identity.uid, SEGMENT_HEADER_BYTES, self.end):
            if isinstance(step, Damage):
                raise DamagedBlock(
                    f"cannot read '{self.path}' at {step.offset}: expected {step.expected}, found {step.found}; "
                    "run 'holdfast check --repair'"
                )
            header = step.header
            self._serial, self._applied = header.serial, max(self._applied, header.after)
            if header.kind == TICKET:
                self.sessions.apply(header.signature, Kept(header.serial, bytes(step.data)))
            elif header.kind != MARK:
                changes.append((header.serial, _change(step)))
        self._serial = max(self._serial, self._applied)
        again = [change for serial, change in changes if serial > self._applied]
        self.unmarked = frozenset(change.key.signature for change in again)
        return again

    # -- writing --------------------------------------------------------------------------------------------------

    def append(self, promises: Sequence[Promise]) -> None:
        """The promises are durable on return, and from then on must be kept: see `done`.

        `sessions` knows them already. If this raises, it no longer does, and nothing has happened.
        """
        with self._lock:
            try:
                buffers = list(self._packed(promises))
                self._require_space(sum(map(len, buffers)))
                self._write_or_cut_back(buffers)
            except BaseException:
                self._forget_promises()
                raise
            self._serial += sum(1 + len(promise.changes) for promise in promises)
            self.unmarked = frozenset(change.key.signature for promise in promises for change in promise.changes)
            self.sessions.take()  # what changed is of no interest here

    @property
    def next_serial(self) -> int:
        """For the first promise of a batch. A mark may come before it, and then it gets a higher one in the file."""
        return self._serial + 1

    def done(self) -> None:
        """What was promised is durable in the files."""
        with self._lock:
            self._applied = self._serial

    def mark(self) -> None:
        """What is durable in the files will not be done again. Durable on return."""
        with self._lock:
            if self._file is None:
                return
            everything = self._applied == self._serial
            change = Change(MARK, BlockKey(bytes(8)), NOTHING, 0)
            self._write_or_cut_back([change.packed_header(self._identity, self._serial + 1, self._applied)])
            self._serial += 1
            if everything:
                self._applied, self.unmarked = self._serial, frozenset()

    def _packed(self, promises: Sequence[Promise]) -> Iterator[Buffer]:
        serial = self._serial
        for _, name, data, changes in promises:
            idempotency_key = Change(TICKET, BlockKey(name), Encoded("none", 0, len(data), data), len(changes))
            for change in (idempotency_key, *changes):
                serial += 1
                yield change.packed_header(self._identity, serial, self._applied)
                yield change.encoded.data

    def _require_space(self, length: int) -> None:
        """A promise that cannot be kept closes the volume: better not to give it."""
        if self._env.files.free_bytes(self.path.parent) < 2 * length + _SPARE_BYTES:
            raise VolumeFull(
                f"no space left for '{self.path}'; free some space or add a volume ('holdfast volume add')"
            )

    def _write_or_cut_back(self, buffers: Sequence[Buffer]) -> None:
        """Durable on return. If it raises, nothing has happened, or there was a `failure`."""
        if self._file is None:
            self.replace([])
        try:
            self.write(buffers)
        except BaseException as error:
            try:
                self.cut_back()
            except Exception:
                self.failure = error
            raise

    def _forget_promises(self) -> None:
        try:
            if self._file is not None:
                self._load()
                self._applied = self._serial  # by now, though the file may not say so
            else:
                self.sessions = Sessions()
        except HoldfastError as error:
            self.failure = error

    # -- growing too large ----------------------------------------------------------------------------------------

    def renew(self, *, at_once: bool = False) -> None:
        """Rewrites it if it has grown. Everything in it must be done."""
        if self._file is None or not (at_once or self.end > max(JOURNAL_BYTES_MAX, 2 * self._least)):
            return
        with self._lock:
            buffers: list[Buffer] = []
            for name, kept in self.sessions.all_kept():
                idempotency_key = Change(TICKET, BlockKey(name), Encoded("none", 0, len(kept.data), kept.data), 0)
                buffers += (idempotency_key.packed_header(self._identity, kept.serial, self._serial), kept.data)
            try:
                self.replace(buffers)
            except VolumeFull:
                if self.failure is not None:
                    raise
                return  # the old one does as well
            self.unmarked, self._least = frozenset(), self.end

    def require_working(self, name: str) -> None:
        """Raises VolumeDown after a failure that only opening again can mend."""
        if self.failure is not None:
            raise VolumeDown(
                f"volume {name!r} refuses to write after a failure ({self.failure}); open the archive again"
            )

    def close(self) -> None:
        if self._file is not None and self.unmarked and self.failure is None:
            self.mark()
        super().close()


def sound_end(file: File, identity: Identity, *, crashed: bool) -> int:
    """Where the journal ends, without what was torn by a crash. Raises DamagedBlock or FormatTooNew."""
    require_own_journal(file, identity)
    return acknowledged_bytes(file, identity) if crashed else file.size()


def salvaged(file: File, identity: Identity) -> bytes:
    """What a damaged journal still tells, as a journal: tickets, and commits that are there to their end."""
    steps = walk(file, identity.uid, SEGMENT_HEADER_BYTES, file.size())
    entries = {step.header.serial: step for step in steps if isinstance(step, SegmentEntry)}
    applied = max((entry.header.after for entry in entries.values()), default=0)
    parts: list[Buffer] = [journal_header(identity)]
    for serial, entry in entries.items():
        if entry.header.kind != TICKET:
            continue
        members = [entries.get(serial + number) for number in range(1, entry.header.references + 1)]
        if serial <= applied:
            parts.append(lone_ticket(entry))
        elif None not in members:
            parts += (each.raw for each in (entry, *members) if each is not None)
    return b"".join(parts)


def _change(entry: SegmentEntry) -> Change:
    header = entry.header
    key = BlockKey(header.signature, header.overflow, header.home)
    encoded = Encoded(header.codec.decode(), header.dictionary, header.size, entry.data)
    return Change(header.kind, key, encoded, header.references)
