"""Reading ahead: what comes next is made in a thread of its own while the last one is still used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """An iterator over what a generator gives, which runs in a thread and keeps `most` items in store.

    One thread may take, any may close. What the generator raises is raised where it would have come.
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
        except BaseException as error:  # raised where the items are taken
            failure = error
        with self._changed:
            self._failure, self._ended = failure, True
            self._changed.notify_all()

    def _keep(self, item: T) -> bool:
        """Waits until there is room for another; False if none is wanted any more."""
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
        """Ends the thread, and waits until it has ended."""
        with self._changed:
            self._closed = True
            self._store.clear()
            self._changed.notify_all()
        self._thread.join()
