"""In a cluster: a request for a URL is forwarded to the node that serves the URL (H8, N12).

    client ──▶ this node ── mutual TLS ──▶ the node that serves the URL
           ◀── response, streamed ──◀──

A `Router`, passed to the workers, chooses the node. A forwarded request names the origins that the client used, so that
links, frames and redirects in the response lead back to this node. The other node trusts it, since only members of the
cluster can connect to its peer port; it never forwards again.

If a node does not respond, the next holder of the URL is tried. If none responds, the status is 503: never 404, which
would mean that the URL is not archived.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httptools
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from holdfast.archive import Archive
from holdfast.env.lru import LruCache
from holdfast.errors import ClusterDown, HoldfastError, NotAMember
from holdfast.model import RecordId
from holdfast.web.answers import Answers
from holdfast.web.context import Origins, WebContext
from holdfast.web.request import CERTIFICATE, KEYED_BODY_BYTES_MAX, READING, body_of, raw_target
from holdfast.web.server.host_names import AnyApp

HERE = ""  # in a route: this node
_APP, _ORIGINS = b"holdfast-app", b"holdfast-origins"  # headers of a forwarded request
_ENDS_HERE = frozenset(  # headers that concern one connection, or that this node has checked already
    (
        *(b"host", b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
        *(b"content-length", b"authorization", _APP, _ORIGINS),
    )
)
_DROPPED = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"date"))  # of a response: written again
_CONNECT_S = 3.0
_SILENCE_S = 60.0  # of a node that should respond
_IDLE_MAX = 8  # connections kept for each node
_READ_BYTES = 256 << 10
_CONTEXTS_MAX = 64  # contexts kept, one for each pair of origins


class Router(Protocol):
    """Which node serves a URL. Picklable: each worker gets a copy. For the thread of the event loop."""

    def route(self, url: str) -> Sequence[str]:
        """Addresses ('host:port') of the peer ports of the nodes that can answer, the first choice first.

        HERE is this node. Raises ClusterDown if no holder of the URL is alive.
        """

    def require_current(self) -> None:
        """Raises ClusterDown if this node has been cut off from the cluster for so long that it may miss removals."""

    def require_member(self, certificate: bytes | None) -> None:
        """Raises NotAMember unless the certificate (DER) is that of a member."""

    def answers(self, site: WebContext) -> tuple[Answers, Answers]:
        """The answers of all nodes, for clients of this worker, and those of this node, for other nodes."""

    def peer_apps(self) -> Mapping[str, Callable[[WebContext], AnyApp]]:
        """Further applications of the peer port, by name."""

    def open_for_writing(self, path: Path) -> Archive:
        """The archive in that directory, as far as captures are added to it: another process writes to it."""

    async def is_safe(self, record: RecordId, timeout_s: float) -> bool:
        """Whether so many nodes have a record of this node that it is safe; waits for that.

        Raises ClusterDown if the node ends meanwhile.
        """

    @property
    def peer_name(self) -> str:
        """What the certificates of all members are valid for."""

    def server_context(self) -> ssl.SSLContext:
        """For the peer port: it demands a member's certificate."""

    def client_context(self) -> ssl.SSLContext:
        """For connections to other nodes."""


class Forwarder:
    """Connections of one worker to other nodes. For the thread of the event loop."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._context = router.client_context()
        self._idle: defaultdict[str, deque[_Connection]] = defaultdict(deque)

    async def forward(self, url: str, app: str, origins: Origins, scope: Scope, receive: Receive, send: Send) -> bool:
        """Has another node respond; False if it is this node's turn. `app` is 'controls' or 'replay'.

        Raises ClusterDown if no node responds.
        """
        self._router.require_current()
        route = self._router.route(url)
        if route[0] == HERE:
            return False
        request = await _encoded(app, origins, scope, receive)
        for address in route:
            if address == HERE:
                return False
            exchange = _Exchange(scope["method"], send)
            try:
                await self._ask(address, request, exchange)
            except (OSError, TimeoutError, EOFError, httptools.HttpParserError):
                if exchange.is_started:
                    raise ClusterDown(f"node {address} stopped in the middle of its response") from None
            else:
                return True
        raise ClusterDown(f"none of the nodes that hold '{url[:200]}' responds: {', '.join(route)}")

    async def is_safe(self, record: RecordId, timeout_s: float) -> bool:
        """As `Router.is_safe`."""
        return await self._router.is_safe(record, timeout_s)

    def close(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    async def _ask(self, address: str, request: bytes, exchange: _Exchange) -> None:
        """Sends the request and passes the response on, over an idle connection if there is one."""
        idle = self._idle[address]
        while idle:
            connection = idle.popleft()
            try:
                await connection.exchange(request, exchange)
                break
            except (OSError, EOFError):
                connection.close()
                if exchange.is_started:
                    raise
        else:
            connection = await self._connect(address)
            try:
                await connection.exchange(request, exchange)
            except BaseException:
                connection.close()
                raise
        if exchange.keeps_alive and len(idle) < _IDLE_MAX:
            idle.append(connection)
        else:
            connection.close()

    async def _connect(self, address: str) -> _Connection:
        host, _, port = address.rpartition(":")
        opening = asyncio.open_connection(
            host.strip("[]"), int(port), ssl=self._context, server_hostname=self._router.peer_name
        )
        connection = _Connection(*await asyncio.wait_for(opening, _CONNECT_S))
        try:
            self._router.require_member(connection.writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        except NotAMember as error:
            connection.close()
            raise ConnectionError(str(error)) from None
        return connection


async def _encoded(app: str, origins: Origins, scope: Scope, receive: Receive) -> bytes:
    """The request for the other node, with its body."""
    has_body = scope["method"] not in READING
    body = await body_of(Request(scope, receive), KEYED_BODY_BYTES_MAX) if has_body else b""
    lines = [
        b"%b %b HTTP/1.1" % (scope["method"].encode(), raw_target(scope)),
        b"host: localhost",
        b"%b: %b" % (_APP, app.encode()),
        b"%b: %b %b" % (_ORIGINS, origins.controls.encode(), origins.replay.encode()),
        *(b"%b: %b" % each for each in scope["headers"] if each[0] not in _ENDS_HERE),
    ]
    if has_body:
        lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join([*lines, b"", b""]) + body


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, request: bytes, exchange: _Exchange) -> None:
        self.writer.write(request)
        await self.writer.drain()
        parser = httptools.HttpResponseParser(exchange)
        while not exchange.is_complete:
            data = await asyncio.wait_for(self.reader.read(_READ_BYTES), _SILENCE_S)
            if not data:
                raise EOFError("the connection ended before the response")
            parser.feed_data(data)
            await exchange.pass_on(parser)

    def close(self) -> None:
        self.writer.close()


@dataclass(slots=True)
class _Exchange:
    """One forwarded response: callbacks of the parser, and the parts to send to the client."""

    method: str
    send: Send
    is_started: bool = False  # something went to the client
    is_complete: bool = False
    keeps_alive: bool = False
    _headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    _has_head: bool = False
    _has_ended: bool = False
    _body: list[bytes] = field(default_factory=list)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._has_head = True
        if self.method == "HEAD":
            self._has_ended = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._has_ended = True

    async def pass_on(self, parser: httptools.HttpResponseParser) -> None:
        """Sends the client the parts parsed so far."""
        if not self._has_head:
            return
        if not self.is_started:
            self.is_started = True
            headers = [each for each in self._headers if each[0] not in _DROPPED]
            await self.send({"type": "http.response.start", "status": parser.get_status_code(), "headers": headers})
        body, self._body = b"".join(self._body), []
        if body or self._has_ended:
            await self.send({"type": "http.response.body", "body": body, "more_body": not self._has_ended})
        if self._has_ended:
            self.is_complete, self.keeps_alive = True, (b"connection", b"close") not in self._headers


class PeerApp:
    """The application of the peer port: requests that other nodes forward, as their clients sent them.

    For the thread of the event loop.
    """

    def __init__(self, site: WebContext, apps: Mapping[str, Callable[[WebContext], AnyApp]], router: Router) -> None:
        """`apps` make the application of an origin, by its name, from a context."""
        self._site = site
        self._make = apps
        self._router = router
        self._apps: LruCache[tuple[str, str], AnyApp] = LruCache(_CONTEXTS_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        app, origins = headers.get(_APP, b"").decode("latin-1"), headers.get(_ORIGINS, b"").decode("latin-1")
        try:
            self._router.require_member(scope.get(CERTIFICATE))
            self._router.require_current()
        except HoldfastError as error:
            await _plain(503, f"{error}\n", send)  # whatever it is: the client asked for a URL, and gets no answer
            return
        if app not in self._make or origins.count(" ") != 1:
            await _plain(400, "this port is for requests that other nodes forward\n", send)
            return
        made = self._apps.get((app, origins))
        if made is None:
            made = self._make[app](self._site.for_peer(Origins(*origins.split(" "))))
            self._apps.put((app, origins), made)
        await made(scope, receive, send)


async def _plain(status: int, text: str, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
