"""An application that answers on sockets, within the limits of a shift, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from socket import socket

import uvicorn
from uvicorn.server import ServerState

from holdfast.web.server.connections import WorkerConnections
from holdfast.web.server.listen import BACKLOG
from holdfast.web.server.protocol import protocol_of
from holdfast.web.server.request_cycle import App

_LOOK_S = 0.02


async def listen_with(app: App, shift: WorkerConnections, sockets: Sequence[socket]) -> list[asyncio.Server]:
    """Answers on the sockets by the application, within the limits of the shift."""
    config = uvicorn.Config(
        app=app, ws="none", lifespan="off", interface="asgi3", log_config=None, proxy_headers=False, access_log=False
    )
    config.load()
    state, kind = ServerState(), protocol_of(shift)

    def connect() -> asyncio.Protocol:
        return kind(config=config, server_state=state, app_state={}, _loop=loop)

    loop = asyncio.get_running_loop()
    return [await loop.create_server(connect, sock=each, backlog=BACKLOG) for each in sockets]


async def stop(shift: WorkerConnections, servers: Sequence[asyncio.Server]) -> None:
    """No new connections; what is under way is finished, for a while; then the rest is cut off."""
    shift.stopping = True
    for server in servers:
        server.close()
    for connection in list(shift.connections):
        connection.shutdown()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + shift.settings.stop_s
    while shift.connections and loop.time() < deadline:
        await asyncio.sleep(_LOOK_S)
    for connection in list(shift.connections):
        connection.cut()
