"""The reference server as a program: `python -m benchmarks.webstore.subjects.reference_server DIRECTORY`.

The shortest path that a durable block server in this Python can have: one table of places, one file, one thread that
appends what has gathered and syncs it. It has no counters, checksums, limits, authentication or repeats. It prints its
port when it is ready.

    request   u8 operation | u32 length of the rest | 32 bytes of signature | data
    response  u8 status | u32 length of the data | data
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import cast

import uvloop
from rocksdict import Options, Rdict

FETCH, STORE, DELETE = range(1, 4)
DONE, MISSING, KNOWN = range(3)
HEAD = struct.Struct(">BI")
SIGNATURE_BYTES = 32
_PLACE = struct.Struct(">QI")
_BUFFER_BYTES = 1 << 20
_REMOVED = b""  # in the file a signature without data

Change = tuple["Connection", bytes, bytes]


class Blocks:
    """A table of places, and the file that they are in."""

    def __init__(self, directory: Path) -> None:
        self.places = Rdict(str(directory / "places"), Options(raw_mode=True))
        self._file = os.open(directory / "blocks", os.O_RDWR | os.O_CREAT)
        self._end = 0

    def read(self, signature: bytes) -> bytes | None:
        place = self.places.get(signature)
        if place is None:
            return None
        start, length = _PLACE.unpack(place)
        return os.pread(self._file, length, start)

    def write(self, changes: list[Change]) -> None:
        """Durable on return."""
        buffers: list[bytes] = []
        start, places = self._end, []
        for _, signature, data in changes:
            buffers += (signature, data)
            places.append(_PLACE.pack(start + SIGNATURE_BYTES, len(data)))
            start += SIGNATURE_BYTES + len(data)
        os.pwrite(self._file, b"".join(buffers), self._end)
        os.fdatasync(self._file)
        self._end = start
        for (_, signature, data), place in zip(changes, places, strict=True):
            if data:
                self.places[signature] = place
            else:
                del self.places[signature]


class Committer(Thread):
    """Makes durable together what has gathered."""

    def __init__(self, blocks: Blocks, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self._blocks = blocks
        self._loop = loop
        self.queue: SimpleQueue[Change] = SimpleQueue()

    def run(self) -> None:
        while True:
            changes = [self.queue.get()]
            while not self.queue.empty():
                changes.append(self.queue.get())
            self._blocks.write(changes)
            self._loop.call_soon_threadsafe(_respond, changes)


def _respond(changes: list[Change]) -> None:
    for connection, _, _ in changes:
        connection.transport.write(HEAD.pack(DONE, 0))


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, blocks: Blocks, committer: Committer) -> None:
        self._blocks = blocks
        self._submit = committer.queue.put
        self._view = memoryview(bytearray(_BUFFER_BYTES))
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        start, view = 0, self._view
        while self._end - start >= HEAD.size:
            operation, length = HEAD.unpack_from(view, start)
            following = start + HEAD.size + length
            if self._end < following:
                self._make_room(start, HEAD.size + length)
                return
            data = start + HEAD.size + SIGNATURE_BYTES
            self._handle(operation, bytes(view[data - SIGNATURE_BYTES : data]), view[data:following])
            start = following
        self._make_room(start, HEAD.size)

    def _make_room(self, start: int, wanted: int) -> None:
        left = self._view[start : self._end]
        if wanted > len(self._view):
            self._view = memoryview(bytearray(wanted))
        self._view[: len(left)] = left
        self._end = len(left)

    def _handle(self, operation: int, signature: bytes, data: memoryview) -> None:
        if operation == FETCH:
            found = self._blocks.read(signature)
            if found is None:
                self.transport.write(HEAD.pack(MISSING, 0))
            else:
                self.transport.writelines((HEAD.pack(DONE, len(found)), found))
        elif operation == STORE:
            if self._blocks.places.get(signature) is None:
                self._submit((self, signature, bytes(data)))
            else:
                self.transport.write(HEAD.pack(KNOWN, 0))
        elif self._blocks.places.get(signature) is None:
            self.transport.write(HEAD.pack(MISSING, 0))
        else:
            self._submit((self, signature, _REMOVED))


async def serve(directory: Path) -> None:
    loop = asyncio.get_running_loop()
    blocks = Blocks(directory)
    committer = Committer(blocks, loop)
    committer.start()
    server = await loop.create_server(lambda: Connection(blocks, committer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
