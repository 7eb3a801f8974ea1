"""Caches: replies in memory, because rewriting a page costs more than finding it; large payloads in unnamed files, so
that slow clients hold no memory.

A large payload is read and verified once, piece by piece, then sent from its file at the pace of each client; players
that request many ranges are served from it too. The files vanish with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from holdfast.env.lru import LruCache
from holdfast.web.replay.response import PART_BYTES, Archived

_OVERHEAD = 500  # bytes of a response without its body


class CachedReply(NamedTuple):
    """A whole response. Headers are in the form that ASGI wants."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + _OVERHEAD


class SpooledPayload:
    """A payload in a file. Any thread may read it; it is closed with its last reference."""

    _descriptor = -1

    def __init__(self, archived: Archived) -> None:
        """Reads all of the payload. Raises what reading may."""
        with tempfile.TemporaryFile(prefix="holdfast-") as file:
            file.writelines(archived.stream())
            file.flush()
            self.size = file.tell()
            self._descriptor = os.dup(file.fileno())

    def parts(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes from one offset and before another, in small parts."""
        for at in range(begin, end, PART_BYTES):
            yield os.pread(self._descriptor, min(PART_BYTES, end - at), at)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class Spool:
    """Recently used large payloads, up to a number of bytes. Any thread may call it."""

    def __init__(self, bytes_max: int) -> None:
        self._lock = Lock()
        self._kept: LruCache[Hashable, SpooledPayload] = LruCache(bytes_max, lambda payload: payload.size)
        self._reading: dict[Hashable, Future[SpooledPayload]] = {}

    def payload(self, key: Hashable, archived: Archived) -> SpooledPayload:
        """The payload of a capture. Waits if another thread is reading it. Raises what reading may."""
        with self._lock:
            if (kept := self._kept.get(key)) is not None:
                return kept
            reading = self._reading.get(key)
            if reading is None:
                mine = self._reading[key] = Future()
        return reading.result() if reading is not None else self._read(key, mine, archived)

    def _read(self, key: Hashable, mine: Future[SpooledPayload], archived: Archived) -> SpooledPayload:
        try:
            payload = SpooledPayload(archived)
        except BaseException as error:
            with self._lock:
                del self._reading[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._reading[key]
            self._kept.put(key, payload)
        mine.set_result(payload)
        return payload
