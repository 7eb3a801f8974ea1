"""Group commit: many threads, one sync.

A thread adds its buffers to the current group while it holds `lock`, then waits for the group. If no thread is
flushing, it becomes the leader: it takes the whole group, writes and syncs it, and wakes its threads. Buffers that
arrive meanwhile form the next group, whose first thread leads next. A failed flush fails its group and the gathering
one, which may build on it.

`GroupCommitted` is shared by the volumes with a group commit: commits with and without idempotency keys.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from holdfast.env.files import Buffer
from holdfast.env.uninterruptible import uninterrupted
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.volume import IdempotencyKey, Operation, OperationResult, Result
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.idempotency import Sessions, require_not_void

P = ParamSpec("P")
R = TypeVar("R")


class Group:
    """Buffers that become durable together, by segment, and the threads that wait for them."""

    __slots__ = ("done", "error", "parts", "waiters")

    def __init__(self) -> None:
        self.parts: list[tuple[int, list[Buffer]]] = []
        self.waiters: list[threading.Lock] = []
        self.done = False
        self.error: BaseException | None = None

    def mark(self) -> tuple[int, int]:
        """The current extent, for `cut_back`."""
        return len(self.parts), len(self.parts[-1][1]) if self.parts else 0

    def cut_back(self, mark: tuple[int, int]) -> None:
        """Removes what was added since the mark."""
        parts, buffers = mark
        del self.parts[parts:]
        if parts:
            del self.parts[-1][1][buffers:]


class Flusher(Protocol):
    """The owner's part of a flush."""

    def prepare(self) -> object:
        """With the lock held: takes what belongs to the group."""

    def write(self, group: Group, prepared: object) -> None:
        """By the leader alone, without the lock: makes the group durable."""

    def settle(self, prepared: object) -> None:
        """With the lock held: the group is durable."""

    def abort(self, error: BaseException) -> None:
        """With the lock held: neither this group nor the gathering one will become durable."""


class _Flush(NamedTuple):
    """What a leader writes."""

    group: Group
    prepared: object


# Of a waiting thread: it follows the leader, it leads, or the group is done.
Turn: TypeAlias = "threading.Lock | _Flush | None"


class GroupCommit:
    """`lock` and `current` are the owner's to use; everything else goes through the methods."""

    def __init__(self, flusher: Flusher) -> None:
        self.lock = threading.Lock()
        self.current = Group()
        self._flusher = flusher
        self._busy = False  # a thread flushes or is inside `exclusive`
        self._in_flight: Group | None = None
        self._exclusive_waiters: list[threading.Lock] = []

    def wait(self, group: Group) -> None:
        """Returns when the group is durable; raises what prevented it. The caller does not hold the lock."""
        with self.lock:
            turn = self.turn(group)
        self.finish(group, turn)

    def turn(self, group: Group) -> Turn:
        """With the lock held: how the caller waits for the group in `finish`."""
        if group.done:
            return None
        if self._busy:
            wakeup = _held_lock()
            group.waiters.append(wakeup)
            return wakeup
        self._busy = True
        self._in_flight, self.current = self.current, Group()
        return _Flush(self._in_flight, self._flusher.prepare())

    def finish(self, group: Group, turn: Turn) -> None:
        """As `wait`, for a caller that has its turn. A thread that is woken by the leader takes no lock."""
        while turn is not None:
            if isinstance(turn, _Flush):
                self._lead(turn)
            else:
                turn.acquire()
            if group.done:
                break
            with self.lock:
                turn = self.turn(group)
        if group.error is not None:
            raise fresh_error(group.error)

    @property
    def idle(self) -> bool:
        """True if nothing is gathering or in flight."""
        return self._in_flight is None and not self.current.parts

    @property
    def newest(self) -> Group | None:
        """The last group that has entries and is not durable yet. The caller holds the lock."""
        return self.current if self.current.parts else self._in_flight

    def flush(self) -> None:
        """Makes everything durable that was added before this call."""
        with self.lock:
            group = self.newest
        if group is not None:
            self.wait(group)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No thread flushes while inside, and the lock is held. The gathering group may hold entries."""
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
                woken = self._pass_on()
            for each in woken:
                each.release()

    def _lead(self, flush: _Flush) -> None:
        group, prepared = flush
        error: BaseException | None = None
        try:
            self._flusher.write(group, prepared)
        except BaseException as caught:
            error = caught
        with self.lock:
            woken = group.waiters
            if error is None:
                self._flusher.settle(prepared)
            else:
                group.error = error
                woken = woken + self._abort(error)
            group.done = True  # after `error`: `finish` reads them without the lock
            self._in_flight = None
            woken = woken + self._pass_on()
        for each in woken:
            each.release()
        if error is not None and not isinstance(error, Exception):
            raise error

    def _abort(self, error: BaseException) -> list[threading.Lock]:
        doomed, self.current = self.current, Group()
        self._flusher.abort(error)
        doomed.error = error
        doomed.done = True
        return doomed.waiters

    def _pass_on(self) -> list[threading.Lock]:
        """The threads to wake so that flushing continues."""
        if self._exclusive_waiters:
            return [self._exclusive_waiters.pop(0)]
        self._busy = False
        return [self.current.waiters.pop(0)] if self.current.waiters else []


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def fresh_error(error: BaseException) -> HoldfastError:
    """A new exception for each waiting thread: a shared one would mix up their tracebacks."""
    if isinstance(error, HoldfastError):
        return type(error)(*error.args)
    return VolumeDown(f"the flush that this write was part of failed: {error!r}; open the archive again")


def uninterruptible(function: Callable[P, R]) -> Callable[P, R]:
    """Runs the function to its end, whatever signal arrives."""

    @wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        return uninterrupted(lambda: function(*args, **kwargs))

    return whole


class GroupCommitted(ABC):
    """The commits of a volume that is its own flusher. Any thread may call any public method."""

    name: str
    damage: KnownDamage

    def __init__(self, flusher: Flusher) -> None:
        self.commits = GroupCommit(flusher)
        self.compaction = threading.Lock()  # held by the one thread that rewrites files; commits go on meanwhile
        self._failure: BaseException | None = None

    @property
    @abstractmethod
    def _sessions(self) -> Sessions:
        """The results of commits with idempotency keys."""

    def _begin(self) -> None:  # noqa: B027  # most volumes have nothing to prepare
        """With the lock held: before commits that came together are carried out."""

    @abstractmethod
    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """With the lock held: carries the operations out and adds to the gathering group what must become durable."""

    @abstractmethod
    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        """As `_perform`, all or nothing; remembers the results, unless nothing changed."""

    @uninterruptible
    def commit(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey | None = None
    ) -> list[OperationResult]:
        if idempotency_key is not None:
            (result,) = self.commit_all([(operations, idempotency_key)])
            if isinstance(result, HoldfastError):
                raise result
            return result
        with self.commits.lock:
            self._refuse_after_failure()
            self._begin()
            outcomes = self._perform(operations)
            group = self.commits.current
            turn = self.commits.turn(group) if group.parts else None
        if group.parts:
            self.commits.finish(group, turn)
            self.damage.settle(outcomes)
        return outcomes

    @uninterruptible
    def commit_all(self, commits: Sequence[tuple[Sequence[Operation], IdempotencyKey | None]]) -> list[Result]:
        with self.commits.lock:
            self._begin()
            results = [self._attempt(operations, idempotency_key) for operations, idempotency_key in commits]
            group = self.commits.newest  # earlier changes may still be in flight
            turn = self.commits.turn(group) if group is not None else None
        if group is not None:
            try:
                self.commits.finish(group, turn)
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
            if past is None:
                return self._perform_once(operations, idempotency_key)
            return require_not_void(idempotency_key, past)
        except HoldfastError as error:
            return error

    @uninterruptible
    def void(self, idempotency_key: IdempotencyKey) -> list[OperationResult] | None:
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
        """Makes everything durable that was committed before."""
        if not self.commits.idle:
            uninterrupted(self.commits.flush)

    def _refuse_after_failure(self) -> None:
        if self._failure is not None:
            raise VolumeDown(
                f"volume {self.name!r} refuses to write after a failure ({self._failure}); open the archive again"
            )
