"""Large payloads on their way out: put aside in files without a name, so that slow clients hold no memory.

A payload is read and verified once, piece by piece, and then sent from its file at the pace of each client; a player
that asks for range after range is answered from it, too. The files asked for last are kept, up to a number of bytes;
they vanish with the process, however it ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from threading import Lock

from holdfast.env.lru import LruCache
from holdfast.web.capture.response import PART_BYTES, Archived


class SpooledPayload:
    """A payload in a file. Any thread may read it; the last one who lets go of it closes it."""

    def __init__(self, archived: Archived) -> None:
        """Reads all of the payload. Raises what reading may."""
        self._descriptor = -1
        with tempfile.TemporaryFile(prefix="holdfast-", buffering=0) as file:
            for piece in archived.stream():
                _write(file.fileno(), piece)
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
    """The payloads that are put aside. Any thread may call it."""

    def __init__(self, bytes_max: int) -> None:
        self._lock = Lock()
        self._kept: LruCache[Hashable, SpooledPayload] = LruCache(bytes_max, lambda payload: payload.size)
        self._reading: dict[Hashable, Future[SpooledPayload]] = {}

    def payload(self, key: Hashable, archived: Archived) -> SpooledPayload:
        """The payload of a capture; whoever asks while another reads it waits for that. Raises what reading may."""
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


def _write(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]
