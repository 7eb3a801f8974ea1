"""A worker: one process with one event loop, both applications on their sockets, the archive open for reading."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import sys
from collections.abc import Callable, Mapping
from socket import socket

import uvloop

from holdfast.archive import Archive
from holdfast.env.child_process import receive_pickled, send_pickled
from holdfast.errors import HoldfastError
from holdfast.web.api.write.writer import Writer
from holdfast.web.app import ControlsApp, ReplayApp
from holdfast.web.auth.tokens import TokenAttempts, Tokens
from holdfast.web.context import WebContext, open_site
from holdfast.web.forward import Forwarder, PeerApp
from holdfast.web.server.access_log import AccessLog
from holdfast.web.server.counters import Counters
from holdfast.web.server.host_names import AnyApp, Hosts, named_app
from holdfast.web.server.http_server import HttpServer
from holdfast.web.server.supervisor import FAILED, READY, REOPEN, STOP, WorkerStart

log = logging.getLogger("holdfast.web")

_IDENTITY_CHECK_S = 1.0
_COLLECT_AFTER = 50_000  # new objects: requests make few cycles, and frequent collections cost throughput


def main() -> None:
    """The process's entry point. The only argument is the descriptor of the channel to the parent."""
    channel = socket(fileno=int(sys.argv[1]))
    try:
        start: WorkerStart = receive_pickled(channel)
    except EOFError:
        os._exit(1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # `serve.connections_max`, and files of the archive
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("holdfast: %(message)s"))
    logging.getLogger("holdfast").addHandler(handler)
    logging.getLogger("holdfast").setLevel(start.log_level)
    uvloop.run(_work(start, channel))
    os._exit(0)  # threads may still scan the catalog for clients that are gone


async def _work(start: WorkerStart, channel: socket) -> None:
    settings, origins = start.settings, start.origins
    counters = Counters(start.counters, start.row)
    try:
        access_log = AccessLog.of(start.root, settings.access_log, counters)
        tokens = Tokens.of(start.root, settings, start.write_tokens, TokenAttempts(start.attempts))
        site = open_site(start.root, settings, origins, counters, tokens)
        if start.router is not None:
            site.forwarder = Forwarder(start.router)
            site.answers, site.peer_answers = start.router.answers(site)
            site.writer = Writer(start.root, start.router.open_for_writing)
        server = HttpServer(settings, Hosts.of(settings, origins.controls, origins.replay), counters, access_log)
        await server.listen(named_app(site, ControlsApp), [socket(fileno=number) for number in start.controls])
        await server.listen(named_app(site, ReplayApp), [socket(fileno=number) for number in start.replay])
        if start.router is not None:
            apps: Mapping[str, Callable[[WebContext], AnyApp]] = {"controls": ControlsApp, "replay": ReplayApp}
            apps = {**apps, **start.router.peer_apps()}
            peers = PeerApp(site, apps, start.router)
            context = start.router.server_context()
            await server.listen(peers, [socket(fileno=number) for number in start.peers], context)
    except (HoldfastError, OSError) as error:
        send_pickled(channel, error, prefix=FAILED)
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    timekeeper = asyncio.create_task(server.keep_time())
    channel.sendall(READY)
    ends = [asyncio.create_task(_stopped(channel, access_log)), asyncio.create_task(_replaced(site))]
    done, _ = await asyncio.wait([*ends, timekeeper], return_when=asyncio.FIRST_COMPLETED)
    for each in ends:
        each.cancel()
    for each in done:
        each.result()
    await server.stop()
    timekeeper.cancel()
    if site.forwarder is not None:
        site.forwarder.close()
    access_log.close()
    site.archive.close()


async def _replaced(site: WebContext) -> None:
    """Returns when another archive has replaced this one and can be opened. A new worker then takes over."""
    while not await asyncio.to_thread(_is_replaced, site):
        await asyncio.sleep(_IDENTITY_CHECK_S)
    log.warning("the archive in '%s' was replaced: opening the new one", site.archive.path)


def _is_replaced(site: WebContext) -> bool:
    try:
        if site.identity.is_same:
            return False
        Archive(site.archive.path, read_only=True).close()
    except (HoldfastError, OSError):  # missing, or still being copied
        return False
    return True


async def _stopped(channel: socket, access_log: AccessLog) -> None:
    """Returns when the parent says stop; reopens the log on request. Ends the process if the parent is gone."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    while True:
        try:
            letters = await loop.sock_recv(channel, 16)
        except ConnectionError:  # the parent died
            letters = b""
        if not letters:
            os._exit(1)
        if REOPEN in letters:
            try:
                access_log.reopen()
            except OSError as error:
                log.warning("cannot reopen the access log: %s", error)
        if STOP in letters:
            return
