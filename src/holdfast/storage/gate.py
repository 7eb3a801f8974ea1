"""The gate between those who count references and the one who moves blocks.

Where a block stands and what its counter says must not change between looking and committing. Volumes see to that for
each commit; a migration spans two volumes, so nobody may count while a batch of blocks is between them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Any number of threads count at a time, or one moves. Who moves comes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._counting = 0
        self._moving = False

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Stores and deletes, from looking for the block to the last of its replicas."""
        with self._changed:
            self._changed.wait_for(lambda: not self._moving)
            self._counting += 1
        try:
            yield
        finally:
            with self._changed:
                self._counting -= 1
                if not self._counting:
                    self._changed.notify_all()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """A batch of blocks goes from one volume to another."""
        with self._changed:
            self._changed.wait_for(lambda: not self._moving)
            self._moving = True
            self._changed.wait_for(lambda: not self._counting)
        try:
            yield
        finally:
            with self._changed:
                self._moving = False
                self._changed.notify_all()
