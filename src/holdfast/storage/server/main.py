"""The process that serves volumes: opens and serves each, and stops all together (W11).

The volumes of a process share its event loop, its descriptors and its signals. Each has its own port, lock, limits and
threads; one that cannot be opened, or fails, leaves the others alone. Volumes are opened and closed in threads, so that
a long recovery holds up nobody.

A signal stops all servers in order, and closes the volumes. A second one ends the process at once, which costs nothing
that was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import uvloop

from holdfast.config import StoreSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.env.uninterruptible import raises_nothing
from holdfast.errors import VolumeDown
from holdfast.storage.identity import Identity, read_identity
from holdfast.storage.server.listener import VolumeServer
from holdfast.storage.server.options import ServerOptions
from holdfast.storage.server.service import VolumeService
from holdfast.storage.volume import IdempotentVolume
from holdfast.storage.volumes.local import VolumeSpec
from holdfast.storage.volumes.organizations import open_volume, volume_spec

log = logging.getLogger("holdfast.server")
T = TypeVar("T")
Addresses = list[tuple[str, int]]
Served = tuple[Path, ServerOptions]  # a volume's directory, and how it is served

_FILES = 512  # descriptors of a volume for all but connections
_SWITCH_S = 0.0005  # the event loop must not wait long for a thread that computes


def serve_volumes(
    served: Sequence[Served],
    settings: StoreSettings,
    env: Environment,
    ready: Callable[[int, Addresses], None],
    failed: Callable[[int, Exception], None],
) -> None:
    """Serves the volumes until SIGINT or SIGTERM, or until none of them can be served any more.

    `ready` and `failed` are called on the event loop with the place of a volume in the list. One that failed is no
    longer served: with VolumeDown if there is none in its directory, with Busy if another process writes to it.
    """
    sys.setswitchinterval(_SWITCH_S)
    uvloop.run(_Process(_within_descriptors(served), settings, env, ready, failed).run())


class _Process:
    """For the event loop."""

    def __init__(
        self,
        served: Sequence[Served],
        settings: StoreSettings,
        env: Environment,
        ready: Callable[[int, Addresses], None],
        failed: Callable[[int, Exception], None],
    ) -> None:
        self._served = served
        self._settings = settings
        self._env = env
        self._ready = ready
        self._failed = failed
        self._threads = ThreadPoolExecutor(len(served), thread_name_prefix="opening")
        self._servers: list[VolumeServer] = []
        self._is_stopping = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_or_end, loop, number)
            raises_nothing(signal.getsignal(number))  # type: ignore[type-var]  # the loop's own, which only notes it
        if any(options.stop_with_input for _, options in self._served):
            loop.add_reader(sys.stdin.fileno(), self._stop_at_end, loop)
        await asyncio.gather(*(self._serve(index, *each) for index, each in enumerate(self._served)))

    def _stop(self) -> None:
        self._is_stopping = True
        for server in self._servers:
            server.stop()

    def _stop_or_end(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        """The first signal stops in order, a second one at once."""
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        self._stop()

    def _stop_at_end(self, loop: asyncio.AbstractEventLoop) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            self._stop()

    async def _serve(self, index: int, directory: Path, options: ServerOptions) -> None:
        """One volume, from its opening to its end."""
        try:
            identity = await self._in_thread(lambda: self._identity(directory))
            lock = WriterLock(directory / paths.LOCK, "holdfast volume serve", subject="volume")
            try:
                volume, spec = await self._in_thread(lambda: self._open(directory, identity))
                try:
                    service = await self._in_thread(lambda: VolumeService(volume, spec, options, self._env))
                    await self._serve_open(index, service)
                finally:
                    await self._in_thread(volume.close)
            finally:
                lock.release()
        except Exception as error:  # whatever it is, the others go on
            self._failed(index, error)

    def _identity(self, directory: Path) -> Identity:
        try:
            return read_identity(self._env, directory)
        except FileNotFoundError:
            raise VolumeDown(f"no volume in '{directory}'; make one with 'holdfast volume init {directory}'") from None

    def _open(self, directory: Path, identity: Identity) -> tuple[IdempotentVolume, VolumeSpec]:
        name = directory.name or str(directory)
        spec = volume_spec(name, directory, replace(self._settings, signature=identity.signature), self._env)
        return open_volume(name, directory, spec.settings, self._env), spec

    async def _serve_open(self, index: int, service: VolumeService) -> None:
        if self._is_stopping:
            return
        server = VolumeServer(service, service.options, self._env, shares_loop=len(self._served) > 1)
        self._servers.append(server)
        try:
            self._ready(index, await server.listen())
        except BaseException:
            server.stop()
            raise
        finally:
            await server.run()  # until it is stopped

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _within_descriptors(served: Sequence[Served]) -> list[Served]:
    """Limits connections to what the system allows: the volumes need descriptors, too."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return list(served)
    return [(directory, _within(options, hard // len(served), directory)) for directory, options in served]


def _within(options: ServerOptions, descriptors: int, directory: Path) -> ServerOptions:
    possible = max(1, descriptors - options.unauthenticated_max - _FILES)
    if options.connections_max <= possible:
        return options
    log.warning(
        "at most %d connections to '%s': the system allows it %d open files ('ulimit -n')",
        possible,
        directory,
        descriptors,
    )
    return replace(options, connections_max=possible)
