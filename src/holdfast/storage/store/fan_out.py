"""Asking several volumes at once.

A call to a remote volume is a round trip: if more than one of those to be asked is remote, they are asked side by side,
each in a thread of a small pool. Local volumes are asked one after the other: that is faster than handing over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from holdfast.errors import HoldfastError, UnknownName, VolumeDown, VolumeFull, VolumeReadOnly

A = TypeVar("A")

FAILURES = (VolumeDown, VolumeFull, VolumeReadOnly)  # of one volume: others may do
THREADS_MAX = 32


class Responses(NamedTuple, Generic[A]):
    """What each volume answered, and why some did not."""

    given: dict[str, A]
    failed: dict[str, HoldfastError]


class FanOut:
    """Any thread may call."""

    def __init__(self, is_remote: Callable[[str], bool]) -> None:
        self._is_remote = is_remote
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def each(self, names: Sequence[str], question: Callable[[str], A]) -> Responses[A]:
        """Asks every one. A volume that fails does not stop the others; any other error is raised."""
        answers: Responses[A] = Responses({}, {})
        if len(names) > 1 and sum(map(self._is_remote, names)) > 1:
            pool = self._opened()
            futures = {name: pool.submit(question, name) for name in names}
            for name, future in futures.items():
                self._take(name, future.result, answers)
        else:
            for name in names:
                self._take(name, _bound(question, name), answers)
        return answers

    def _take(self, name: str, answer: Callable[[], A], answers: Responses[A]) -> None:
        try:
            answers.given[name] = answer()
        except FAILURES as error:
            answers.failed[name] = error
        except UnknownName as error:  # it has just been taken out of the connector
            answers.failed[name] = VolumeDown(str(error))

    def _opened(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="holdfast-ask")
            return self._pool

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _bound(question: Callable[[str], A], name: str) -> Callable[[], A]:
    return lambda: question(name)
