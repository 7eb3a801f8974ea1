"""Commits, with and without tickets, over a group commit: what the organizations that have one share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.commit import Flusher, GroupCommit, fresh_error
from holdfast.storage.damage import KnownDamage
from holdfast.storage.shield import Shield
from holdfast.storage.tickets import Sessions, require_not_void
from holdfast.storage.volume import Operation, Outcome, Result, Ticket


class GroupCommitted(ABC):
    """The commits of a volume that is its own flusher. Any thread may call any public method.

    What must not be interrupted is done behind the `shield`, away from the main thread.
    """

    name: str
    damage: KnownDamage

    def __init__(self, name: str, flusher: Flusher) -> None:
        self.commits = GroupCommit(flusher)
        self.shield = Shield(f"volume-{name}")
        self._failure: BaseException | None = None

    @property
    @abstractmethod
    def _sessions(self) -> Sessions:
        """What is remembered of commits with tickets."""

    @abstractmethod
    def _perform(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Under the lock: carries the operations out, so that the gathering group has what must become durable."""

    @abstractmethod
    def _perform_once(self, operations: Sequence[Operation], ticket: Ticket, *, void: bool = False) -> list[Outcome]:
        """As `_perform`, all or none of them, and remembers the outcomes, unless nothing has changed."""

    def commit(self, operations: Sequence[Operation], ticket: Ticket | None = None) -> list[Outcome]:
        if ticket is None:
            return self.shield.run(lambda: self._commit(operations))
        (result,) = self.commit_all([(operations, ticket)])
        if isinstance(result, HoldfastError):
            raise result
        return result

    def _commit(self, operations: Sequence[Operation]) -> list[Outcome]:
        with self.commits.lock:
            self._refuse_after_failure()
            outcomes = self._perform(operations)
            group = self.commits.current
        if group.parts:
            self.commits.wait(group)
            self.damage.settle(outcomes)
        return outcomes

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], Ticket | None]]) -> list[Result]:
        return self.shield.run(lambda: self._commit_all(commits))

    def _commit_all(self, commits: Sequence[tuple[Sequence[Operation], Ticket | None]]) -> list[Result]:
        with self.commits.lock:
            results = [self._attempt(operations, ticket) for operations, ticket in commits]
            group = self.commits.newest  # what happened earlier may be on its way to the disk
        if group is not None:
            try:
                self.commits.wait(group)
            except HoldfastError as error:
                return [result if isinstance(result, HoldfastError) else fresh_error(error) for result in results]
            self.damage.settle(outcome for result in results if isinstance(result, list) for outcome in result)
        return results

    def _attempt(self, operations: Sequence[Operation], ticket: Ticket | None) -> Result:
        try:
            self._refuse_after_failure()
            if ticket is None:
                return self._perform(operations)
            past = self._sessions.find(ticket)
            return self._perform_once(operations, ticket) if past is None else require_not_void(ticket, past)
        except HoldfastError as error:
            return error

    def void(self, ticket: Ticket) -> list[Outcome] | None:
        return self.shield.run(lambda: self._void(ticket))

    def _void(self, ticket: Ticket) -> list[Outcome] | None:
        with self.commits.lock:
            self._refuse_after_failure()
            past = self._sessions.find(ticket)
            if past is None:
                self._perform_once((), ticket, void=True)
            group = self.commits.newest
        if group is not None:
            self.commits.wait(group)
        return None if past is None or past.void else past.outcomes

    def flush(self) -> None:
        """Everything handed in before is durable."""
        if not self.commits.idle:
            self.shield.run(self.commits.flush)

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise VolumeDown(
                f"volume {self.name!r} refuses to write after a failure ({self._failure}); open the archive again"
            )
