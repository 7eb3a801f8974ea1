"""A worker: one process, one event loop, both applications on their sockets, the archive open for reading."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from socket import socket
from typing import Any

import uvloop

from holdfast.archive import Archive
from holdfast.env.child_process import receive_pickled, send_pickled
from holdfast.errors import HoldfastError
from holdfast.web.app import controls_app, replay_app
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import WebContext, open_site
from holdfast.web.host_names import named_app
from holdfast.web.server.access_log import AccessLog
from holdfast.web.server.channel import FAILED, READY, REOPEN, STOP, WorkerStart
from holdfast.web.server.connections import WorkerConnections
from holdfast.web.server.counters import Counters
from holdfast.web.server.listen import Hosts
from holdfast.web.server.service import listen_with, stop
from holdfast.web.server.token_attempts import TokenAttempts

log = logging.getLogger("holdfast.web")

_STANDING_S = 1.0
_COLLECT_AFTER = 50_000  # new objects: requests make few cycles, and looking for them often costs throughput


def main() -> None:
    """The process's entry point. The only argument is the descriptor of the channel to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    channel = socket(fileno=int(sys.argv[1]))
    try:
        start: WorkerStart = receive_pickled(channel)
    except EOFError:
        os._exit(1)
    _show_log(start.log_level)
    uvloop.run(_work(start, channel))
    os._exit(0)  # threads that are still looking through the catalog have nobody to answer


async def _work(start: WorkerStart, channel: socket) -> None:
    counters = Counters(start.counters, start.row)
    try:
        access_log = open_access_log(start.root, start.settings.access_log, counters)
        tokens = Tokens.of(start.root, start.settings, start.write_tokens, TokenAttempts(start.attempts))
        site = open_site(start.root, start.settings, start.origins, counters, tokens)
        hosts = Hosts.of(start.settings, start.origins.controls, start.origins.replay)
        shift = WorkerConnections(start.settings, hosts, counters, access_log)
        servers = await _serve(site, shift, start)
    except (HoldfastError, OSError) as error:
        send_pickled(channel, error, prefix=FAILED)
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    timekeeper = asyncio.create_task(shift.keep_time())
    channel.sendall(READY)
    await _either(_obey(channel, access_log), _replaced(site))
    await stop(shift, servers)
    timekeeper.cancel()
    access_log.close()
    site.archive.close()


async def _serve(site: WebContext, shift: WorkerConnections, start: WorkerStart) -> list[asyncio.Server]:
    controls, replay = named_app(site, controls_app), named_app(site, replay_app)
    return [
        *await listen_with(controls, shift, [socket(fileno=number) for number in start.controls]),
        *await listen_with(replay, shift, [socket(fileno=number) for number in start.replay]),
    ]


async def _either(*awaited: Coroutine[Any, Any, None]) -> None:
    """Until one of them is done."""
    tasks = [asyncio.create_task(each) for each in awaited]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    for each in done:
        each.result()


async def _replaced(site: WebContext) -> None:
    """Until another archive stands in the place of this one, and can be opened: by the next worker, which is fresh."""
    while not await asyncio.to_thread(_is_replaced, site):
        await asyncio.sleep(_STANDING_S)
    log.warning("another archive stands in '%s': it is opened", site.archive.path)


def _is_replaced(site: WebContext) -> bool:
    try:
        if site.standing.is_same:
            return False
        Archive(site.archive.path, read_only=True).close()
    except (HoldfastError, OSError):  # it is away, or still being copied
        return False
    return True


async def _obey(channel: socket, access_log: AccessLog) -> None:
    """Until the parent says that it is over, or is gone."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    while True:
        letters = await loop.sock_recv(channel, 16)
        if not letters:
            os._exit(1)
        if REOPEN in letters:
            try:
                access_log.reopen()
            except OSError as error:
                log.warning("cannot open the access log anew: %s", error)
        if STOP in letters:
            return


def open_access_log(root: Path, name: str, counters: Counters) -> AccessLog:
    """By the setting: a file, `-` for standard error, or none."""
    return AccessLog(root / name if name and name != "-" else None, counters, to_errors=name == "-")


def _show_log(level: int) -> None:
    handler: logging.Handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("holdfast: %(message)s"))
    ours: Any = logging.getLogger("holdfast")
    ours.addHandler(handler)
    ours.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
