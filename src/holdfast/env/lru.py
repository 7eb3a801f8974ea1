"""An LRU cache, bounded by entries or by size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class LruCache(Generic[K, V]):
    """Holds at most `size_max`: of entries, or of the sum of `size_of` their values.

    Not thread-safe. The size of a value in the cache must not change.
    """

    def __init__(self, size_max: int, size_of: Callable[[V], int] | None = None) -> None:
        self.size_max = size_max
        self.size = 0
        self._size_of = size_of
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """The value, which becomes the most recently used, or `default`."""
        try:
            value = self._entries[key]
        except KeyError:
            return default
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Adds or replaces; evicts the least recently used. A value above the limit is not kept."""
        size = 1 if self._size_of is None else self._size_of(value)
        self.pop(key)
        if size > self.size_max:
            return
        self._entries[key] = value
        self.size += size
        while self.size > self.size_max:
            self.pop(next(iter(self._entries)))

    def pop(self, key: K) -> V | None:
        try:
            value = self._entries.pop(key)
        except KeyError:
            return None
        self.size -= 1 if self._size_of is None else self._size_of(value)
        return value

    def clear(self) -> None:
        self._entries.clear()
        self.size = 0

    def values(self) -> list[V]:
        """Least recently used first."""
        return list(self._entries.values())

    def __iter__(self) -> Iterator[K]:
        """A snapshot of the keys, least recently used first."""
        return iter(list(self._entries))

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
