"""HTTP/1.1 as the server speaks it: one object for each connection, requests answered one after the other.

An answer that is whole is written at once. One that is a stream is written by a task that waits while the client does
not read. Each answer ends with a line in the log; that of a client that went away says how much was sent.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from hostile_web.exchange import Answer, LogEntry, Request, World

HEAD_BYTES_MAX = 1 << 20
_LINGER_NONE = struct.pack("ii", 1, 0)


class Book:
    """What all connections of a server share: the hosts, the log, the clock."""

    def __init__(self, world: World, now: Callable[[], float]) -> None:
        self.world = world
        self.now = now
        self.log: list[LogEntry] = []
        self.connections = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.open: set[asyncio.Transport] = set()


class Conversation(asyncio.Protocol):
    """One connection. Loop thread only."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._buffer = bytearray()
        self._skip = 0  # bytes of a request's body still to come
        self._current: tuple[Request, float] | None = None
        self._sent = 0
        self._written = 0.0
        self._answer = Answer()
        self._readable = asyncio.Event()
        self._readable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._book.open.add(transport)
        self._book.connections += 1
        self._id = self._book.connections
        self._address = str(transport.get_extra_info("sockname")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        self._book.open.discard(self._transport)
        self._readable.set()
        if self._current is not None:
            self._enter(self._book.now())

    def pause_writing(self) -> None:
        self._readable.clear()

    def resume_writing(self) -> None:
        self._readable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._current is None:
            self._next()

    def _next(self) -> None:
        """Begins with the next request if it is there."""
        while self._current is None and not self._transport.is_closing():
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or self._skip:
                if len(self._buffer) > HEAD_BYTES_MAX or self._buffer[:1] == b"\x16":  # a TLS handshake
                    self._begin(Request("", self._address, "?", "?", ()))
                return
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            request = _parsed(head, self._address)
            self._skip = int(request.header("content-length") or 0)
            self._begin(request)

    def _begin(self, request: Request) -> None:
        self._current = (request, self._book.now())
        self._sent = 0
        if request.method == "?":
            answer = Answer(400, body=b"this is no HTTP request\n", close=True)
        else:
            answer = self._book.world.answer(request)
        self._answer = answer
        if self._book.world.latency_s or answer.stream is not None or answer.reset:
            task = asyncio.get_running_loop().create_task(self._send_slowly(request, answer))
            self._book.tasks.add(task)
            task.add_done_callback(self._book.tasks.discard)
        else:
            self._write(_whole(request, answer))
            self._end(request, answer)

    def _write(self, data: bytes) -> None:
        self._written = self._book.now()  # before the client can have any of it
        self._sent += len(data)
        self._transport.write(data)

    def _end(self, request: Request, answer: Answer) -> None:
        self._enter(self._written)
        if answer.close or answer.stream is not None or request.header("connection").lower() == "close":
            self._transport.close()

    def _enter(self, answered: float) -> None:
        assert self._current is not None
        request, received = self._current
        status = 0 if self._answer.raw else self._answer.status
        self._book.log.append(
            LogEntry(self._id, received, answered, *request, status, self._sent, pause_until=self._answer.pause_until)
        )
        self._current = None

    async def _send_slowly(self, request: Request, answer: Answer) -> None:
        if self._book.world.latency_s:
            await asyncio.sleep(self._book.world.latency_s)
        if self._transport.is_closing():
            return
        if answer.reset:
            self._reset()
            return
        self._write(_whole(request, answer))
        if answer.stream is not None:
            await self._pour(answer.stream())
        if self._current is not None:
            self._end(request, answer)
            self._next()

    async def _pour(self, stream: AsyncIterator[bytes]) -> None:
        async for part in stream:
            await self._readable.wait()
            if self._transport.is_closing():
                return
            self._write(part)

    def _reset(self) -> None:
        connection = self._transport.get_extra_info("socket")
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self._transport.abort()


def _parsed(head: bytes, address: str) -> Request:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Request("", address, "?", lines[0][:100], ())
    fields = [line.partition(":") for line in lines[1:]]
    headers = tuple((name.lower(), value.strip()) for name, _, value in fields)
    host = next((value for name, value in headers if name == "host"), "")
    return Request(host.rpartition(":")[0].lower() or host.lower(), address, words[0], words[1], headers)


def _whole(request: Request, answer: Answer) -> bytes:
    if answer.raw:
        return answer.body
    if request.method == "HEAD" or answer.status == 304:
        return answer.head()
    if answer.chunked:
        return answer.head() + _chunks(answer.body)
    return answer.head() + answer.body


def _chunks(body: bytes, size: int = 1000) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
