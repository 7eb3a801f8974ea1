"""Wrong tokens, counted in memory that all workers share: a lock that only one of them knew of would be none.

    set 0:  WAYS slots of 32 bytes:  name │ count │ time of the last
            16 bytes, zero: free       8       8   seconds of the system's monotonic clock
    set 1:  ...

A name is a hash of an address, or of an address and a token that was accepted from it. It has its place in one of
`SETS` sets; in a full set the name that was seen longest ago is forgotten. So memory is bounded whatever is sent, and a
worker that is started again finds what was counted before. A file lock keeps workers from counting at the same moment;
it is taken for tokens that are new or wrong, and lets go by itself if its holder dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

SETS, WAYS = 1024, 8
_SLOT = struct.Struct("<16sqd")
_FREE = bytes(16)


class TokenAttempts:
    """One worker's view. For one thread: that of the event loop."""

    def __init__(self, descriptor: int) -> None:
        """Takes the descriptor over."""
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, SETS * WAYS * _SLOT.size)

    @classmethod
    def make(cls) -> Self:
        """Fresh ones; the descriptor can be handed to other processes."""
        descriptor = os.memfd_create("holdfast-attempts")
        os.ftruncate(descriptor, SETS * WAYS * _SLOT.size)
        return cls(descriptor)

    def last(self, name: str) -> tuple[int, float]:
        """How often it was noted, and when last; (0, 0.0): never, or too long ago to be remembered."""
        digest = _digest(name)
        with self._locked():
            return next((slot[1:] for _, slot in self._set(digest) if slot[0] == digest), (0, 0.0))

    def note(self, name: str, now_s: float, within_s: float) -> int:
        """Counts once more, from one again if the last was longer ago than that; the count."""
        digest = _digest(name)
        with self._locked():
            slots = list(self._set(digest))
            known = next((each for each in slots if each[1][0] == digest), None)
            at, (_, count, last_s) = known or min(slots, key=lambda each: (each[1][0] != _FREE, each[1][2]))
            count = count + 1 if known is not None and now_s - last_s < within_s else 1
            _SLOT.pack_into(self._map, at, digest, count, now_s)
            return count

    def _set(self, digest: bytes) -> Iterator[tuple[int, tuple[bytes, int, float]]]:
        first = int.from_bytes(digest[:4], "little") % SETS * WAYS
        for slot in range(first, first + WAYS):
            yield slot * _SLOT.size, _SLOT.unpack_from(self._map, slot * _SLOT.size)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=16).digest()
