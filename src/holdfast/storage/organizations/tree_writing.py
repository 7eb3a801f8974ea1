"""The writing half of the `tree` organization.

Without a ticket, each operation is durable by itself. Commits with tickets are made durable in a journal first, as a
whole, and then done in the files (`tree_journal`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast.env import Environment
from holdfast.env.files import replace_file
from holdfast.errors import DamagedBlock, HoldfastError, VolumeFull
from holdfast.storage.block import COUNT, HEADER_BYTES
from holdfast.storage.commit import fresh_error
from holdfast.storage.identity import Identity
from holdfast.storage.organizations.compaction import Compaction, Progress
from holdfast.storage.organizations.plan import NOTHING, Change
from holdfast.storage.organizations.tree import BlockFile, TreeReading
from holdfast.storage.organizations.tree_journal import Journal, Promise
from holdfast.storage.organizations.tree_plan import TreePlan
from holdfast.storage.tickets import Kept, Past, pack_past, require_not_void, ticket_name
from holdfast.storage.volume import BlockKey, Encoded, Operation, Outcome, Result, Ticket, signature_of

_STRIPES = 256
_DRAFTS = "drafts"
OPEN = "OPEN"  # there while a writer has the volume open


class TreeVolume(TreeReading):
    """A tree volume open for writing. Access to one signature is exclusive.

    Locks are taken in this order: tickets, signatures by stripe, the journal's own.
    """

    def __init__(self, name: str, directory: Path, identity: Identity, env: Environment) -> None:
        super().__init__(name, directory, identity, env)
        self._drafts = directory / _DRAFTS
        self._marker = directory / OPEN
        self._locks = [threading.Lock() for _ in range(_STRIPES)]
        self._counter_lock = threading.Lock()
        self._directory_lock = threading.Lock()
        self._tickets_lock = threading.Lock()
        self._changes = int.from_bytes(env.random_bytes(7), "big")  # never the same in two openings
        for leftover in env.files.names(self._drafts):
            env.files.remove(self._drafts / leftover)
        for made in (self._tree, self._drafts):
            env.files.make_directory(made)
        crashed = env.files.exists(self._marker)
        if crashed:
            self._settle(self._tree)
            self._dictionaries.settle()
            env.files.sync_directory(directory)
        self._journal = Journal(env, directory, identity)
        promised = self._journal.open(crashed=crashed)  # before the marker: what is damaged must not look torn
        if not crashed:
            replace_file(env.files, self._marker, b"open for writing; if no process has it open, it was not closed\n")
        if promised:
            self._repeat(promised)
            self._journal.done()
            self._journal.renew(at_once=True)

    def position(self) -> int:
        return self._changes

    def commit(self, operations: Sequence[Operation], ticket: Ticket | None = None) -> list[Outcome]:
        if ticket is None:
            return [self._perform(operation) for operation in operations]
        (result,) = self._commit_once([(operations, ticket)])
        if isinstance(result, HoldfastError):
            raise result
        return result

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], Ticket | None]]) -> list[Result]:
        results: list[Result] = []
        gathered: list[tuple[Sequence[Operation], Ticket]] = []
        for operations, ticket in commits:
            if ticket is not None:
                gathered.append((operations, ticket))
                continue
            results += self._commit_once(gathered)
            gathered = []
            try:
                results.append(self.commit(operations))
            except HoldfastError as error:
                results.append(error)
        return results + self._commit_once(gathered)

    def _perform(self, operation: Operation) -> Outcome:
        signature = signature_of(operation)
        with self._locks[signature[-1] % _STRIPES]:
            plan = TreePlan(self)
            (outcome,), changes = plan.decide((operation,))
            if changes:
                self._claim(signature)
                self._carry_out(changes, plan)
                self.damage.settle([outcome])
        return outcome

    # -- with tickets: promised in the journal, then done -----------------------------------------------------------

    def _commit_once(self, commits: Sequence[tuple[Sequence[Operation], Ticket]]) -> list[Result]:
        operations = [operation for each, _ in commits for operation in each]
        with self._tickets_lock, self._exclusive(operations):
            plan, promises = TreePlan(self), list[Promise]()
            results = [self._promise(plan, promises, *commit) for commit in commits]
            try:
                self._keep(promises, plan)
            except HoldfastError as error:
                return [result if isinstance(result, HoldfastError) else fresh_error(error) for result in results]
        self.damage.settle(outcome for result in results if isinstance(result, list) for outcome in result)
        return results

    def void(self, ticket: Ticket) -> list[Outcome] | None:
        with self._tickets_lock:
            self._journal.require_working(self.name)
            past = self._journal.sessions.find(ticket)
            if past is None:
                promises = [self._remember(ticket, Past(0, True, []), [], [])]
                self._keep(promises, TreePlan(self))
        return None if past is None or past.void else past.outcomes

    @contextmanager
    def _exclusive(self, operations: Sequence[Operation]) -> Iterator[None]:
        """No other thread touches the operations' signatures."""
        with ExitStack() as stack:
            for stripe in sorted({signature_of(operation)[-1] % _STRIPES for operation in operations}):
                stack.enter_context(self._locks[stripe])
            yield

    def _promise(
        self, plan: TreePlan, promises: list[Promise], operations: Sequence[Operation], ticket: Ticket
    ) -> Result:
        try:
            self._journal.require_working(self.name)
            past = self._journal.sessions.find(ticket)
            if past is not None:
                return require_not_void(ticket, past)
            outcomes, changes = plan.decide(operations)
        except HoldfastError as error:
            return error
        if changes:  # or nothing has happened that must be remembered
            promises.append(self._remember(ticket, Past(0, False, outcomes), changes, promises))
        return outcomes

    def _remember(self, ticket: Ticket, past: Past, changes: list[Change], before: Sequence[Promise]) -> Promise:
        """From here on the ticket is known, so that it is not taken twice in one batch."""
        sessions, name = self._journal.sessions, ticket_name(ticket)
        data = pack_past(past._replace(settled=sessions.settled(ticket)))
        serial = before[-1].end if before else self._journal.next_serial
        sessions.apply(name, Kept(serial, data))
        return Promise(serial, name, data, changes)

    def _keep(self, promises: Sequence[Promise], plan: TreePlan) -> None:
        if not promises:
            return
        self._journal.append(promises)
        try:
            self._carry_out([change for promise in promises for change in promise.changes], plan)
            self._journal.done()
            self._journal.renew()
        except BaseException as error:
            self._journal.failure = error  # the next opening will keep what was promised
            raise

    def _claim(self, signature: bytes) -> None:
        """The files of a signature are about to change without the journal knowing."""
        self._journal.require_working(self.name)
        if signature in self._journal.unmarked:
            self._journal.mark()

    # -- files ------------------------------------------------------------------------------------------------------

    def _carry_out(self, changes: Sequence[Change], plan: TreePlan) -> None:
        files: dict[BlockKey, BlockFile] = {}  # as they are after the counts so far
        for change in changes:
            key = change.key
            file = files.pop(key, None) or plan.file(key)
            if change.kind != COUNT:
                self._publish(self.path(key), change)
                self._note_change()
            elif change.references == 0:
                self._remove(self.path(key))
            else:
                files[key] = self._append_count(file or self.read_or_salvage(self.path(key)), change.references)

    def _repeat(self, changes: Sequence[Change]) -> None:
        """Does what was promised before a crash, wherever that interrupted it."""
        for change in changes:
            with suppress(FileNotFoundError, DamagedBlock):  # a later change removes it; for `check` to report
                self._carry_out([change], TreePlan(self))

    def _remove(self, path: Path) -> None:
        self._env.files.remove(path)
        self._env.files.sync_directory(path.parent)
        self._note_change()

    def _publish(self, path: Path, block: Change) -> None:
        files = self._env.files
        with self._directory_lock:  # a directory that another thread has made may not be durable yet
            files.make_directory(path.parent)
        draft = self._drafts / f"{threading.get_ident():x}"
        files.remove(draft)
        file = files.open(draft, writable=True, create=True)
        try:
            file.append([block.header(self.identity, 1, 0), block.encoded.data])
            file.sync()
        except VolumeFull:
            files.remove(draft)  # what fitted is in the way of smaller blocks
            raise
        finally:
            file.close()
        files.rename(draft, path)
        files.sync_directory(path.parent)

    def _append_count(self, file: BlockFile, references: int) -> BlockFile:
        """Appends to the block file. What fails is cut off: after a failed sync, no later one would write it."""
        count = Change(COUNT, file.key, NOTHING, references)
        handle = self._env.files.open(file.path, writable=True)
        try:
            if file.excess:
                handle.truncate(file.end)
            handle.append([count.header(self.identity, file.serial + 1, file.serial)])
            handle.sync()
        except BaseException:
            handle.truncate(file.end)
            raise
        finally:
            handle.close()
        end = file.end + HEADER_BYTES
        return file._replace(references=references, serial=file.serial + 1, end=end, excess=0)

    def _note_change(self) -> None:
        with self._counter_lock:
            self._changes += 1

    # -- dictionaries and space -----------------------------------------------------------------------------------

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._dictionaries.add(number, data)

    def compact(self, progress: Progress | None) -> Compaction:
        """Folds counters that were appended to block files into their headers. Removed blocks take no space anyway."""
        files = before = after = 0
        for path in self.all_paths():
            signature = self.signature_of(path)
            if signature is None:
                continue
            with self._locks[signature[-1] % _STRIPES]:
                try:
                    file = self.read(path)
                except FileNotFoundError:
                    continue
                self.require_whole(file)
                if file.serial > file.header.serial:
                    self._claim(signature)
                    self._fold(file)
                    files, before, after = files + 1, before + file.end, after + file.header.length
            if progress is not None:
                progress(file.end)
        return Compaction(files, before, after)

    def _fold(self, file: BlockFile) -> None:
        header = file.header
        encoded = Encoded(header.codec.decode(), header.dictionary, header.size, file.data)
        self._publish(file.path, Change(header.kind, file.key, encoded, file.references))

    # -- opening and closing --------------------------------------------------------------------------------------

    def _settle(self, directory: Path) -> None:
        """After a crash: what is there stays, for a killed process may have left it unsynced."""
        files = self._env.files
        for name in files.names(directory):
            path = directory / name
            if files.is_directory(path):
                self._settle(path)
            else:
                self._settle_counter(path)
        files.sync_directory(directory)

    def _settle_counter(self, path: Path) -> None:
        """A counter that was being appended when the crash came was never acknowledged, and goes."""
        try:
            file = self.read_or_salvage(path)
        except DamagedBlock:
            return  # for `check` to report
        handle = self._env.files.open(path, writable=True)
        if handle.size() > file.end:
            handle.truncate(file.end)
        if handle.size() > file.header.length:
            handle.sync()
        handle.close()

    def close(self) -> None:
        """A clean close spares the next opening a walk through the tree."""
        self._journal.close()
        if self._journal.failure is not None:
            return  # the next opening must look at everything
        self._env.files.remove(self._marker)
        self._env.files.sync_directory(self.directory)
