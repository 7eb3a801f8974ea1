"""Reading objects as files: by ranges, with a window ahead for those who walk, and a bounded cache.

Large reads come from somebody who walks through a segment. They are served from windows of a fixed grid, of which the
next few are fetched ahead. Small reads are single blocks and are asked for as they are. Both stay in a cache of bounded
size. Memory is the cache, and one window for each request under way.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from holdfast.env.files import Buffer
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBlock, Denied
from holdfast.storage.volumes.object.bucket import Bucket
from holdfast.storage.volumes.object.upload_list import Uploaded

WINDOW_BYTES = 4 << 20
WALK_BYTES = 1 << 20  # reads of at least this size are somebody's walk
AHEAD = 2  # windows


class ObjectGone(DamagedBlock, FileNotFoundError):
    """An object is not in the store any more: compacted since it was opened, or lost."""


class RangeCache:
    """What was read last, of all objects of a volume. Any thread may call."""

    def __init__(self, bucket: Bucket, bytes_max: int) -> None:
        self.bucket = bucket
        self._kept: LruCache[tuple[str, int], bytes] = LruCache(bytes_max, len)
        self._coming: dict[tuple[str, int], Future[bytes]] = {}
        self._lock = threading.Lock()

    def read(self, key: str, offset: int, length: int) -> bytes:
        """A small range."""
        start = offset - offset % WINDOW_BYTES
        with self._lock:
            for begin in (offset, start):
                kept = self._kept.get((key, begin))
                if kept is not None and offset - begin + length <= len(kept):
                    return kept[offset - begin : offset - begin + length]
        data = self.bucket.read(key, offset, length)
        self._keep((key, offset), data)
        return data

    def window(self, key: str, number: int) -> Future[bytes]:
        """A window of the grid, which may be under way."""
        name = (key, number * WINDOW_BYTES)
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and len(kept) > WALK_BYTES:  # a small range may begin there, too
                ready: Future[bytes] = Future()
                ready.set_result(kept)
                return ready
            coming = self._coming.get(name)
            if coming is not None:
                return coming
            coming = self._coming[name] = self.bucket.pool.submit(self.bucket.read, key, name[1], WINDOW_BYTES)
        coming.add_done_callback(lambda done: self._arrived(name, done))
        return coming

    def _arrived(self, name: tuple[str, int], done: Future[bytes]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._keep(name, done.result())
        with self._lock:
            self._coming.pop(name, None)

    def _keep(self, name: tuple[str, int], data: bytes) -> None:
        with self._lock:
            self._kept.put(name, data)

    def forget(self, key: str) -> None:
        """The object has been replaced or removed."""
        with self._lock:
            for name in [name for name in self._kept if name[0] == key]:
                self._kept.pop(name)

    @property
    def bytes(self) -> int:
        return self._kept.size


class ObjectFile:
    """An object as a file that cannot be changed."""

    __slots__ = ("_cache", "_facts", "path")

    def __init__(self, path: Path, facts: Uploaded, cache: RangeCache) -> None:
        self.path = path
        self._facts = facts
        self._cache = cache

    def read(self, offset: int, length: int) -> bytes:
        """Raises ObjectGone if the object is: compacted, if it was not lost."""
        head, size = self._facts.head, self._facts.size
        length = min(length, size - offset)
        if length <= 0:
            return b""
        if offset + length <= len(head):
            return head[offset : offset + length]
        try:
            if length < WALK_BYTES:
                return self._cache.read(self._facts.key, offset, length)
            return self._walk(offset, length)
        except FileNotFoundError:
            place = f"{self._cache.bucket.url}/{self._facts.key}"
            raise ObjectGone(f"'{place}' is missing; run 'holdfast check --repair'") from None

    def _walk(self, offset: int, length: int) -> bytes:
        key, last = self._facts.key, (self._facts.size - 1) // WINDOW_BYTES
        first, end = offset // WINDOW_BYTES, (offset + length - 1) // WINDOW_BYTES
        parts = []
        coming = [self._cache.window(key, number) for number in range(first, min(first + AHEAD, last) + 1)]
        for number in range(first, end + 1):
            if number + AHEAD <= last and number > first:
                coming.append(self._cache.window(key, number + AHEAD))
            window = coming.pop(0).result()
            start = number * WINDOW_BYTES
            parts.append(window[max(0, offset - start) : offset + length - start])
            if len(window) < min(WINDOW_BYTES, self._facts.size - start):
                break  # the object is shorter than it was
        return b"".join(parts)

    def size(self) -> int:
        return self._facts.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        raise self._refusal()

    def truncate(self, size: int) -> None:
        raise self._refusal()

    def _refusal(self) -> Denied:
        return Denied(f"not permitted to change '{self.path}': it is in the store, which only takes whole segments")

    def sync(self) -> None:
        """The store has synced it."""

    def close(self) -> None:
        """Nothing is held open."""
