"""HTTP/1.1 as it is spoken to strangers: uvicorn's protocol, with a limit on all that a client can make long or slow.

    waiting ──first byte──▶ head ──complete──▶ busy ──answered──▶ waiting     each state has its time; `look` keeps it
                             └── broken or too large ──▶ refused: a 4xx, then nothing is listened to, then closed

A head is judged before the application sees anything of it: a target that is none, two lengths, two hosts, a host that
is not ours. What is refused is answered here. Time is kept by one timer of the worker, which looks at every connection
several times a second: timers of their own would cost each request more than all of this does.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.web.request import EMPTY_QUERY
from holdfast.web.server.connections import WorkerConnections
from holdfast.web.server.request_cycle import WHOLE, Cycle, log
from holdfast.web.server.request_head import VERSIONS, Refusal, body_length, escaped_line, target_of, verify_host

HEADER_BYTES_MAX = 64 << 10  # of a request's head; beyond it 431
HEADER_COUNT_MAX = 100  # fields of a request's head; beyond it 431
TARGET_BYTES_MAX = 32 << 10  # of a request's address; beyond it 414
_LINGER_S = 2.0  # for a client that is refused to read why, before it is cut off
_ASGI = {"version": "3.0", "spec_version": "2.4"}
_EXTENSIONS: dict[str, dict[str, Any]] = {WHOLE: {}}
WAITING, HEAD, BUSY, REFUSED = range(4)


class Protocol(HttpToolsProtocol):
    """One connection. All on the event loop."""

    shift: WorkerConnections  # set by `protocol_of`
    cycle: Any
    pipeline: Any

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._phase = HEAD
        self._since = self.loop.time()  # when the phase began
        self._heard = self._since  # when a piece of a body came last
        self._is_deaf = False
        self._in_head = False  # between the first byte of a message and its headers' end, also while BUSY
        self._head_bytes = 0
        self._body_bytes = 0
        self._unsent = 0  # bytes that waited to be sent when `look` looked last
        self._unsent_since = 0.0
        self._running: Cycle | None = None

    # -- connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        shift = self.shift
        shift.counters.add("connections")
        shift.connections.add(self)
        if len(shift.connections) > shift.settings.connections_max:
            shift.counters.add("connections_refused")
            self._refuse(503, "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self.shift.connections.discard(self)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        if self._phase == REFUSED or self._is_deaf:
            return
        if self._phase == WAITING:
            self._enter(HEAD)
        was_in_head = self._in_head
        if self._phase == HEAD and not was_in_head and not data.isascii():
            data = escaped_line(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_deaf = True  # the parser goes no further; the request is answered as if it had not asked for it
        except httptools.HttpParserError as error:
            reason = error.__context__
            if isinstance(reason, Refusal):
                self._refuse(reason.status, str(reason))
            else:
                self._refuse(400, f"not a valid HTTP request: {error}")
        else:
            if was_in_head and self._in_head:  # a field that does not end: the parser gathers it
                self._grow(len(data))

    def _grow(self, count: int) -> None:
        self._head_bytes += count
        if self._head_bytes > HEADER_BYTES_MAX:
            self._refuse(431, "the head of the request is too large")

    def _enter(self, phase: int) -> None:
        self._phase, self._since = phase, self.loop.time()
        self._heard = self._since

    # -- what the parser tells ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._in_head, self._head_bytes, self._body_bytes = True, 0, 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > TARGET_BYTES_MAX:
            raise Refusal(414, "the address is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: what came before the body has been acted on
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEADER_BYTES_MAX:
            raise Refusal(431, "the head of the request is too large")
        if len(self.headers) > HEADER_COUNT_MAX:
            raise Refusal(431, "the request has too many header fields")

    def on_headers_complete(self) -> None:
        method = self.parser.get_method().decode("ascii")
        version = self.parser.get_http_version()
        path, query = self._judge(version)
        self._in_head = False
        self._enter(BUSY)
        scope: Any = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "scheme": self.scheme,
            "path": unquote(path.decode("ascii")) if b"%" in path else path.decode("ascii"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "server": self.server,
            "client": self.client,
            "state": {},
            "extensions": _EXTENSIONS,
            EMPTY_QUERY: self.url.endswith(b"?"),
        }
        self.cycle = self._cycle(scope, version)
        if self._running is None or self._running.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _cycle(self, scope: Any, version: str) -> Cycle:
        return Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=self.shift.headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=self._may_go_on(version),
            on_response=self.on_response_complete,
        )

    def _may_go_on(self, version: str) -> bool:
        """Whether the connection may be used for further requests."""
        is_plain = version != "1.0" and not self.parser.should_upgrade()
        return is_plain and bool(self.parser.should_keep_alive()) and not self.shift.stopping

    def _judge(self, version: str) -> tuple[bytes, bytes]:
        """Path and query of a request that is in order. Raises Refusal."""
        if version not in VERSIONS:
            raise Refusal(400, "HTTP/1.1 is spoken here")
        if body_length(self.headers, version) > self.shift.settings.body_bytes_max:
            raise Refusal(413, "the body of the request is too large")
        target = target_of(self.url, self.headers)
        verify_host(self.headers, version, self.shift.hosts)
        return target

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._heard = self.loop.time()
        if self._body_bytes > self.shift.settings.body_bytes_max:
            raise Refusal(413, "the body of the request is too large")
        super().on_body(body)

    # -- answering --------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        task = self.loop.create_task(self._run(cycle, app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, cycle: Cycle, app: Any) -> None:
        cycle.begun = perf_counter()  # the loop's clock stands still while it works
        self.shift.counters.add("in_flight")
        try:
            await cycle.run_asgi(app)
        finally:
            self.shift.counters.add("in_flight", -1)
            self.shift.record(cycle, perf_counter() - cycle.begun)

    def on_response_complete(self) -> None:
        if self.transport.is_closing() or self._phase == REFUSED:
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif not self.cycle.more_body:
            self._enter(HEAD if self._in_head else WAITING)

    def on_message_complete(self) -> None:
        if self.cycle.response_complete:
            self.cycle.more_body = False
            self._enter(WAITING)  # the answer came before the end of the request
        super().on_message_complete()

    def _refuse(self, status: int, reason: str) -> None:
        """An answer without the application; the connection is of no use after it."""
        is_answered = self._phase == BUSY and self.cycle.response_complete
        self._enter(REFUSED)
        running = self._running
        self.pipeline.clear()
        if running is not None and running is self.cycle and running.more_body and not running.response_complete:
            running.status = running.status or status  # the application counts it: it has it already
        else:
            self.shift.record_refusal(self.client, status)
        if is_answered:  # what follows the answer is not a request
            self.transport.close()
            return
        if running is not None and not running.response_complete:
            running.keep_alive = False  # the answer under way is finished first, and is the last
            if running is not self.cycle or not running.more_body:
                return
            running.disconnected = True  # it waits for a body that will not come
            running.message_event.set()
            if running.response_started:
                self.transport.abort()
                return
        body = f"{reason}\n".encode()
        phrase = HTTPStatus(status).phrase
        fields = [f"HTTP/1.1 {status} {phrase}", "content-type: text/plain; charset=utf-8"]
        fields += [f"content-length: {len(body)}", "x-content-type-options: nosniff", "connection: close"]
        fields += ["content-security-policy: default-src 'none'"]
        if status == 431:  # an archived page may have set so many cookies that nothing else would ever be answered
            fields += ['clear-site-data: "cookies"']
        fields += ["", ""]
        self.flow.resume_reading()
        self.transport.write("\r\n".join(fields).encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()  # not close: bytes that nobody read would make the system cut the answer off

    # -- time -----------------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Whether this connection has used up its time; called several times a second."""
        settings = self.shift.settings
        self._look_for_stall(now)
        waited = now - self._since
        if self._phase == REFUSED:
            if waited > _LINGER_S and (self._running is None or self._running.response_complete):
                self.transport.abort()
        elif self._phase == WAITING:
            if waited > settings.keep_alive_s:
                self.transport.close()
        elif self._phase == HEAD:
            if waited > settings.request_timeout_s:
                self._time_out("the head of the request did not come in time")
        elif self.cycle.more_body and not self.flow.read_paused and now - self._heard > settings.body_timeout_s:
            self._time_out("the body of the request did not come in time")

    def _time_out(self, reason: str) -> None:
        self.shift.counters.add("timeouts")
        if self._phase == HEAD and not self._in_head:
            self.transport.close()  # it never asked for anything
        elif self._phase == BUSY and self.cycle.response_complete:
            self.transport.abort()  # all has been said
        else:
            self._refuse(408, reason)

    def _look_for_stall(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > self.shift.settings.write_stall_s:
            self.shift.counters.add("stalls")
            self.transport.abort()

    def cut(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        """What is under way is answered; nothing else is."""
        if self._running is None or self._running.response_complete:
            self.transport.close()
        else:
            self._running.keep_alive = False
            self.pipeline.clear()


def protocol_of(shift: WorkerConnections) -> type[Protocol]:
    """The protocol of one worker."""
    return type("Protocol", (Protocol,), {"shift": shift})
