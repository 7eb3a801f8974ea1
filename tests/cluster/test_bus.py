"""The connection to the NATS service, when it is lost or given up."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from node_cluster import WAIT_S, free_address

from holdfast.cluster.membership import bus as bus_module
from holdfast.cluster.membership.bus import Bus, ServiceAccess
from holdfast.cluster.membership.keeper import server_program
from holdfast.cluster.membership.service import NatsService
from holdfast.errors import ClusterDown, FormatTooOld

NOBODY = ServiceAccess("n1", "c1", NatsService(1, "x", (), "nats://127.0.0.1:9"), bytes, str)


def test_a_connection_that_closes_before_many_keys_are_read() -> None:
    async def subscribe(*_: object, **__: object) -> None:
        raise nats.errors.ConnectionClosedError

    async def read() -> None:
        bus = Bus(NOBODY)
        bus._client = SimpleNamespace(new_inbox=lambda: "x", subscribe=subscribe)  # type: ignore[assignment]
        bus._streams = SimpleNamespace()  # type: ignore[assignment]
        with pytest.raises(ClusterDown, match="connection closed"):
            await bus.entries()

    asyncio.run(read())


CALLS: dict[str, tuple[object, ...]] = {
    "publish": ("x", b""),
    "request": ("x", b""),
    "create_keys": (),
    "close_keys": ("",),
    "successor": (),
    "has_keys": (),
    "leader": (),
    "get": ("x",),
    "swap": ("x", b"", 0),
    "entries": (),
    "append": ("x", b"", "id"),
    "read_log": ("x", 0),
    "last_of_log": ("x",),
    "cut_log": ("x", 1),
    "count_log": ("x",),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_task_that_is_cancelled_while_the_connection_closes_ends(call: str, is_cancelled: bool) -> None:
    """Else a node that stops at that moment would go on. A request that the closing connection cancels just fails."""
    under_way: asyncio.Future[None]

    async def wait(*_: object, **__: object) -> None:
        await under_way

    async def run() -> None:
        nonlocal under_way
        under_way = asyncio.get_running_loop().create_future()
        bus = Bus(NOBODY)
        names = "request", "publish", "subscribe", "add_stream", "stream_info", "get_last_msg", "purge_stream"
        connection = SimpleNamespace(**dict.fromkeys(names, wait), new_inbox=lambda: "x", is_closed=True)
        bus._client = bus._streams = connection  # type: ignore[assignment]
        task = asyncio.create_task(getattr(bus, call)(*CALLS[call]))
        await asyncio.sleep(0)
        assert not task.done()
        (task if is_cancelled else under_way).cancel()
        with pytest.raises(asyncio.CancelledError if is_cancelled else ClusterDown):
            await task

    asyncio.run(run())


def test_nothing_is_left_of_a_connection_that_is_given_up() -> None:
    async def give_up() -> None:
        bus = Bus(NOBODY)
        opening = asyncio.create_task(bus.open(60.0))
        while len(asyncio.all_tasks()) < 4:  # this one, that of `open`, and the two that it waits for
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        await bus.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not (await asyncio.wait(left, timeout=10.0))[1]

    asyncio.run(give_up())


def test_a_connection_that_is_given_up_before_the_server_responds_ends_quietly() -> None:
    async def give_up(port: int) -> None:
        bus = Bus(replace(NOBODY, service=NatsService(1, "x", (), f"nats://127.0.0.1:{port}")))
        with pytest.raises(ClusterDown):
            await bus.open(0.2)
        assert bus._maintenance is not None
        await asyncio.wait([bus._maintenance])
        assert bus._maintenance.cancelled()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(give_up(silent.getsockname()[1]))


def test_a_client_that_was_never_connected_is_closed() -> None:
    asyncio.run(bus_module._close(Client()))


# -- with a server -----------------------------------------------------------------------------------------------------


class Server:
    """A NATS server that others run."""

    def __init__(self, path: Path) -> None:
        self._port = int(free_address().rpartition(":")[2])
        self._command = [server_program(), "-js", "-sd", str(path), "-a", "127.0.0.1", "-p", str(self._port)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)

    @property
    def access(self) -> ServiceAccess:
        return replace(NOBODY, service=NatsService(1, "x", (), f"nats://127.0.0.1:{self._port}"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.kill()


def test_nothing_is_left_of_a_connection_that_breaks_while_it_sends(server: Server) -> None:
    """Else each loss of a connection leaves its socket and its subscriptions behind."""

    async def reset() -> None:
        raise ConnectionResetError

    async def lose() -> None:
        bus = Bus(server.access)
        await bus.open(WAIT_S)
        before = asyncio.all_tasks()
        await bus.subscribe("x", lambda _: asyncio.sleep(0))
        assert asyncio.all_tasks() > before
        client = bus._client
        assert client is not None
        transport: Any = client._transport
        transport.drain = reset
        client._pending, client._pending_data_size = [b"PING\r\n"], 6
        await bus.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left or not (await asyncio.wait(left, timeout=10.0))[1]
        assert transport._io_writer.is_closing()

    asyncio.run(lose())


def test_a_connection_that_cannot_be_made_again_says_why(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a node would go on without a connection, and without a word."""

    async def lose() -> None:
        bus = Bus(server.access)
        await bus.open(WAIT_S)
        monkeypatch.setattr(bus_module, "_SERVER_MIN", (99, 0))
        server.kill()
        server.start()
        with pytest.raises(FormatTooOld, match=r"at least 99\.0"):
            await asyncio.wait_for(bus.run(), WAIT_S)
        await bus.close()

    asyncio.run(lose())
