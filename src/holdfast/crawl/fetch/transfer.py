"""Transfers by libcurl: many handles on one event loop, and their bodies.

libcurl says which sockets it waits for; they stand in an epoll of our own, which is one reader on the event loop, so
that a hundred responses cost one wake-up of the loop. Handles are kept and used again; so are connections, by libcurl.
Options that stay the same are set once per handle: setting them is costly.

A small body stays in memory, a larger one goes to a file, never beyond its limit. If the file cannot
be written, `ResponseBody.failure` says so, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import pycurl

from holdfast.crawl.fetch.request import RequestTarget, has_content
from holdfast.crawl.fetch.response import Agreed, Agreements, agreed, as_http1, cut_of, final_head, outcome_of
from holdfast.crawl.job.credentials import PROXY_FIELD, for_proxy, proxy_user
from holdfast.crawl.job.job import FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome

_EVENTS = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
_EVENTS_PER_TURN = 256
_EARLY_S = 0.0005
_NEVER = float("inf")


class Transfers:
    """Runs orders to their end. For the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: FetchSettings,
        spool: Path,
        connections_max: int,
        guard: Callable[[], None] | None = None,
    ) -> None:
        """`guard` is called before every call into libcurl that may send something."""
        self._loop = loop
        self._guard = guard
        self._settings = settings
        self._spool = spool
        self._agreements = Agreements()
        self._idle: list[Handle] = []
        self._busy: dict[Any, Handle] = {}
        self._sockets: set[int] = set()
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._kicked = False
        self._closed = False
        self._epoll = select.epoll()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def active(self) -> int:
        return len(self._busy)

    @property
    def sockets(self) -> int:
        """Open connections."""
        return len(self._sockets)

    def start(self, order: FetchOrder) -> None:
        """Starts a request; `order.done` is called at its end, never before this returns."""
        if self._guard is not None:
            self._guard()
        handle = self._idle.pop() if self._idle else Handle(self._settings, self._spool, self._agreements)
        try:
            handle.prepare(order)
            self._multi.add_handle(handle.curl)
        except pycurl.error as problem:
            handle.close()
            refused = Fetched(order.job, FetchOutcome.INVALID, f"cannot fetch '{order.job.url}': {problem}")
            self._loop.call_soon(order.done, refused, 0)
        else:
            self._busy[handle.curl] = handle

    def close(self) -> None:
        """Aborts running transfers without results, and deletes their files."""
        self._closed = True
        self._loop.remove_reader(self._epoll.fileno())
        if self._timer is not None:
            self._timer.cancel()
        for handle in [*self._busy.values(), *self._idle]:
            if handle.order is not None:
                self._multi.remove_handle(handle.curl)
                handle.abandon()
            handle.close()
        self._busy.clear()
        self._idle.clear()
        self._multi.close()
        self._epoll.close()

    def _watch(self, what: int, socket: int, _multi: Any, _data: Any) -> None:
        """libcurl's socket callback."""
        if what == pycurl.POLL_REMOVE:
            if socket in self._sockets:
                self._sockets.discard(socket)
                with suppress(OSError):  # closed already, which takes it out of the epoll
                    self._epoll.unregister(socket)
        elif socket in self._sockets:
            self._epoll.modify(socket, _EVENTS[what])
        else:
            self._epoll.register(socket, _EVENTS[what])
            self._sockets.add(socket)

    def _set_timer(self, milliseconds: int) -> None:
        """libcurl's timer callback; each replaces the one before."""
        if milliseconds < 0:
            self._deadline = _NEVER
        elif milliseconds == 0:
            self._deadline = _NEVER
            if not self._kicked:
                self._kicked = True
                self._loop.call_soon(self._kick)
        else:
            self._deadline = self._loop.time() + milliseconds / 1000
            if self._timer is None:
                self._timer = self._loop.call_at(self._deadline, self._expire)
            elif self._timer.when() > self._deadline:
                self._timer.cancel()
                self._timer = self._loop.call_at(self._deadline, self._expire)

    def _kick(self) -> None:
        self._kicked = False
        if self._closed:
            return
        if self._guard is not None:
            self._guard()
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()

    def _expire(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self._deadline > self._loop.time() + _EARLY_S:  # it was put off
            self._timer = self._loop.call_at(self._deadline, self._expire)
            return
        self._deadline = _NEVER
        self._kick()

    def _ready(self) -> None:
        act = self._multi.socket_action
        for socket, events in self._epoll.poll(0, _EVENTS_PER_TURN):
            flags = 0
            if events & select.EPOLLIN:
                flags = pycurl.CSELECT_IN
            if events & select.EPOLLOUT:
                flags |= pycurl.CSELECT_OUT
            if events & (select.EPOLLERR | select.EPOLLHUP):
                flags |= pycurl.CSELECT_ERR
            if self._guard is not None:
                self._guard()
            act(socket, flags)
        self._collect()

    def _collect(self) -> None:
        """Delivers finished transfers."""
        left = 1
        while left:
            left, good, bad = self._multi.info_read()
            for curl in good:
                self._finish(curl, 0, "")
            for curl, code, problem in bad:
                self._finish(curl, code, problem)

    def _finish(self, curl: Any, code: int, problem: str) -> None:
        handle = self._busy.pop(curl)
        order = handle.order
        assert order is not None, "a busy handle has an order"
        if code == pycurl.E_PEER_FAILED_VERIFICATION and order.secret:
            problem += "; credentials are sent to servers with a good certificate only"
        elif code == pycurl.E_PEER_FAILED_VERIFICATION and handle.verifying and not self._settings.verify_tls:
            self._agreements.distrust(order.place.origin, problem)
            self._multi.remove_handle(curl)
            handle.abandon()
            self._idle.append(handle)
            self.start(order)
            return
        result = handle.finish(code, problem)
        self._multi.remove_handle(curl)
        self._idle.append(handle)
        order.done(*result)


_BUFFER_BYTES = 128 << 10
_SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl does not name


class FetchOrder(NamedTuple):
    """A request to make."""

    job: FetchJob
    place: RequestTarget
    target: str
    fields: list[bytes]
    secret: bool  # whether credentials are among the fields
    message: bytes  # as it is recorded: without credentials, unless they are asked for
    address: str  # the one to connect to; '' through a proxy
    done: Callable[[Fetched, int], None]  # takes the result and the status


class Handle:
    """One libcurl handle, reused for one fetch after another. For the event loop's thread."""

    def __init__(self, settings: FetchSettings, spool: Path, agreements: Agreements) -> None:
        limits = BodyLimits(settings.body_bytes_max, settings.memory_bytes_max, settings.head_bytes_max)
        self.body = ResponseBody(limits, spool)
        self.order: FetchOrder | None = None
        self._limits = limits
        self._agreements = agreements
        self._handshake = b""
        self._uses = 0
        self._origin = ""
        self._address = ""
        self._secure = False
        self._strict = settings.verify_tls
        self.verifying = True  # whether the last fetch checked the server's certificate
        self._fields: list[bytes] = []
        self._method = ""
        self._unsent = [b"Proxy-Connection:"] if settings.proxy else []  # otherwise libcurl adds it
        self._started = 0.0
        self._clock = 0.0
        self.curl = pycurl.Curl()
        for option, value in _options(settings).items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.WRITEFUNCTION, self.body.take)
        self.curl.setopt(pycurl.HEADERFUNCTION, self.body.lines.append)
        self.curl.setopt(pycurl.DEBUGFUNCTION, self._note)

    def prepare(self, order: FetchOrder) -> None:
        """Sets the options that differ from the last fetch."""
        setopt, place = self.curl.setopt, order.place
        if place.origin != self._origin:
            setopt(pycurl.URL, place.origin)
            self._origin = place.origin
        if order.address != self._address:
            # the very address that was checked; the name goes on to be used for TLS and Host
            pinned = f"[{order.address}]" if ":" in order.address else order.address
            setopt(pycurl.CONNECT_TO, [f"::{pinned}:"])
            self._address = order.address
        if place.secure != self._secure:
            setopt(pycurl.VERBOSE, place.secure)  # reports the handshake; see tls.py
            setopt(pycurl.PIPEWAIT, place.secure)
            self._secure = place.secure
        if place.secure:
            self._verify(self._strict or order.secret or not self._agreements.fault(place.origin))
        setopt(pycurl.REQUEST_TARGET, order.target)
        if order.fields is not self._fields:
            if order.fields != self._fields:
                setopt(pycurl.HTTPHEADER, [*order.fields, *self._unsent])
            self._fields = order.fields
        if order.job.method or self._method:
            self._set_method(order.job)
        self._uses += 1
        self._handshake = b""
        self.body.begin(f"{order.job.id}-{id(self):x}-{self._uses}")
        self.order = order
        self._started = time.time()
        self._clock = time.monotonic()

    def _set_method(self, job: FetchJob) -> None:
        """Methods other than GET come from pages in a browser."""
        setopt = self.curl.setopt
        setopt(pycurl.HTTPGET, 1)
        self.curl.unsetopt(pycurl.CUSTOMREQUEST)
        self._method = job.method
        if has_content(job):
            setopt(pycurl.POST, 1)
            setopt(pycurl.POSTFIELDS, job.content)
            # the empty ones keep libcurl from adding its own
            typed = any(line.lower().startswith(b"content-type:") for line in self._fields)
            setopt(
                pycurl.HTTPHEADER, [*self._fields, *self._unsent, b"Expect:", *([] if typed else [b"Content-Type:"])]
            )
            self._fields = []
        if job.method == "HEAD":
            setopt(pycurl.NOBODY, 1)
        elif job.method:
            setopt(pycurl.CUSTOMREQUEST, job.method)

    def _verify(self, verifying: bool) -> None:
        if verifying != self.verifying:
            self.curl.setopt(pycurl.SSL_VERIFYPEER, int(verifying))
            self.curl.setopt(pycurl.SSL_VERIFYHOST, 2 if verifying else 0)
            self.verifying = verifying

    def finish(self, code: int, problem: str) -> tuple[Fetched, int]:
        """The result of the fetch, and the status; `code` is libcurl's, 0 for success."""
        order, body = self.order, self.body
        assert order is not None, "a fetch that ends has started"
        self.order = None
        elapsed = time.monotonic() - self._clock
        body.settle()
        head = final_head(body.lines)
        common: dict[str, Any] = {"started": self._started, "elapsed": elapsed, "request": order.message}
        common["ip"] = order.address  # through a proxy nobody knows the server's
        failed = self._failure(head, code, problem or f"libcurl's error {code}")
        if failed is not None or head is None:
            outcome, detail = failed or (FetchOutcome.PROTOCOL, "no head")
            transferred = body.head_size() + body.size
            body.drop()
            return Fetched(order.job, outcome, detail, transferred=transferred, **common), 0
        head, protocol, status = as_http1(head)
        secured = self._secured(order) if order.place.secure else Agreed()
        truncated = "length" if body.full else cut_of(code) if code else ""
        content, path = body.end()
        fetched = Fetched(
            order.job,
            FetchOutcome.OK,
            detail=problem if truncated and not body.full else "",
            head=head,
            body=content,
            spool=path,
            size=body.size,
            protocols=(protocol, *secured.protocols),
            facts=secured.facts,
            truncated=truncated,
            transferred=len(head) + body.size,
            **common,
        )
        return fetched, status

    def abandon(self) -> None:
        """Ends without a result."""
        self.order = None
        self.body.drop()

    def close(self) -> None:
        self.body.drop()
        self.curl.close()

    def _failure(self, head: bytes | None, code: int, problem: str) -> tuple[str, str] | None:
        """Outcome and detail where there is nothing to keep."""
        body = self.body
        if body.failure:
            return FetchOutcome.NO_SPACE, body.failure
        if body.head_size() > self._limits.head_bytes_max:
            return FetchOutcome.PROTOCOL, f"a head of more than {self._limits.head_bytes_max} bytes"
        if head is not None:
            return None
        if not code and any(line in (b"\r\n", b"\n") for line in body.lines):
            return FetchOutcome.PROTOCOL, "the head has no status line of HTTP"
        if not code:
            return FetchOutcome.DROPPED, "the connection ended before the head did"
        if code == pycurl.E_OPERATION_TIMEDOUT and not self._is_connected():
            return FetchOutcome.CONNECT, problem
        return outcome_of(code), problem

    def _is_connected(self) -> bool:
        """For a reused connection libcurl reports only the second of these times."""
        return bool(self.curl.getinfo(pycurl.CONNECT_TIME) or self.curl.getinfo(pycurl.PRETRANSFER_TIME))

    def _secured(self, order: FetchOrder) -> Agreed:
        connection = self.curl.getinfo(pycurl.CONN_ID)
        if self._handshake:
            what = agreed(self._handshake, "" if self.verifying else self._agreements.fault(order.place.origin))
            self._agreements.add(connection, order.place.origin, what)
            return what
        return self._agreements.of(connection, order.place.origin)

    def _note(self, kind: int, text: bytes) -> None:
        if kind == 0 and text.startswith(b"SSL connection using"):
            self._handshake = text


def _options(settings: FetchSettings) -> dict[int, Any]:
    """What stays the same for all fetches of a crawl."""
    authorities = ssl.get_default_verify_paths().cafile
    http2 = pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1
    options: dict[int, Any] = {
        pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
        pycurl.FOLLOWLOCATION: 0,
        pycurl.PATH_AS_IS: 1,
        _SUPPRESS_CONNECT_HEADERS: 1,  # the proxy's answer to CONNECT is not the server's
        pycurl.HTTP_VERSION: http2,
        pycurl.HTTP09_ALLOWED: 0,
        pycurl.HTTP_CONTENT_DECODING: 0,
        pycurl.NOSIGNAL: 1,
        pycurl.NOPROGRESS: 1,
        pycurl.BUFFERSIZE: _BUFFER_BYTES,
        pycurl.PROXY: settings.proxy,  # '' also means: not the one that the environment names
        pycurl.CONNECTTIMEOUT_MS: int(settings.connect_timeout_s * 1000),
        pycurl.TIMEOUT_MS: int(settings.fetch_timeout_s * 1000),
        pycurl.LOW_SPEED_LIMIT: 1,
        pycurl.LOW_SPEED_TIME: max(int(settings.stall_timeout_s), 1),
    }
    if authorities:
        options[pycurl.CAINFO] = authorities
    return options | _proxy_options(settings)


def _proxy_options(settings: FetchSettings) -> dict[int, Any]:
    """The User-Agent for the proxy itself; servers do not see it."""
    if user := proxy_user(settings):
        return {pycurl.PROXYUSERNAME: user[0], pycurl.PROXYPASSWORD: user[1]}
    if value := for_proxy(settings):
        return {pycurl.HEADEROPT: pycurl.HEADER_SEPARATE, pycurl.PROXYHEADER: [f"{PROXY_FIELD}: {value}".encode()]}
    return {}


class BodyLimits(NamedTuple):
    """Of one response."""

    body_bytes_max: int
    memory_bytes_max: int
    head_bytes_max: int


class ResponseBody:
    """Reused for one response after another; `take` is libcurl's write callback."""

    def __init__(self, limits: BodyLimits, spool: Path) -> None:
        self._limits = limits
        self._spool = spool
        self._name = ""
        self._file: IO[bytes] | None = None
        self._parts: list[bytes] = []
        self.lines: list[bytes] = []  # of the head, filled by libcurl
        self.path = ""  # of the file, once there is one
        self.size = 0
        self.full = False
        self.failure = ""  # why the body cannot be kept: a local error, not the server's

    def begin(self, name: str) -> None:
        """Resets it for a response; `name` is its file's, if it needs one."""
        self._name = name
        self.lines.clear()
        self.size = 0
        self.full = False
        self.failure = ""

    def head_size(self) -> int:
        return sum(map(len, self.lines))

    def take(self, data: bytes) -> int | None:
        """Keeps a piece; anything but None ends the transfer."""
        limits = self._limits
        if not self.size and self.head_size() > limits.head_bytes_max:
            return -1
        if self.size + len(data) > limits.body_bytes_max:
            self.full = True
            data = data[: limits.body_bytes_max - self.size]
        self.size += len(data)
        if self._file is not None:
            self._write((data,))
        else:
            self._parts.append(data)
            if self.size > limits.memory_bytes_max:
                self._write(self._parts)
                self._parts = []
        return -1 if self.full or self.failure else None

    def settle(self) -> None:
        """The body is complete. From now on `failure` is final."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()  # writes what it still holds
            except OSError as problem:
                self._fail(problem)

    def end(self) -> tuple[bytes, str]:
        """The bytes in memory, or the path of the file, which now belongs to the caller."""
        self.settle()
        parts, path = self._parts, self.path
        self._parts, self.path = [], ""
        return parts[0] if len(parts) == 1 else b"".join(parts), path

    def drop(self) -> None:
        """Discards the body."""
        _, path = self.end()
        if path:
            with suppress(OSError):  # the next start empties the directory
                Path(path).unlink(missing_ok=True)

    def _write(self, parts: list[bytes] | tuple[bytes, ...]) -> None:
        try:
            if self._file is None:
                path = self._spool / self._name
                self._file = path.open("wb")
                self.path = str(path)
            self._file.writelines(parts)
        except OSError as problem:
            self._fail(problem)

    def _fail(self, problem: OSError) -> None:
        why = problem.strerror or str(problem)
        self.failure = self.failure or f"cannot keep a large body in '{self._spool}': {why}; make room there"
