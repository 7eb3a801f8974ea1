"""The workloads: their names, their groups, and how many callers act at once.

    life    store-new, open, fetch-random, scan, store-duplicate    on one store, in this order
    end     delete                                                  on another one, filled before the clock starts

`delete` has a store of its own, because after `store-duplicate` a counting store would only count down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Workload(StrEnum):
    """What is measured. One operation is one document, except for `open`."""

    STORE_NEW = "store-new"  # documents the store has never seen
    STORE_DUPLICATE = "store-duplicate"  # the same documents again
    FETCH_RANDOM = "fetch-random"  # every document once, in shuffled order, page cache warm
    DELETE = "delete"  # every document once, in shuffled order, the last reference each
    SCAN = "scan"  # all documents in the store's own order
    OPEN = "open"  # the store after a clean close


class Group(StrEnum):
    """The workloads that share one store and one process."""

    LIFE = "life"
    END = "end"


GROUPS: dict[Group, tuple[Workload, ...]] = {
    Group.LIFE: (
        Workload.STORE_NEW,
        Workload.OPEN,
        Workload.FETCH_RANDOM,
        Workload.SCAN,
        Workload.STORE_DUPLICATE,
    ),
    Group.END: (Workload.DELETE,),
}
ALWAYS_ALONE = frozenset({Workload.SCAN, Workload.OPEN})  # measured with one caller only
WRITING = frozenset({Workload.STORE_NEW, Workload.STORE_DUPLICATE, Workload.DELETE})
CALLERS = (1, 16)


def applies(workload: Workload, callers: int, writers_max: int) -> bool:
    """Whether a workload is measured with so many callers on a store that takes `writers_max` writers."""
    if workload in ALWAYS_ALONE:
        return callers == 1
    return workload not in WRITING or callers <= writers_max


def callers_words(callers: int) -> str:
    return "1 caller" if callers == 1 else f"{callers} callers"


def shares(items: Sequence[T], callers: int) -> list[list[T]]:
    """The items dealt out to the callers like cards; `gather` puts results back in order."""
    return [list(items[caller::callers]) for caller in range(callers)]


def gather(parts: Sequence[Sequence[T]]) -> list[T]:
    """The inverse of `shares`."""
    total = sum(len(part) for part in parts)
    return [parts[number % len(parts)][number // len(parts)] for number in range(total)]


class Crew(Generic[T]):
    """Callers that stand ready before the clock starts and all begin at `go`.

    One caller works in the calling thread, several in threads of their own.
    """

    def __init__(self, works: Sequence[Callable[[], T]]) -> None:
        self._works = works
        self._results: list[T | None] = [None] * len(works)
        self._failures: list[BaseException] = []
        self._start = threading.Event()
        several = range(len(works)) if len(works) > 1 else range(0)
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in several]
        for thread in self._threads:
            thread.start()

    def go(self) -> list[T]:
        """Lets everybody work; returns when all are done. Raises what the first failing caller raised."""
        if not self._threads:
            return [self._works[0]()]
        self._start.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return [result for result in self._results if result is not None]

    def _run(self, number: int) -> None:
        self._start.wait()
        try:
            self._results[number] = self._works[number]()
        except BaseException as failure:  # handed to the caller of `go`
            self._failures.append(failure)
