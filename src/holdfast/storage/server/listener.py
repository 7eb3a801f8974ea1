"""Where connections come in: each is a stranger until it has proven itself.

There is room for so many strangers. When it is taken, the one that has been there longest makes room for the next: so
who only holds places, in the TLS handshake or after it, keeps nobody out who proves himself at once.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.storage.server.connection import ClientConnection

if TYPE_CHECKING:
    from holdfast.storage.server.server import VolumeServer

_BACKLOG = 1024
_ACCEPTED_TOGETHER = 64  # before others get their turn
_BREATHER_S = 0.1  # when the system has no more descriptors
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 20), (socket.TCP_KEEPCNT, 5))


class Listener:
    """For the event loop only."""

    def __init__(self, server: VolumeServer) -> None:
        self._server = server
        self._options = server.options
        self._loop = asyncio.get_running_loop()
        self._strangers: dict[ClientConnection, asyncio.Task[None]] = {}  # the oldest first
        self._sockets: list[socket.socket] = []

    async def open(self) -> list[tuple[str, int]]:
        """Begins to accept; returns the addresses. Raises UsageError if the address cannot be used."""
        host, port = self._options.host, self._options.port
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                self._sockets.append(_listening(family, address))
        except OSError as error:
            self.close()
            raise UsageError(f"cannot listen on '{host}:{port}': {error.strerror or error}") from None
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)
        return [each.getsockname()[:2] for each in self._sockets]

    def close(self) -> None:
        """Nobody comes in any more; who has not proven himself leaves."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for stranger in list(self._strangers):
            self._turn_out(stranger)

    def leave(self, connection: ClientConnection) -> None:
        """It is no stranger any more, or gone."""
        self._strangers.pop(connection, None)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_TOGETHER):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self._turn_out_oldest()
                self._loop.remove_reader(listening)
                self._loop.call_later(_BREATHER_S, self._go_on, listening)
                return
            self._admit(accepted)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _admit(self, accepted: socket.socket) -> None:
        if len(self._strangers) >= self._options.strangers_max:
            self._turn_out_oldest()
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a client whose machine is gone is noticed
        for option, value in _KEEPALIVE:
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)
        connection = ClientConnection(self._server)
        self._strangers[connection] = self._loop.create_task(self._connect(connection, accepted))

    async def _connect(self, connection: ClientConnection, accepted: socket.socket) -> None:
        limit_s = self._options.handshake_s if self._options.tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._options.tls, ssl_handshake_timeout=limit_s
            )
        except (OSError, asyncio.CancelledError):  # the TLS handshake failed, or took too long
            self.leave(connection)
            with suppress(OSError):
                accepted.close()

    def _turn_out_oldest(self) -> None:
        if self._strangers:
            self._turn_out(next(iter(self._strangers)))

    def _turn_out(self, connection: ClientConnection) -> None:
        task = self._strangers.pop(connection)
        if connection.is_connected:
            connection.abort()
        else:
            task.cancel()


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
