"""The HTTP server of one worker: state shared by its connections, and the timer that checks them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from email.utils import formatdate
from socket import socket
from ssl import SSLContext

from holdfast.config import ServeSettings
from holdfast.web.server.access_log import AccessLog, AccessLogEntry
from holdfast.web.server.connection import App, Cycle, HttpConnection
from holdfast.web.server.counters import GONE, Counters
from holdfast.web.server.host_names import Hosts
from holdfast.web.server.listen import BACKLOG
from holdfast.web.server.proxies import Proxies

_ROUND_S = 0.25
_STOP_CHECK_S = 0.02
_NOTICE_S = 0.5  # for requests to notice that their connection was aborted; one in a thread may take longer
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class HttpServer:
    """One per worker, for both origins, which share the limits. All on the event loop."""

    def __init__(self, settings: ServeSettings, hosts: Hosts, counters: Counters, log: AccessLog) -> None:
        self.settings = settings
        self.hosts = hosts
        self.proxies = Proxies(settings.proxies)
        self.counters = counters
        self.connections: set[HttpConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself holds them weakly
        self.header_lines: list[bytes] = []  # of every response
        self.stopping = False
        self._log = log
        self._servers: list[asyncio.Server] = []
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)  # kept open: descriptors may run out
        counters.begin(os.getpid(), int(time.time()))
        self._update()

    async def listen(self, app: App, sockets: Sequence[socket], context: SSLContext | None = None) -> None:
        """Serves the application on the sockets, over TLS if there is a context."""
        loop = asyncio.get_running_loop()
        for each in sockets:
            self._servers.append(
                await loop.create_server(lambda: HttpConnection(app, self), sock=each, backlog=BACKLOG, ssl=context)
            )

    async def stop(self) -> None:
        """Accepts no new connections, lets requests finish for `serve.stop_s`, and aborts the rest.

        The caller ends `keep_time` at once.
        """
        self.stopping = True
        for server in self._servers:
            server.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.stop_s
        while self.connections and (now := loop.time()) < deadline:
            for connection in list(self.connections):
                connection.shut_down(now)
            await asyncio.sleep(_STOP_CHECK_S)
        for connection in list(self.connections):
            connection.transport.abort()
        if self.tasks:  # they notice, and are logged
            await asyncio.wait(self.tasks, timeout=_NOTICE_S)
        os.close(self._statm)

    async def keep_time(self) -> None:
        """Checks all connections, updates gauges and flushes the access log, several times a second. Never returns."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_ROUND_S)
            now = loop.time()
            for connection in list(self.connections):
                connection.check_time(now)
            self._update()
            self._log.flush()

    def _update(self) -> None:
        self.header_lines = [f"date: {formatdate(usegmt=True)}".encode()]
        self.counters.set("connections_open", len(self.connections))
        self.counters.set("memory_bytes", int(os.pread(self._statm, 256, 0).split()[1]) * _PAGE_BYTES)

    def record(self, cycle: Cycle, seconds: float) -> None:
        """Logs a request that was answered or whose client disconnected. The application has counted it."""
        if cycle.has_failed:
            self.counters.add("errors")
        if self._log.wanted:
            self._log.add(AccessLogEntry(cycle.scope, cycle.status or GONE, cycle.sent, seconds))

    def record_refusal(self, client: tuple[str, int] | None, status: int) -> None:
        """Counts and logs a request that was refused before the application saw it."""
        self.counters.observe("refused", status, 0.0, 0)
        if self._log.wanted:
            self._log.add(AccessLogEntry({"client": client}, status, 0, 0.0))
