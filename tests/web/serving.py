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
from holdfast.web.app import controls_app, replay_app
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Origins, WebContext, open_site
from holdfast.web.server.access_log import AccessLog
from holdfast.web.server.connections import WorkerConnections
from holdfast.web.server.counters import Counters
from holdfast.web.server.listen import Hosts
from holdfast.web.server.service import listen_with, stop


@dataclass(frozen=True, slots=True)
class Served:
    """Where the archive is."""

    controls: str  # 'http://127.0.0.1:40001'
    replay: str
    site: WebContext


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
def serving(path: Path, settings: ServeSettings | None = None, tokens: Tokens | None = None) -> Iterator[Served]:
    """The archive in that directory, until the block ends. It may be written to meanwhile."""
    settings = settings or ServeSettings()
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    origins = Origins(*(f"http://127.0.0.1:{each.getsockname()[1]}" for each in sockets))
    site = open_site(path, settings, origins, Counters.make(), tokens or Tokens())
    ended = asyncio.Event()
    running: Future[asyncio.AbstractEventLoop] = Future()

    async def serve() -> None:
        shift = WorkerConnections(settings, Hosts.of(settings), site.counters, AccessLog(None, site.counters))
        apps = (controls_app(site), replay_app(site))
        servers = [await listen_with(app, shift, [each]) for app, each in zip(apps, sockets, strict=True)]
        timekeeper = asyncio.create_task(shift.keep_time())
        running.set_result(asyncio.get_running_loop())
        await ended.wait()
        await stop(shift, [server for each in servers for server in each])
        timekeeper.cancel()

    thread = threading.Thread(target=uvloop.run, args=[serve()], name="served archive")
    thread.start()
    loop = running.result(timeout=60)
    try:
        yield Served(origins.controls, origins.replay, site)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        site.archive.close()
        for each in sockets:
            each.close()
