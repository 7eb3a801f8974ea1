"""What all connections of a worker share while it works: limits, counters, log, and the round that keeps time."""

from __future__ import annotations

import asyncio
import os
import time
from email.utils import formatdate
from typing import Protocol

from holdfast.config import ServeSettings
from holdfast.web.server.access_log import AccessLog, AccessLogEntry
from holdfast.web.server.counters import GONE, Counters
from holdfast.web.server.listen import Hosts
from holdfast.web.server.request_cycle import Cycle

ROUND_S = 0.25
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class OpenConnection(Protocol):
    """What the shift wants of a connection."""

    def look(self, now: float) -> None:
        """Closes itself if its time is up."""

    def shutdown(self) -> None:
        """Takes no further request."""

    def cut(self) -> None:
        """Ends at once."""


class WorkerConnections:
    """One in each worker. All on the event loop."""

    def __init__(self, settings: ServeSettings, hosts: Hosts, counters: Counters, log: AccessLog) -> None:
        self.settings = settings
        self.hosts = hosts
        self.counters = counters
        self.log = log
        self.connections: set[OpenConnection] = set()
        self.headers: list[tuple[bytes, bytes]] = []  # of every answer
        self.stopping = False
        counters.begin(os.getpid(), int(time.time()))
        self._tell()

    def record(self, cycle: Cycle, seconds: float) -> None:
        """A request was answered, or the client did not wait for it. The application has counted it by its kind."""
        if cycle.failed:
            self.counters.add("errors")
        if self.log.wanted:
            self.log.add(AccessLogEntry(cycle.scope, cycle.status or GONE, cycle.sent, seconds))

    def record_refusal(self, client: tuple[str, int] | None, status: int) -> None:
        """A request was refused before the application saw it."""
        self.counters.observe("refused", status, 0.0, 0)
        if self.log.wanted:
            self.log.add(AccessLogEntry({"client": client}, status, 0, 0.0))

    async def keep_time(self) -> None:
        """Goes round all connections, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(ROUND_S)
            now = loop.time()
            for connection in list(self.connections):
                connection.look(now)
            self._tell()
            await self.log.flush()

    def _tell(self) -> None:
        self.headers = [(b"date", formatdate(usegmt=True).encode())]
        self.counters.set("connections_open", len(self.connections))
        with open("/proc/self/statm", "rb") as file:
            self.counters.set("memory_bytes", int(file.read().split()[1]) * _PAGE_BYTES)
