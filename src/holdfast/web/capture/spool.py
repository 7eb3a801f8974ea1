"""Large payloads on their way out: put aside in files without a name, so that slow clients hold no memory.

A payload is read and verified once, piece by piece, and then sent from its file at the pace of each client; a player
that asks for range after range is answered from it, too. The files asked for last are kept, up to a number of bytes;
they vanish with the process, however it ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from concurrent.futures import Future
from threading import Lock

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
        self._bytes_max = bytes_max
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, Future[SpooledPayload]] = OrderedDict()
        self._bytes = 0

    def payload(self, key: Hashable, archived: Archived) -> SpooledPayload:
        """The payload of a capture; whoever asks while another reads it waits for that. Raises what reading may."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                mine = self._kept[key] = Future()
            else:
                self._kept.move_to_end(key)
        return found.result() if found is not None else self._filled(key, mine, archived)

    def _filled(self, key: Hashable, mine: Future[SpooledPayload], archived: Archived) -> SpooledPayload:
        try:
            payload = SpooledPayload(archived)
        except BaseException as error:
            with self._lock:
                del self._kept[key]
            mine.set_exception(error)
            raise
        mine.set_result(payload)
        with self._lock:
            self._bytes += payload.size
            while self._bytes > self._bytes_max and (oldest := self._oldest_done()) is not None:
                self._bytes -= self._kept.pop(oldest).result().size
        return payload

    def _oldest_done(self) -> Hashable | None:
        return next((key for key, each in self._kept.items() if each.done()), None)


def _write(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]
