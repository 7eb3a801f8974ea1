"""The connection to the NATS service, when it is lost or given up."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import nats.errors
import pytest

from holdfast.cluster.membership.bus import Bus, ServiceAccess
from holdfast.cluster.membership.service import NatsService
from holdfast.errors import ClusterDown

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
