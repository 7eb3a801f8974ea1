"""A scan of a volume on another machine."""

from __future__ import annotations

import struct

from holdfast.errors import MalformedInput
from holdfast.storage.remote import wire
from holdfast.storage.remote.link import Link
from holdfast.storage.remote.pool import Pool
from holdfast.storage.remote.reader import Reader
from holdfast.storage.remote.wire import Type
from holdfast.storage.volume import Block, Mark

_U64 = struct.Struct(">Q")


class RemoteScan:
    """A scan on a connection of its own: the next batch is on its way while the last one is looked at."""

    def __init__(self, pool: Pool, *, counted: bool, after: Mark | None) -> None:
        self._pool = pool
        self._counted = counted
        self._mark = after
        self._link: Link | None = None
        self._request: int | None = None

    def next(self) -> list[Block]:
        """The next batch; empty at the end. Raises VolumeDown."""
        return self._pool.persist(self._attempt)

    def _attempt(self) -> list[Block]:
        try:
            return self._next()
        except (OSError, MalformedInput):
            self._drop()
            raise

    def _next(self) -> list[Block]:
        if self._link is None:
            self._link = self._pool.take()
        if self._request is None:
            self._request = self._link.send(Type.SCAN, self._question())
        request, self._request = self._request, None
        batch = _scanned(self._link.receive(request))
        if batch:
            self._mark = batch[-1].mark
            self._ask_ahead()
        return batch

    def _ask_ahead(self) -> None:
        """If that fails, it will be noticed when the answer is needed: this batch is sound."""
        assert self._link is not None
        try:
            self._request = self._link.send(Type.SCAN, self._question())
        except OSError:
            self._drop()

    def _question(self) -> bytes:
        if self._mark is None:
            return bytes([self._counted, 0])
        return bytes([self._counted, 1]) + wire.pack_key(self._mark.key) + _U64.pack(self._mark.serial)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._request = None

    def __enter__(self) -> RemoteScan:
        return self

    def __exit__(self, *_: object) -> None:
        if self._link is not None and self._request is None:
            self._pool.give_back(self._link)
        else:
            self._drop()


def _scanned(answer: memoryview) -> list[Block]:
    reader = Reader(answer)
    blocks = []
    for _ in range(reader.u32()):
        key = wire.read_key(reader)
        blocks.append(wire.read_block(reader, key))
    reader.end()
    return blocks
