"""Group commit: many threads, one sync.

A thread adds its buffers to the current group while it holds `lock`, then waits for that group. If nobody is flushing,
it becomes the leader: it takes the whole group, writes and syncs it, and wakes everybody in it. What arrives meanwhile
gathers in the next group, whose first thread leads next. A failed flush fails its group and the gathering one, because
that may build on it.

`GroupCommitted` is what the volumes with a group commit share: commits with and without idempotency keys.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from holdfast.env.files import Buffer
from holdfast.env.uninterruptible import Uninterruptible
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.volume import IdempotencyKey, Operation, OperationResult, Result
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.idempotency import Sessions, require_not_void


class Group:
    """Buffers that become durable together, by the segment they go to, and the threads that wait for them."""

    __slots__ = ("done", "error", "parts", "waiters")

    def __init__(self) -> None:
        self.parts: list[tuple[int, list[Buffer]]] = []
        self.waiters: list[threading.Lock] = []
        self.done = False
        self.error: BaseException | None = None

    def mark(self) -> tuple[int, int]:
        """How much is in it, for `cut_back`."""
        return len(self.parts), len(self.parts[-1][1]) if self.parts else 0

    def cut_back(self, mark: tuple[int, int]) -> None:
        """Takes out what has come since the mark was made."""
        parts, buffers = mark
        del self.parts[parts:]
        if parts:
            del self.parts[-1][1][buffers:]


class Flusher(Protocol):
    """What the owner of a group commit does in each flush."""

    def prepare(self) -> object:
        """Under the lock: takes what belongs to the group."""

    def write(self, group: Group, prepared: object) -> None:
        """By the leader alone, without the lock: makes the group durable."""

    def settle(self, prepared: object) -> None:
        """Under the lock: the group is durable."""

    def abort(self, error: BaseException) -> None:
        """Under the lock: neither the group nor the gathering one will become durable."""


class GroupCommit:
    """`lock` and `current` are the owner's to use; everything else goes through the methods."""

    def __init__(self, flusher: Flusher) -> None:
        self.lock = threading.Lock()
        self.current = Group()
        self._flusher = flusher
        self._busy = False  # somebody flushes or is inside `exclusive`
        self._in_flight: Group | None = None
        self._exclusive_waiters: list[threading.Lock] = []

    def wait(self, group: Group) -> None:
        """Returns when the group is durable; raises what kept it from being so. Not to be called with the lock held."""
        while True:
            with self.lock:
                if group.done:
                    break
                if self._busy:
                    wakeup = _held_lock()
                    group.waiters.append(wakeup)
                    prepared = None
                else:
                    wakeup = None
                    self._busy = True
                    self._in_flight, self.current = self.current, Group()
                    prepared = self._flusher.prepare()
            if wakeup is None:
                self._lead(prepared)
            else:
                wakeup.acquire()
        if group.error is not None:
            raise fresh_error(group.error)

    @property
    def idle(self) -> bool:
        """Nothing is gathering and nothing in flight."""
        return self._in_flight is None and not self.current.parts

    @property
    def newest(self) -> Group | None:
        """The last group that has entries and is not durable yet. To be asked with the lock held."""
        return self.current if self.current.parts else self._in_flight

    def flush(self) -> None:
        """Everything handed in before this call is durable after it."""
        with self.lock:
            group = self.newest
        if group is not None:
            self.wait(group)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody flushes while inside, and the lock is held. The gathering group may hold entries."""
        with self.lock:
            wakeup = _held_lock() if self._busy else None
            if wakeup is not None:
                self._exclusive_waiters.append(wakeup)
            self._busy = True
        if wakeup is not None:
            wakeup.acquire()  # handed over by `_pass_on`, still busy
        try:
            with self.lock:
                yield
        finally:
            with self.lock:
                locks = self._pass_on()
            _release(locks)

    def _lead(self, prepared: object) -> None:
        group = self._in_flight
        assert group is not None
        error: BaseException | None = None
        try:
            self._flusher.write(group, prepared)
        except BaseException as caught:
            error = caught
        with self.lock:
            locks = group.waiters
            if error is None:
                self._flusher.settle(prepared)
            else:
                locks = locks + self._abort(error)
            group.done, group.error = True, error
            self._in_flight = None
            locks = locks + self._pass_on()
        _release(locks)
        if error is not None and not isinstance(error, Exception):
            raise error

    def _abort(self, error: BaseException) -> list[threading.Lock]:
        doomed, self.current = self.current, Group()
        self._flusher.abort(error)
        doomed.done, doomed.error = True, error
        return doomed.waiters

    def _pass_on(self) -> list[threading.Lock]:
        """Whom to wake so that work goes on."""
        if self._exclusive_waiters:
            return [self._exclusive_waiters.pop(0)]
        self._busy = False
        return [self.current.waiters.pop(0)] if self.current.waiters else []


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _release(locks: list[threading.Lock]) -> None:
    for lock in locks:
        lock.release()


def fresh_error(error: BaseException) -> HoldfastError:
    """Each waiting thread raises its own exception: sharing one would mix up their tracebacks."""
    if isinstance(error, HoldfastError):
        return type(error)(*error.args)
    return VolumeDown(f"the flush that this write was part of failed: {error!r}; open the archive again")


class GroupCommitted(ABC):
    """The commits of a volume that is its own flusher. Any thread may call any public method.

    What must not be interrupted is done behind the `shield`, away from the main thread.
    """

    name: str
    damage: KnownDamage

    def __init__(self, name: str, flusher: Flusher) -> None:
        self.commits = GroupCommit(flusher)
        self.shield = Uninterruptible(f"volume-{name}")
        self._failure: BaseException | None = None

    @property
    @abstractmethod
    def _sessions(self) -> Sessions:
        """What is remembered of commits with idempotency keys."""

    @abstractmethod
    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Under the lock: carries the operations out, so that the gathering group has what must become durable."""

    @abstractmethod
    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        """As `_perform`, all or none of them, and remembers the outcomes, unless nothing has changed."""

    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        if idempotency_key is None:
            return self.shield.run(lambda: self._commit(operations))
        (result,) = self.commit_all([(operations, idempotency_key)])
        if isinstance(result, HoldfastError):
            raise result
        return result

    def _commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        with self.commits.lock:
            self._refuse_after_failure()
            outcomes = self._perform(operations)
            group = self.commits.current
        if group.parts:
            self.commits.wait(group)
            self.damage.settle(outcomes)
        return outcomes

    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]) -> list[Result]:
        return self.shield.run(lambda: self._commit_all(commits))

    def _commit_all(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]) -> list[Result]:
        with self.commits.lock:
            results = [self._attempt(operations, idempotency_key) for operations, idempotency_key in commits]
            group = self.commits.newest  # what happened earlier may be on its way to the disk
        if group is not None:
            try:
                self.commits.wait(group)
            except HoldfastError as error:
                return [result if isinstance(result, HoldfastError) else fresh_error(error) for result in results]
            self.damage.settle(outcome for result in results if isinstance(result, list) for outcome in result)
        return results

    def _attempt(self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None) -> Result:
        try:
            self._refuse_after_failure()
            if idempotency_key is None:
                return self._perform(operations)
            past = self._sessions.find(idempotency_key)
            return (
                self._perform_once(operations, idempotency_key)
                if past is None
                else require_not_void(idempotency_key, past)
            )
        except HoldfastError as error:
            return error

    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        return self.shield.run(lambda: self._void(idempotency_key))

    def _void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
        with self.commits.lock:
            self._refuse_after_failure()
            past = self._sessions.find(idempotency_key)
            if past is None:
                self._perform_once((), idempotency_key, void=True)
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
