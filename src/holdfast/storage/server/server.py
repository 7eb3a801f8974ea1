"""The volume server: one volume, any number of clients (W11).

Threads: the event loop owns all connections; the committing thread writes to the volume; a few more threads do what
takes long. Other servers of the process run on the same event loop, with threads of their own (`serving`). It stops in
order: no new connections, what is under way is finished and answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from holdfast.env import Environment
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.storage.server.committer import Commit, Committer, Result
from holdfast.storage.server.connection import ClientConnection, MemoryBudget
from holdfast.storage.server.handlers import VolumeHandlers
from holdfast.storage.server.listener import Listener
from holdfast.storage.server.options import ServerOptions

log = logging.getLogger("holdfast.server")

_THREADS = 4
_TICK_S = 0.5
_SILENCE_S = 1.0  # between two complaints about clients
_LOOK_S = 0.01  # between two looks, when the server stops


class VolumeServer:
    """Serves an open volume until it is stopped. All methods but `in_thread`'s work are for the event loop."""

    def __init__(self, service: VolumeHandlers, options: ServerOptions, env: Environment) -> None:
        self.service = service
        self.options = options
        self.env = env
        self.budget = MemoryBudget(max(options.pending_bytes_max, options.message_bytes_max))
        self._connections: set[ClientConnection] = set()
        self._held_bytes = 0
        self._complaints = 0
        self._silent_until_s = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="serving")
        self.committer = Committer(service, lambda done: self._call(self._answer, done))
        self._stopping = asyncio.Event()
        self.now = self._loop.time
        self.door = Listener(self)

    async def listen(self) -> list[tuple[str, int]]:
        """Begins to accept; returns the addresses. Raises UsageError if the address cannot be used."""
        return await self.door.open()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Serves until `stop`; then finishes what is under way."""
        try:
            while not self._stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), _TICK_S)
                self._abort_stalled()
        finally:
            self.door.close()
            await self._finish()

    async def _finish(self) -> None:
        """No more requests; those that were asked are answered, and the answers go out."""
        self._stopping.set()
        deadline = self.now() + self.options.stop_s
        for connection in list(self._connections):
            connection.hold_still()
        await self._until(lambda: all(each.is_idle for each in self._connections), deadline)
        await self._loop.run_in_executor(None, self.committer.close)
        await asyncio.sleep(0)  # the last answers go out
        for connection in list(self._connections):
            connection.close()
        await self._until(lambda: not self._connections, deadline)
        for connection in list(self._connections):
            connection.abort()
        await self._loop.run_in_executor(None, lambda: self._threads.shutdown(wait=True, cancel_futures=True))

    async def _until(self, is_so: Callable[[], bool], deadline_s: float) -> None:
        while not is_so() and self.now() < deadline_s:
            await asyncio.sleep(_LOOK_S)

    def _abort_stalled(self) -> None:
        """Clients that keep us waiting; and those that take too few of their answers, if memory gets short."""
        now = self.now()
        for connection in [each for each in self._connections if each.stalled(now)]:
            connection.abort()
        for connection in self._connections:
            connection.let_go(now)
        unsent = sum(each.unsent_bytes for each in self._connections)
        for connection in sorted(self._connections, key=lambda each: each.unsent_bytes, reverse=True):
            if unsent <= self.options.pending_bytes_max:
                return
            unsent -= connection.unsent_bytes
            connection.abort()

    # -- for connections ----------------------------------------------------------------------------------------

    def arrived(self, connection: ClientConnection) -> None:
        self._connections.add(connection)

    def admit(self, connection: ClientConnection) -> bool:
        """Whether there is room for one more client that has proven itself."""
        if self.service.clients >= self.options.connections_max:
            return False
        self.service.clients += 1
        self.door.leave(connection)
        return True

    def left(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        self.door.leave(connection)
        if not connection.is_unauthenticated:
            self.service.clients -= 1

    @property
    def is_stopping(self) -> bool:
        """Any thread may ask."""
        return self._stopping.is_set()

    @property
    def takes_no_questions(self) -> bool:
        """Because it stops, or because what waits to be committed takes all the memory that it may."""
        return self.is_full or self.is_stopping

    def hold(self, requests: int, size: int) -> None:
        """So many more requests wait for their answer, with so many bytes."""
        self.service.outstanding += requests
        was_full = self.is_full
        self._held_bytes += size
        if was_full and not self.is_full:
            for connection in list(self._connections):
                self._loop.call_soon(connection.go_on)

    @property
    def is_full(self) -> bool:
        """Whether what waits to be committed takes all the memory that it may."""
        return self._held_bytes > self.options.pending_bytes_max

    def complain(self, transport: asyncio.Transport | None, error: HoldfastError) -> None:
        """Once in a while: strangers must not fill the log."""
        peer = transport.get_extra_info("peername") if transport is not None else None
        self._complaints += 1
        if self.now() < self._silent_until_s:
            return
        self._silent_until_s = self.now() + _SILENCE_S
        log.warning("a client at %s was turned away, the %d. until now: %s", peer, self._complaints, error)

    def every(self, seconds: float, function: Callable[[], None]) -> Beat:
        """Calls the function on the event loop again and again, until it is cancelled there."""
        return Beat(self._loop, seconds, function)

    def soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls the function on the event loop. Any thread."""
        self._call(function, *arguments)

    def in_thread(self, work: Callable[[], Callable[[], None]], failed: Callable[[HoldfastError], None]) -> None:
        """`work` in a thread, then what it returns on the event loop; `failed` there if it raises."""

        def do() -> None:
            try:
                finish = work()
            except HoldfastError as error:
                self._call(failed, error)
            except Exception as error:  # the edge of the process: the client must be told something
                log.exception("a request could not be answered")
                self._call(failed, VolumeDown(f"the server failed: {error!r}"))
            else:
                self._call(finish)

        self._threads.submit(do)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _answer(self, done: list[tuple[Commit, Result]]) -> None:
        for commit, result in done:
            commit.answer(result)


class Beat:
    """Something that is done again and again. For the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, function: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._function = function
        self._timer = loop.call_later(seconds, self._next)

    def _next(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._next)
        self._function()

    def cancel(self) -> None:
        self._timer.cancel()
