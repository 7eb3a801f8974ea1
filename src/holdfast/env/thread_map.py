"""A parallel map over threads, for work that releases the interpreter lock, such as hashing and compressing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

ITEMS_MIN = 32  # fewer items are faster without threads
CHUNK_MIN = 16
_CORES = os.cpu_count() or 1


class ThreadMap:
    """Applies functions to many items at once. Any thread may call."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        """`function` of each item, in order. An exception in any of them is raised."""
        if len(items) < ITEMS_MIN:
            return [function(item) for item in items]
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_CORES, thread_name_prefix="holdfast-map")
            pool = self._pool
        size = max(CHUNK_MIN, len(items) // (2 * _CORES))
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        return list(chain.from_iterable(pool.map(lambda chunk: [function(item) for item in chunk], chunks)))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
