"""Group commit: many threads, one sync.

A thread adds its buffers to the current group while it holds `lock`, then waits for that group. If nobody is flushing,
it becomes the leader: it takes the whole group, writes and syncs it, and wakes everybody in it. What arrives meanwhile
gathers in the next group, whose first thread leads next. A failed flush fails its group and the gathering one, because
that may build on it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, VolumeDown


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
                    gate = _closed_gate()
                    group.waiters.append(gate)
                    prepared = None
                else:
                    gate = None
                    self._busy = True
                    self._in_flight, self.current = self.current, Group()
                    prepared = self._flusher.prepare()
            if gate is None:
                self._lead(prepared)
            else:
                gate.acquire()
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
            gate = _closed_gate() if self._busy else None
            if gate is not None:
                self._exclusive_waiters.append(gate)
            self._busy = True
        if gate is not None:
            gate.acquire()  # handed over by `_pass_on`, still busy
        try:
            with self.lock:
                yield
        finally:
            with self.lock:
                gates = self._pass_on()
            _open(gates)

    def _lead(self, prepared: object) -> None:
        group = self._in_flight
        assert group is not None
        error: BaseException | None = None
        try:
            self._flusher.write(group, prepared)
        except BaseException as caught:
            error = caught
        with self.lock:
            gates = group.waiters
            if error is None:
                self._flusher.settle(prepared)
            else:
                gates = gates + self._abort(error)
            group.done, group.error = True, error
            self._in_flight = None
            gates = gates + self._pass_on()
        _open(gates)
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


def _closed_gate() -> threading.Lock:
    gate = threading.Lock()
    gate.acquire()
    return gate


def _open(gates: list[threading.Lock]) -> None:
    for gate in gates:
        gate.release()


def fresh_error(error: BaseException) -> HoldfastError:
    """Each waiting thread raises its own exception: sharing one would mix up their tracebacks."""
    if isinstance(error, HoldfastError):
        return type(error)(*error.args)
    return VolumeDown(f"the flush that this write was part of failed: {error!r}; open the archive again")
