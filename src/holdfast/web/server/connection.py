"""An HTTP/1.1 connection, with limits on everything a client can make long, large or slow.

    waiting ──first byte──▶ head ──complete──▶ busy ──answered──▶ waiting     each state has a time limit: `check_time`
                             │                  └── for the last time ──▶ ended: further bytes ignored, then closed
                             └── malformed or too large: a 4xx ──▶ ended

llhttp parses (`httptools`); an ASGI application answers. A head is checked before the application sees it: target,
lengths, host. Where two readers of one request could disagree (two lengths, a length and chunks, two hosts, a folded
field), the request is refused: request smuggling lives on such differences.

One timer of the worker checks every connection several times a second: a timer per connection would cost each request
more than all other limits together.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import httptools

from holdfast.web.request import CERTIFICATE, EMPTY_QUERY
from holdfast.web.server.host_names import Hosts, name_in

if TYPE_CHECKING:
    from holdfast.web.server.http_server import HttpServer

log = logging.getLogger("holdfast.web")

HEADER_BYTES_MAX = 64 << 10  # of a request's head; beyond it 431
HEADER_COUNT_MAX = 100  # fields of a request's head; beyond it 431
TARGET_BYTES_MAX = 32 << 10  # of a request's address; beyond it 414
KEEP_ALIVE_S = 15.0  # between two requests of a connection
PIPELINED_MAX = 100  # requests that wait for the response under way; the last of them ends the connection
_ARRIVAL_S = 1.0  # for the first request of a connection to arrive at a server that stops
_LINGER_S = 2.0  # for a client that still sends to read its last response, before the connection is aborted
_FRAMING_MAX = 16  # bytes of chunk sizes, extensions and trailers for each byte of a body
_UNREAD_BYTES_MAX = 64 << 10  # of a body that the application has not read; beyond it reading is paused
_VERSIONS = ("1.1", "1.0")
_ASGI = {"version": "3.0", "spec_version": "2.4"}
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}".encode() for status in range(600)]
_FAILURE = b"The server failed to respond; its log says why.\n"
_WAITING, _HEAD, _BUSY, _ENDED = range(4)

App = Callable[[Any, Any, Any], Awaitable[None]]
Fields = list[tuple[bytes, bytes]]


class ClientDisconnected(OSError):
    """The client is gone. Raised by `send`, as ASGI 2.4 has it: a response that nobody reads is not completed."""


class Refusal(Exception):
    """A request that is refused before the application sees it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Enough(Exception):
    """The last request of a connection was read; later bytes are ignored."""


class HttpConnection(asyncio.Protocol):
    """One connection of a worker. All on the event loop."""

    transport: asyncio.Transport

    def __init__(self, app: App, server: HttpServer) -> None:
        self.server = server
        self.write_allowed = asyncio.Event()
        self.write_allowed.set()
        self._app = app
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        # Bytes behind a request that closes the connection are ignored, not an error: its response must go out.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._certificate: bytes | None = None  # of the client, over TLS
        self._client: tuple[str, int] | None = None
        self._address: tuple[str, int] | None = None
        self._cycle: Cycle | None = None  # of the request that was read last
        self._running: Cycle | None = None  # the one that is being answered
        self._pipeline: deque[Cycle] = deque()  # read, and waiting for their turn
        self._read_paused = False
        self._phase = _HEAD
        self._since = self._loop.time()  # when the phase began
        self._body_read_at = self._since
        self._is_deaf = False
        self._in_head = False  # between the first byte of a message and its headers' end, also while busy
        self._url = b""
        self._headers: Fields = []
        self._head_bytes = 0  # of fields that are complete
        self._open_bytes = 0  # of one that is not; the parser gathers them
        self._body_bytes = 0
        self._framing_bytes = 0  # that came with the body: chunk sizes, extensions, trailers
        self._unsent = 0  # bytes that waited to be sent at the last check
        self._unsent_since = 0.0

    # -- transport ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._client, self._address = (_place(transport.get_extra_info(each)) for each in ("peername", "sockname"))
        if (tls := transport.get_extra_info("ssl_object")) is not None:
            self._certificate = tls.getpeercert(binary_form=True)
        server = self.server
        server.counters.add("connections")
        server.connections.add(self)
        if len(server.connections) > server.settings.connections_max:
            server.counters.add("connections_refused")
            if len(server.connections) > 2 * server.settings.connections_max:
                self.transport.abort()  # too many to send a 503 to each
            else:
                self._refuse(503, "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._running is not None and not self._running.is_complete:
            self._running.disconnect()
        self.write_allowed.set()
        self._pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self._phase == _ENDED or self._is_deaf:
            return
        if self._phase == _WAITING:
            self._enter(_HEAD)
        was_in_head, head_bytes = self._in_head, self._head_bytes
        cycle, body_bytes = self._cycle, self._body_bytes
        was_in_body = cycle is not None and cycle.more_body and not was_in_head
        if self._phase == _HEAD and not was_in_head and not data.isascii():
            data = _escaped_line(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_deaf = True  # the parser stops here; the request is answered as plain HTTP, and is the last
        except httptools.HttpParserError as error:
            reason = error.__context__
            if isinstance(reason, _Enough):
                self._is_deaf = True
                self._pause_reading()  # until the last response is complete
            elif isinstance(reason, Refusal):
                self._refuse(reason.status, str(reason))
            else:
                self._refuse(400, f"not a valid HTTP request: {error}")
        else:
            if was_in_head and self._in_head:
                self._check_open_field(len(data), is_same=head_bytes == self._head_bytes)
            elif was_in_body and cycle is self._cycle and cycle is not None and cycle.more_body:
                self._check_framing(len(data) - (self._body_bytes - body_bytes))

    def _check_open_field(self, size: int, *, is_same: bool) -> None:
        """Limits a header field that is still incomplete."""
        self._open_bytes = self._open_bytes + size if is_same else 0
        if self._head_bytes + self._open_bytes > HEADER_BYTES_MAX:
            self._refuse(431, "the head of the request is too large")

    def _check_framing(self, size: int) -> None:
        """Limits trailers and chunk extensions, which do not count as body."""
        self._framing_bytes += size
        if self._framing_bytes > HEADER_BYTES_MAX + _FRAMING_MAX * self._body_bytes:
            self._refuse(400, "the chunks of the body have too much beside their data")

    def pause_writing(self) -> None:
        self.write_allowed.clear()

    def resume_writing(self) -> None:
        self.write_allowed.set()

    def read_for(self, cycle: Cycle) -> None:
        """Resumes reading if the request is the last one read; pipelined requests wait."""
        if cycle is self._cycle and not self._is_deaf:
            self._resume_reading()

    def _resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            self._body_read_at = self._loop.time()  # the client could not send before
            self.transport.resume_reading()

    def write_continue(self) -> None:
        """Asks the client for the body that it announced."""
        self._body_read_at = self._loop.time()
        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def _enter(self, phase: int) -> None:
        self._phase = phase
        self._since = self._body_read_at = self._loop.time()

    # -- calls of the parser --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._cycle is not None and not self._cycle.keep_alive:
            raise _Enough
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_bytes = self._open_bytes = self._body_bytes = self._framing_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > TARGET_BYTES_MAX:
            raise Refusal(414, "the address is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: ignored
        self._headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEADER_BYTES_MAX:
            raise Refusal(431, "the head of the request is too large")
        if len(self._headers) > HEADER_COUNT_MAX:
            raise Refusal(431, "the request has too many header fields")

    def on_headers_complete(self) -> None:
        parser, version = self._parser, self._parser.get_http_version()
        path, query = self._checked_head(version)
        self._in_head = False
        self._enter(_BUSY)
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path.decode("ascii")) if b"%" in path else path.decode("ascii"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            "server": self._address,
            "client": self.server.proxies.client(self._client, self._headers),
            "state": {},
            EMPTY_QUERY: self._url.endswith(b"?"),
            CERTIFICATE: self._certificate,
        }
        is_last = version == "1.0" or parser.should_upgrade() or not parser.should_keep_alive() or self.server.stopping
        self._cycle = Cycle(self, scope, keep_alive=not is_last)
        if self._running is None or self._running.is_complete:
            self._start(self._cycle)
        else:
            self._pause_reading()
            self._pipeline.append(self._cycle)
            if len(self._pipeline) == PIPELINED_MAX:
                self._cycle.keep_alive = False

    def _checked_head(self, version: str) -> tuple[bytes, bytes]:
        """Path and query of a request that is in order. Raises Refusal."""
        if version not in _VERSIONS:
            raise Refusal(400, "this server speaks HTTP/1.1")
        length = _body_length(self._headers, version)
        if length > self.server.settings.body_bytes_max:
            raise Refusal(413, "the body of the request is too large")
        has_body = length > 0 or any(name == b"transfer-encoding" for name, _ in self._headers)
        if has_body and self._parser.should_upgrade():  # httptools passes over it
            raise Refusal(400, "a request for another protocol cannot have a body: send it without 'Upgrade'")
        if sum(name == b"host" for name, _ in self._headers) > 1:  # also if the target names one
            raise Refusal(400, "the request must name one host")
        target = _target(self._url, self._headers)
        verify_host(self._headers, version, self.server.hosts)
        return target

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._body_read_at = self._loop.time()
        if self._body_bytes > self.server.settings.body_bytes_max:
            raise Refusal(413, "the body of the request is too large")
        cycle = self._cycle
        if cycle is not None and not cycle.is_complete:
            cycle.body += body
            cycle.changed.set()
            if len(cycle.body) > _UNREAD_BYTES_MAX:
                self._pause_reading()

    def on_message_complete(self) -> None:
        cycle = self._cycle
        assert cycle is not None
        cycle.more_body = False
        if cycle.is_complete:
            self._enter(_WAITING)  # the response came before the end of the request
        else:
            cycle.changed.set()

    # -- responses --------------------------------------------------------------------------------------------------

    def _start(self, cycle: Cycle) -> None:
        self._running = cycle
        task = self._loop.create_task(self._run(cycle))
        self.server.tasks.add(task)
        task.add_done_callback(self.server.tasks.discard)

    async def _run(self, cycle: Cycle) -> None:
        begun = perf_counter()  # the loop's clock stands still while it works
        self.server.counters.add("in_flight")
        try:
            await cycle.run(self._app)
        finally:
            self.server.counters.add("in_flight", -1)
            self.server.record(cycle, perf_counter() - begun)

    def on_response_complete(self, *, keep_alive: bool) -> None:
        if not keep_alive:
            self._end()
        if self.transport.is_closing() or self._phase == _ENDED:
            return
        if self._pipeline:
            self._start(self._pipeline.popleft())
        elif self._cycle is not None and not self._cycle.more_body:
            self._enter(_HEAD if self._in_head else _WAITING)
        if not self._pipeline and not self._is_deaf:
            self._resume_reading()

    def _end(self) -> None:
        """Ends after the last response. Unread bytes are drained first, or the kernel would reset the connection."""
        is_sending = self._is_deaf or self._phase == _ENDED or (self._cycle is not None and self._cycle.more_body)
        if self.transport.is_closing() or not is_sending or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._enter(_ENDED)
        self._pipeline.clear()
        self._resume_reading()
        self.transport.write_eof()

    def _refuse(self, status: int, reason: str) -> None:
        """Responds without the application, and accepts no more requests on this connection."""
        running, cycle = self._running, self._cycle
        if self._phase == _BUSY and cycle is not None and cycle.is_complete:
            self.transport.close()  # malformed bytes after the response
            return
        awaits_body = running is not None and running is cycle and running.more_body and not running.is_complete
        self._enter(_ENDED)
        self._pipeline.clear()
        if running is not None and awaits_body:
            running.status = running.status or status  # counted and logged as the request that it is
        else:
            self.server.record_refusal(self._client, status)
        if running is not None and not running.is_complete:
            running.keep_alive = False  # the current response is the last
            if not awaits_body:
                return
            running.disconnect()  # it waits for a body that will not arrive
            if running.is_started:
                self.transport.abort()
                return
        self.transport.write(_refusal_response(status, reason))
        self._end()

    def reset(self) -> None:
        """Resets the connection, so that the client cannot mistake it for the end of the response."""
        options = struct.pack("ii", 1, 0)  # linger for no time: RST instead of FIN
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, options)
        self.transport.abort()

    # -- time -----------------------------------------------------------------------------------------------------

    def check_time(self, now: float) -> None:
        """Ends the connection if a time limit has passed. Called several times a second."""
        timeout_s = self.server.settings.client_timeout_s
        self._check_stall(now, timeout_s)
        waited = now - self._since
        if self.transport.is_closing():
            return
        if self._phase == _ENDED:
            is_answering = self._running is not None and not self._running.is_complete and not self._running.is_gone
            if waited > _LINGER_S and not is_answering and not self._unsent:
                self.transport.abort()
        elif self._phase == _WAITING:
            if self._unsent:
                self._since = now  # it still reads the response
            elif waited > KEEP_ALIVE_S:
                self.transport.close()
        elif self._phase == _HEAD:
            if waited > timeout_s:
                self._time_out("the head of the request did not come in time")
        elif self._awaits_body and now - self._body_read_at > timeout_s:
            self._time_out("the body of the request did not come in time")

    @property
    def _awaits_body(self) -> bool:
        cycle = self._cycle
        return cycle is not None and cycle.more_body and not self._read_paused and not cycle.is_asked_first

    def _time_out(self, reason: str) -> None:
        self.server.counters.add("timeouts")
        if self._phase == _HEAD and not self._in_head:
            self.transport.close()  # it never sent anything
        elif self._phase == _BUSY and self._cycle is not None and self._cycle.is_complete:
            self.transport.abort()  # it has its response
        else:
            self._refuse(408, reason)

    def _check_stall(self, now: float, timeout_s: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > timeout_s:
            self.server.counters.add("stalls")
            self.transport.abort()

    def shut_down(self, now: float) -> None:
        """Finishes the current response and accepts no more requests. Called until the connection has ended.

        A client that has just connected, or just started a request, still gets its response.
        """
        if self._running is None or self._running.is_complete:
            is_arriving = self._phase == _HEAD and now - self._since < _ARRIVAL_S
            if not is_arriving and self._phase != _ENDED:  # the timer closes those that have ended
                self.transport.close()
        else:
            self._running.keep_alive = False
            self._pipeline.clear()


class Cycle:
    """One request and its response: what ASGI calls `scope`, `receive` and `send`. On the event loop.

    The head of a response goes out with the first piece of its body, in one write. So a response that is sent as a
    whole has a length, and an application that fails in between is still answered by a 500.
    """

    def __init__(self, connection: HttpConnection, scope: dict[str, Any], *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.body = bytearray()  # read from the connection, and not yet by the application
        self.more_body = True
        self.changed = asyncio.Event()  # body, or an end
        self.is_complete = False  # the response
        self.is_started = False
        self.is_gone = False  # the client, or the rest of its request
        self.has_failed = False
        self.status = 0  # of the response; 0: none was sent
        self.sent = 0  # bytes of its body
        self._connection = connection
        self._expects_continue = scope["http_version"] != "1.0" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
        )
        self._is_chunked = False
        self._head: tuple[int, Fields] | None = None  # given, not yet sent
        self._left: int | None = None  # bytes that the response's length still promises; None: it has none

    @property
    def is_asked_first(self) -> bool:
        """True if the client waits for `100 Continue` before it sends the body."""
        return self._expects_continue and not self.is_complete

    def disconnect(self) -> None:
        self.is_gone = True
        self.changed.set()

    async def run(self, app: App) -> None:
        try:
            await app(self.scope, self.receive, self.send)
            if not self.is_complete and not self.is_gone:
                raise RuntimeError("the application did not complete its response")
        except ClientDisconnected:
            pass
        except Exception as error:  # an edge: the application may raise anything
            if not self.is_gone:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.has_failed = True
        log.error("cannot answer %s %r", self.scope["method"], self.scope["raw_path"][:200], exc_info=error)
        if self.is_complete:
            return  # the next request of the connection may be under way
        if self.is_started and not self._is_chunked and self._left is None:
            self._connection.reset()  # no length was announced: only a reset shows that the body is incomplete
            return
        if self.is_started:
            self._connection.transport.close()  # before the announced end: the client notices
            return
        self.keep_alive = False
        self._head = 500, [(b"content-type", b"text/plain")]
        self._write(_FAILURE, more=False)

    async def receive(self) -> dict[str, Any]:
        connection = self._connection
        if self._expects_continue and not (self.is_started or self.is_gone or connection.transport.is_closing()):
            connection.write_continue()
        self._expects_continue = False
        if not self.is_gone and not self.is_complete:
            connection.read_for(self)
            await self.changed.wait()
            self.changed.clear()
        if self.is_gone or self.is_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        if not self._connection.write_allowed.is_set():
            await self._connection.write_allowed.wait()
        if self.is_gone:
            raise ClientDisconnected
        if message["type"] == "http.response.start":
            assert self._head is None
            self._head = message["status"], message.get("headers", [])
        else:
            self._write(message.get("body", b""), more=message.get("more_body", False))

    def _write(self, body: bytes, *, more: bool) -> None:
        assert self._head is not None, "a response begins with its head"
        assert not self.is_complete, "a response ends once"
        has_body = self.scope["method"] != "HEAD" and self._head[0] not in (204, 304)
        if self._expects_continue and self.more_body:
            self.keep_alive = False  # the body may or may not follow
        head = b"" if self.is_started else self._encoded_head(*self._head, None if more else len(body), has_body)
        if not has_body:
            body = b""
        size = len(body)
        if has_body and self._is_chunked:
            body = b"%x\r\n%b\r\n" % (size, body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        elif self._left is not None and has_body:
            self._left -= size
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body of the response does not have the length that its head says")
        self.is_started, self.status = True, self._head[0]
        self.sent += size
        self._connection.transport.write(head + body if head else body)
        if not more:
            self.is_complete = True
            self.body = bytearray()  # free it: the connection may stay idle
            self.changed.set()
            self._connection.on_response_complete(keep_alive=self.keep_alive)

    def _encoded_head(self, status: int, headers: Fields, size: int | None, has_body: bool) -> bytes:
        """With the length, if the application gave none and `size` is known; else the body will be chunked."""
        lines = [_STATUS_LINES[status], *self._connection.server.header_lines, *map(b": ".join, headers)]
        length = size
        for name, value in headers:
            if name == b"content-length":
                length = -1
                self._left = int(value)
        if not self.keep_alive:
            lines.append(b"connection: close")
        if length is None and has_body and self.scope["http_version"] != "1.0":  # 1.0 ends with the connection
            lines.append(b"transfer-encoding: chunked")
            self._is_chunked = True
        elif length is not None and length >= 0 and status not in (204, 304) and (has_body or length):
            lines.append(b"content-length: %d" % length)
            self._left = length
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
            raise ValueError("a header of a response has a line break or a zero byte in it")
        return head + b"\r\n\r\n"


# -- checks of a head --------------------------------------------------------------------------------------------------

_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(?=[/?]|$)", re.IGNORECASE)
_NOT_IN_TARGET = re.compile(rb"[^!\"$-~]")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_SHOWN_MAX = 80
_FOLDED = re.compile(rb"[\x00\r\n]")


def _body_length(fields: Fields, version: str) -> int:
    """The length that the head says; 0 if the body is chunked. Raises Refusal for any contradiction."""
    lengths, coded = [], False
    for name, value in fields:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            if coded or value.strip().lower() != b"chunked" or version != "1.1":
                raise Refusal(400, "the only transfer encoding is chunked, given once, in HTTP/1.1")
            coded = True
        if _FOLDED.search(value):
            raise Refusal(400, "a header field goes over several lines")
    if len(lengths) + coded > 1:
        raise Refusal(400, "the request gives the length of its body more than once")
    if not lengths:
        return 0
    if not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise Refusal(400, "the length of the body is not a number")
    return int(lengths[0])


def verify_host(fields: Fields, version: str, hosts: Hosts) -> None:
    """Raises Refusal unless the request is for this server."""
    named = [value for name, value in fields if name == b"host"]
    if len(named) > 1 or (not named and version != "1.0"):
        raise Refusal(400, "the request must name one host")
    if named and not hosts.accepts(named[0]):
        name = repr(name_in(named[0]).decode("ascii", "replace")[:_SHOWN_MAX])
        reason = f"host name {name} is not among those of this server: add it to 'serve.hosts' in holdfast.toml"
        raise Refusal(421, reason.encode("ascii", "replace").decode())


def _escaped_line(data: bytes) -> bytes:
    """The first bytes of a request, with those of its first line beyond ASCII escaped.

    People type `?url=bücher.de`, and not all programs escape it. Such bytes have no other meaning.
    """
    line, end, rest = data.partition(b"\n")
    return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest


def _target(target: bytes, fields: Fields) -> tuple[bytes, bytes]:
    """Path and query. In absolute form, as sent to proxies, the host of the target counts."""
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        fields[:] = [field for field in fields if field[0] != b"host"]
        fields.append((b"host", absolute[1]))
        target = target[absolute.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    if not target.startswith(b"/") or _NOT_IN_TARGET.search(target):
        raise Refusal(400, "the address must begin with a slash, and hold only ASCII characters other than # and space")
    path, _, query = target.partition(b"?")
    return path, query


def _refusal_response(status: int, reason: str) -> bytes:
    body = f"{reason}\n".encode()
    lines = [
        _STATUS_LINES[status],
        b"content-type: text/plain; charset=utf-8",
        b"content-length: %d" % len(body),
        b"x-content-type-options: nosniff",
        b"content-security-policy: default-src 'none'",
        b"connection: close",
    ]
    if status == 431:  # cookies set by archived pages may have grown so long that every request is refused
        lines.append(b'clear-site-data: "cookies"')
    return b"\r\n".join([*lines, b"", body])


def _place(name: Any) -> tuple[str, int] | None:
    """Address and port; None for a socket that has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else None
