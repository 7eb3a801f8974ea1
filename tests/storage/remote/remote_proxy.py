"""A proxy between clients and a volume server that does what networks do, by a seed.

It delays, cuts connections at any byte in either direction, keeps bytes back until the client has given up and then
delivers them after all, sends commits twice, loses the answers to chosen ones, counts bytes, and remembers what clients
have sent.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random

COMMIT, VOID = 4, 5
_HEAD = struct.Struct(">IB")
_CHUNK_BYTES = 64 << 10


@dataclass(frozen=True)
class Chaos:
    """How bad the network is. Shares are of connections, or of commits."""

    seed: int
    cut: float = 0.0  # connections that are cut, in either direction or both
    cut_bytes: int = 10_000  # after about so many bytes
    delay_s: float = 0.0  # before a piece is passed on, at most
    stalled: float = 0.0  # connections that keep their bytes back at some point
    stall_s: float = 0.6  # for so long
    doubled: float = 0.0  # commits that are sent twice
    raw: bool = False  # what clients send is not to be understood


class Proxy:
    """Listens on a port of its own. Any thread may look at it; its work is done by a thread of its own."""

    def __init__(self, target_port: int, chaos: Chaos | None = None) -> None:
        self.target_port = target_port
        self.chaos = chaos or Chaos(0)
        self.port = 0
        self.connections = 0
        self.cuts = self.stalls = self.doubles = 0
        self.up_bytes = self.down_bytes = 0
        self.recordings: list[bytearray] = []  # what each client has sent
        self.lost_answers: set[int] = set()  # which commits' answers are cut off, counting from 1
        self.commits = 0  # that were passed on, repeated ones and those made void included
        self._random = Random(self.chaos.seed)
        self._tasks: set[asyncio.Task[None] | None] = set()  # the loop itself would let them be forgotten

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def passed_bytes(self) -> int:
        """In both directions."""
        return self.up_bytes + self.down_bytes

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        self.connections += 1
        self._tasks.add(asyncio.current_task())
        try:
            await self._pass_on(reader, writer)
        finally:
            writer.close()
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chaos, random = self.chaos, Random(self._random.random())
        recording = bytearray()
        self.recordings.append(recording)
        try:
            target = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            return
        is_cut = [random.random() < chaos.cut for _ in range(2)]
        cut_at = [int(random.expovariate(1 / chaos.cut_bytes)) if each else None for each in is_cut]
        stall_at = int(random.expovariate(1 / 3000)) if random.random() < chaos.stalled else None
        up = Pump(self, random, reader, target[1], cut_at[0])
        down = Pump(self, random, target[0], writer, cut_at[1])
        up.other = down
        (up if random.random() < 0.7 else down).stall_at = stall_at
        tasks = [
            asyncio.ensure_future(up.run(doubling=chaos.doubled, recording=recording)),
            asyncio.ensure_future(down.run()),
        ]
        with suppress(asyncio.CancelledError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for each in tasks:
            each.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.cuts += any(isinstance(end, Cut) for end in ends)
        target[1].close()
        target[1].transport.abort()

    def count(self, size: int, *, is_up: bool) -> None:
        if is_up:
            self.up_bytes += size
        else:
            self.down_bytes += size


class Cut(Exception):
    """The connection is cut here."""


class Pump:
    """One direction of one connection."""

    def __init__(
        self,
        proxy: Proxy,
        random: Random,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        cut_at: int | None,
    ) -> None:
        self._proxy = proxy
        self._random = random
        self._reader = reader
        self._writer = writer
        self._cut_at = cut_at
        self._is_up = False
        self.other: Pump | None = None  # of the other direction
        self.is_cut = False  # when the next piece comes
        self.stall_at: int | None = None
        self.passed = 0

    async def run(self, doubling: float = 0.0, recording: bytearray | None = None) -> None:
        """Passes everything on. With a recording: from the client to the server."""
        self._is_up = recording is not None
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while piece := await self._next(doubling):
                if recording is not None:
                    recording += piece
                await self._pass(piece)
        self._end()

    async def _next(self, doubling: float) -> bytes:
        if not self._is_up or self._proxy.chaos.raw:
            return await self._reader.read(_CHUNK_BYTES)
        return await self._frame(doubling)

    async def _frame(self, doubling: float) -> bytes:
        """A frame, or the same one twice."""
        head = await self._reader.readexactly(_HEAD.size)
        length, kind = _HEAD.unpack(head)
        frame = head + await self._reader.readexactly(length - 1)
        if kind in (COMMIT, VOID):
            self._proxy.commits += 1
            if self._proxy.commits in self._proxy.lost_answers and self.other is not None:
                self.other.is_cut = True
        if kind == COMMIT and self._random.random() < doubling:
            self._proxy.doubles += 1
            return 2 * frame
        return frame

    async def _pass(self, piece: bytes) -> None:
        chaos = self._proxy.chaos
        if chaos.delay_s:
            await asyncio.sleep(self._random.random() ** 4 * chaos.delay_s)
        if self.stall_at is not None and self.passed >= self.stall_at:
            self.stall_at = None
            self._proxy.stalls += 1
            await asyncio.sleep(chaos.stall_s)
        end = self.passed + len(piece)
        if self.is_cut:
            raise Cut
        if self._cut_at is not None and end > self._cut_at:
            self._writer.write(piece[: self._cut_at - self.passed])
            with suppress(ConnectionError):
                await self._writer.drain()
            raise Cut
        self._proxy.count(len(piece), is_up=self._is_up)
        self._writer.write(piece)
        self.passed = end
        await self._writer.drain()

    def _end(self) -> None:
        """This side has ended: the other is told, behind what was passed on."""
        with suppress(OSError, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()


@contextmanager
def proxied(target_port: int, chaos: Chaos | None = None) -> Iterator[Proxy]:
    """A proxy that runs until the end of the `with`."""
    proxy = Proxy(target_port, chaos)
    ready, done, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()

    async def run() -> None:
        server = await asyncio.start_server(proxy.meet, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()
        await done.wait()
        server.close()
        for _ in range(3):  # a connection may have come just now; aborted transports are closed by the next turn
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), name="proxy")
    thread.start()
    try:
        assert ready.wait(30)
        yield proxy
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
