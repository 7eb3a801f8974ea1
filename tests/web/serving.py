"""Both origins of an archive, served in this process on free ports by the real server code."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from holdfast.config import ServeSettings
from holdfast.web.app import ControlsApp, ReplayApp
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Origins, WebContext, open_site
from holdfast.web.forward import Forwarder, PeerApp, Router
from holdfast.web.server.access_log import AccessLog
from holdfast.web.server.counters import Counters
from holdfast.web.server.host_names import Hosts
from holdfast.web.server.http_server import HttpServer


@dataclass(frozen=True, slots=True)
class Served:
    """Where the archive is."""

    controls: str  # 'http://127.0.0.1:40001'
    replay: str
    site: WebContext
    peer: str = ""  # 'host:port' for other nodes, in a cluster


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, redirects not followed."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(address: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """One request. `Accept_Encoding='gzip'` is the header of that name, with a dash."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    target = address.partition(parts.netloc)[2] or "/"
    try:
        connection.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


@contextmanager
def serving(
    path: Path, settings: ServeSettings | None = None, tokens: Tokens | None = None, router: Router | None = None
) -> Iterator[Served]:
    """The archive in that directory, until the block ends. It may be written to meanwhile."""
    settings = settings or ServeSettings()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    origins = Origins(*(f"http://127.0.0.1:{each.getsockname()[1]}" for each in sockets[:2]))
    site = open_site(path, settings, origins, Counters.make(), tokens or Tokens())
    site.forwarder = Forwarder(router) if router is not None else None
    ended = asyncio.Event()
    running: Future[asyncio.AbstractEventLoop] = Future()

    async def serve() -> None:
        server = HttpServer(settings, Hosts.of(settings), site.counters, AccessLog(None, site.counters))
        for app, each in zip((ControlsApp(site), ReplayApp(site)), sockets[:2], strict=True):
            await server.listen(app, [each])
        if router is not None:
            peers = PeerApp(site, {"controls": ControlsApp, "replay": ReplayApp}, router)
            await server.listen(peers, sockets[2:], router.server_context())
        timekeeper = asyncio.create_task(server.keep_time())
        running.set_result(asyncio.get_running_loop())
        await ended.wait()
        await server.stop()
        if site.forwarder is not None:
            site.forwarder.close()
            await asyncio.sleep(0)
        timekeeper.cancel()

    thread = threading.Thread(target=uvloop.run, args=[serve()], name="served archive")
    thread.start()
    loop = running.result(timeout=60)
    try:
        yield Served(origins.controls, origins.replay, site, f"127.0.0.1:{sockets[2].getsockname()[1]}")
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        site.archive.close()
        for each in sockets:
            each.close()
