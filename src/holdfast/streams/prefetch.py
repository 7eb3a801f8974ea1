"""Prefetch: a thread produces the next items while the current one is in use."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Iterates over a generator that runs in a thread, up to `most` items ahead.

    One thread may iterate, any may close. Errors of the generator are raised at their place among the items.
    """

    def __init__(self, items: Generator[T, None, None], most: int, name: str) -> None:
        self._items = items
        self._most = most
        self._store: deque[T] = deque()
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._ended = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with closing(self._items):
                for item in self._items:
                    if not self._keep(item):
                        break
        except BaseException as error:  # raised by the consumer
            failure = error
        with self._changed:
            self._failure, self._ended = failure, True
            self._changed.notify_all()

    def _keep(self, item: T) -> bool:
        """Waits for room for another item; False once closed."""
        with self._changed:
            self._store.append(item)
            self._changed.notify_all()
            while len(self._store) >= self._most and not self._closed:
                self._changed.wait()
            return not self._closed

    def __iter__(self) -> Prefetch[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            while not self._store and not self._ended:
                self._changed.wait()
            if self._store:
                item = self._store.popleft()
                self._changed.notify_all()
                return item
            if self._failure is not None:
                raise self._failure
            raise StopIteration

    def close(self) -> None:
        """Stops the thread and joins it."""
        with self._changed:
            self._closed = True
            self._store.clear()
            self._changed.notify_all()
        self._thread.join()
