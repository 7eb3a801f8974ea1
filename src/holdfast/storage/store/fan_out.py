"""One request to several volumes at once.

A call to a remote volume is a round trip. If more than one of the volumes is remote, they are called in parallel, each
in a thread of a small pool. Local volumes are called one after the other, which is faster than a hand-over to a thread.
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
    """The result of each volume, and the errors of those that failed."""

    results: dict[str, A]
    failed: dict[str, HoldfastError]


class FanOut:
    """Thread-safe."""

    def __init__(self, is_remote: Callable[[str], bool]) -> None:
        self._is_remote = is_remote
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def each(self, names: Sequence[str], request: Callable[[str], A]) -> Responses[A]:
        """Calls `request` for each name. A volume that fails does not stop the others; any other error is raised."""
        responses: Responses[A] = Responses({}, {})
        if len(names) > 1 and sum(map(self._is_remote, names)) > 1:
            pool = self._opened()
            futures = {name: pool.submit(request, name) for name in names}
            for name, future in futures.items():
                self._take(name, future.result, responses)
        else:
            for name in names:
                self._take(name, _bound(request, name), responses)
        return responses

    def _take(self, name: str, call: Callable[[], A], responses: Responses[A]) -> None:
        try:
            responses.results[name] = call()
        except FAILURES as error:
            responses.failed[name] = error
        except UnknownName as error:  # it has just been taken out of the connector
            responses.failed[name] = VolumeDown(str(error))

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


def _bound(request: Callable[[str], A], name: str) -> Callable[[], A]:
    return lambda: request(name)
