"""The protocol with an application of the test's own and limits that are reached quickly, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from holdfast.config import ServeSettings
from holdfast.web.server.access_log import AccessLog
from holdfast.web.server.connection import App
from holdfast.web.server.counters import Counters
from holdfast.web.server.host_names import Hosts
from holdfast.web.server.http_server import HttpServer
from holdfast.web.server.listen import listen

PIECES = 400  # of /large
PIECE = b"x" * 65536


@dataclass(frozen=True)
class Limited:
    """A running server."""

    port: int
    counters: Counters


@contextmanager
def serving(settings: ServeSettings, log: Path | None = None, app: App | None = None) -> Iterator[Limited]:
    """Answers until the end of the `with`; by `application`, if no other is given."""
    listening = listen(settings, 1)
    counters = Counters.make()
    loop = uvloop.new_event_loop()
    ended, ready = asyncio.Event(), threading.Event()

    async def serve() -> None:
        access_log = AccessLog(log, counters)
        server = HttpServer(settings, Hosts.of(settings), counters, access_log)
        await server.listen(app or application, [each.dup() for each in listening.controls.sockets[0]])
        timekeeper = asyncio.create_task(server.keep_time())
        ready.set()
        await ended.wait()
        await server.stop()
        timekeeper.cancel()
        access_log.close()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        ready.wait()
        yield Limited(listening.controls.number, counters)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        listening.close()
        counters.close()


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Tells what it was asked; `/large` is more than any buffer holds; `/failing` fails; `/early` reads no body."""
    if scope["path"] == "/failing":
        raise ValueError("on purpose")
    body = b"" if scope["path"] == "/early" else await read(receive)
    if body is None:
        return
    if scope["path"] == "/large":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
        await send({"type": "http.response.body"})
        return
    told = b"%s %s?%s %d" % (scope["method"].encode(), scope["raw_path"], scope["query_string"], len(body))
    headers = [(b"content-length", b"%d" % len(told)), *injected(scope)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


def injected(scope: Any) -> list[tuple[bytes, bytes]]:
    """A header that an application should never make."""
    return [(b"x-odd", b"1\r\nset-cookie: a=b")] if scope["path"] == "/injected" else []


async def read(receive: Any) -> bytes | None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        more = message["more_body"]
    return body
