"""The lock between threads that count references and the thread that moves blocks.

The place and the counter of a block must not change between probe and commit. Volumes guarantee that for one commit. A
migration spans two volumes, so no thread may count while a batch of blocks is between them. A content must not be
deleted while a thread without a reference to it makes a copy, in a move or in the deletion of another reference: after
a kill, the copy would be the only one left and bring the content back.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType

from holdfast.model import ContentKey


class MoveLock:
    """Many threads count at a time (`with lock:`), or one moves (`with lock.moving():`).

    Counting lasts from the probe of a block to the commit of its last replica. Every put and delete counts, so it costs
    only two acquisitions of a plain lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._counting = 0
        self._moving = False
        self._held: Counter[ContentKey] = Counter()  # contents that are being copied or deleted

    def __enter__(self) -> None:
        with self._lock:
            while self._moving:
                self._changed.wait()
            self._counting += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._counting -= 1
            if self._moving:
                self._changed.notify_all()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Exclusive: a batch of blocks moves from one volume to another."""
        with self._lock:
            while self._moving:
                self._changed.wait()
            self._moving = True
            while self._counting:
                self._changed.wait()
        try:
            yield
        finally:
            with self._lock:
                self._moving = False
                self._changed.notify_all()

    @contextmanager
    def copying(self, keys: Collection[ContentKey]) -> Iterator[None]:
        """Copies of these contents are being made; threads that probed earlier have finished counting."""
        with self.moving(), self._lock:
            self._held.update(keys)
        with self._releasing(keys):
            yield

    @contextmanager
    def deleting(self, keys: Collection[ContentKey]) -> Iterator[None]:
        """For a thread that counts: no other thread deletes or copies these contents meanwhile."""
        with self._lock:
            self._await(keys)
            self._held.update(keys)
        with self._releasing(keys):
            yield

    @contextmanager
    def _releasing(self, keys: Collection[ContentKey]) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._held -= Counter(keys)
                self._changed.notify_all()

    def await_copies(self, keys: Collection[ContentKey]) -> None:
        """For a thread that counts, before its probe: waits until no copy of these contents is being made."""
        with self._lock:
            self._await(keys)

    def _await(self, keys: Collection[ContentKey]) -> None:
        while self._held and any(key in self._held for key in keys):
            self._changed.wait()
