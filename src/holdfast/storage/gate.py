"""The gate between those who count references and the one who moves blocks.

Where a block stands and what its counter says must not change between looking and committing. Volumes see to that for
each commit; a migration spans two volumes, so nobody may count while a batch of blocks is between them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Gate:
    """Any number of threads count at a time (`with gate:`), or one moves (`with gate.moving():`), who comes first.

    Counting is from looking for a block to the last of its replicas. Every store and delete passes here, so that side
    costs two acquisitions of a plain lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._counting = 0
        self._moving = False

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
        """A batch of blocks goes from one volume to another."""
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
