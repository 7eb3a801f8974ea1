"""The volume server: one volume, any number of clients (W11).

It accepts connections, keeps them within its limits, and stops in order. A connection is unauthenticated at first, and
there is room for so many of these. When it is taken, the one that has been there longest makes room for the next: so
a client that only holds places, in the TLS handshake or after it, keeps no other out.

Threads: the event loop owns all connections; the committer writes to the volume; a few more threads do what takes long.
Other servers of the process run on the same event loop, with threads of their own (`main`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from holdfast.env import Environment
from holdfast.errors import HoldfastError, UsageError
from holdfast.storage.server.committer import Committer
from holdfast.storage.server.connection import ClientConnection, MemoryBudget
from holdfast.storage.server.options import ServerOptions
from holdfast.storage.server.service import VolumeService

log = logging.getLogger("holdfast.server")

_THREADS = 4
_TICK_S = 0.5
_LOG_PAUSE_S = 1.0  # between two warnings about rejected clients
_ALONE_S = 0.05  # after the last request of another client, or to read
_STOP_PAUSE_S = 0.01  # between two looks whether all is done, when the server stops
_BACKLOG = 1024
_ACCEPTED_TOGETHER = 64  # before other work gets its turn
_ACCEPT_PAUSE_S = 0.1  # when the system has no more descriptors
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 20), (socket.TCP_KEEPCNT, 5))


class VolumeServer:
    """Serves an open volume until it is stopped. For the event loop, but for `call_soon` and `is_stopping`."""

    def __init__(
        self, service: VolumeService, options: ServerOptions, env: Environment, *, shares_loop: bool = False
    ) -> None:
        """`shares_loop` if other servers run on the same event loop: a commit must not block it."""
        self.service = service
        self.options = options
        self.env = env
        self.budget = MemoryBudget(max(options.pending_bytes_max, options.message_bytes_max))
        self.connections: set[ClientConnection] = set()
        self.last_heard: ClientConnection | None = None  # the connection that sent the last request,
        self.last_heard_since_s = 0.0  # and since when no other did
        self.last_read_s = 0.0  # when the last request came that was no commit
        self.is_held = False  # no more requests are taken: the server stops, or what waits takes all its memory
        self._held_bytes = 0
        self._unauthenticated: dict[ClientConnection, asyncio.Task[None]] = {}  # the oldest first
        self._sockets: list[socket.socket] = []
        self._rejected = 0
        self._log_after_s = float("-inf")
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._stopping = asyncio.Event()
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="volume-server")
        self.committer = Committer(service, self._loop, self._may_commit_on_loop)
        self._shares_loop = shares_loop

    async def listen(self) -> list[tuple[str, int]]:
        """Begins to accept; returns the addresses. Raises UsageError if the address cannot be used."""
        host, port = self.options.host, self.options.port
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                self._sockets.append(_listening(family, address))
        except OSError as error:
            self._close_sockets()
            raise UsageError(f"cannot listen on '{host}:{port}': {error.strerror or error}") from None
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)
        return [each.getsockname()[:2] for each in self._sockets]

    def stop(self) -> None:
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Any thread may ask."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Serves until `stop`; then finishes what is under way."""
        try:
            while not self.is_stopping:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), _TICK_S)
                self._tick()
        finally:
            self._close_sockets()
            await self._finish()

    async def _finish(self) -> None:
        """No more requests; those that wait get their responses, and these go out."""
        self._stopping.set()
        self._update_held()
        deadline = self.now() + self.options.stop_s
        await self._until(lambda: all(each.is_idle for each in self.connections), deadline)
        await self._loop.run_in_executor(None, self.committer.close)
        await asyncio.sleep(0)  # the last responses go out
        for connection in list(self.connections):
            connection.close()
        await self._until(lambda: not self.connections, deadline)
        for connection in list(self.connections):
            connection.abort()
        await self._loop.run_in_executor(None, lambda: self.threads.shutdown(wait=True, cancel_futures=True))

    async def _until(self, is_so: Callable[[], bool], deadline_s: float) -> None:
        while not is_so() and self.now() < deadline_s:
            await asyncio.sleep(_STOP_PAUSE_S)

    def _tick(self) -> None:
        """Ends connections that keep the server waiting; those with most unread responses too, if memory is short."""
        now = self.now()
        for connection in list(self.connections):
            if connection.is_stalled(now):
                connection.abort()
            else:
                connection.tick(now)
        unsent = sum(each.unsent_bytes for each in self.connections)
        for connection in sorted(self.connections, key=lambda each: each.unsent_bytes, reverse=True):
            if unsent <= self.options.pending_bytes_max:
                return
            unsent -= connection.unsent_bytes
            connection.abort()

    # -- accepting ----------------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_TOGETHER):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self._drop_oldest()
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_PAUSE_S, self._accept_again, listening)
                return
            self._take_in(accepted)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _take_in(self, accepted: socket.socket) -> None:
        if len(self._unauthenticated) >= self.options.unauthenticated_max:
            self._drop_oldest()
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a client whose machine is gone is noticed
        for option, value in _KEEPALIVE:
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)
        connection = ClientConnection(self)
        self._unauthenticated[connection] = self._loop.create_task(self._connect(connection, accepted))

    async def _connect(self, connection: ClientConnection, accepted: socket.socket) -> None:
        limit_s = self.options.handshake_s if self.options.tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self.options.tls, ssl_handshake_timeout=limit_s
            )
        except (OSError, asyncio.CancelledError):  # the TLS handshake failed, or took too long
            self._unauthenticated.pop(connection, None)
            with suppress(OSError):
                accepted.close()

    def _drop_oldest(self) -> None:
        if self._unauthenticated:
            self._drop(next(iter(self._unauthenticated)))

    def _drop(self, connection: ClientConnection) -> None:
        task = self._unauthenticated.pop(connection)
        if connection.is_connected:
            connection.abort()
        else:
            task.cancel()

    def _close_sockets(self) -> None:
        """No more connections; unauthenticated ones are dropped."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for connection in list(self._unauthenticated):
            self._drop(connection)

    # -- for connections ----------------------------------------------------------------------------------------

    def admit(self, connection: ClientConnection) -> bool:
        """Whether there is room for one more authenticated client."""
        if self.service.clients >= self.options.connections_max:
            return False
        self.service.clients += 1
        self._unauthenticated.pop(connection, None)
        return True

    def lost(self, connection: ClientConnection) -> None:
        self.connections.discard(connection)
        if self.last_heard is connection:
            self.last_heard = None
        self._unauthenticated.pop(connection, None)
        if connection.is_authenticated:
            self.service.clients -= 1

    def hold(self, requests: int, size: int) -> None:
        """So many more requests wait for their response, with so many bytes."""
        self.service.outstanding += requests
        self._held_bytes += size
        if (self._held_bytes > self.options.pending_bytes_max) != self.is_held:
            self._update_held()

    def _update_held(self) -> None:
        is_held = self.is_stopping or self._held_bytes > self.options.pending_bytes_max
        if is_held != self.is_held:
            self.is_held = is_held
            for connection in self.connections:
                self._loop.call_soon(connection.resume)

    def _may_commit_on_loop(self) -> bool:
        """Whether a commit holds up nobody: lately there was one client only, or no request but commits."""
        since_s = min(self.last_heard_since_s, self.last_read_s)
        return not self._shares_loop and self.now() - since_s > _ALONE_S

    def log_rejected(self, transport: asyncio.Transport, error: HoldfastError) -> None:
        """At most once a second: nobody may fill the log."""
        self._rejected += 1
        if self.now() >= self._log_after_s:
            self._log_after_s = self.now() + _LOG_PAUSE_S
            peer = transport.get_extra_info("peername")
            log.warning("rejected client %s (%d so far): %s", peer, self._rejected, error)

    def call_soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls the function on the event loop. Any thread."""
        with suppress(RuntimeError):  # the loop is closed: no client is left
            self._loop.call_soon_threadsafe(function, *arguments)


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
