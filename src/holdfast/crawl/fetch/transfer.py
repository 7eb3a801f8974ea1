"""Many handles on one event loop.

libcurl says which sockets it waits for; they stand in an epoll of our own, which is one reader on the event loop, so
that a hundred answers cost one wake-up of the loop. Handles are kept and used again; so are connections, by libcurl.
"""

from __future__ import annotations

import asyncio
import select
from contextlib import suppress
from pathlib import Path
from typing import Any

import pycurl

from holdfast.crawl.fetch.handle import FetchOrder, Handle
from holdfast.crawl.fetch.tls import Agreements
from holdfast.crawl.job.job import FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetchOutcome

_EVENTS = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
_EVENTS_PER_TURN = 256
_EARLY_S = 0.0005
_NEVER = float("inf")


class Transfers:
    """Runs orders to their end; belongs to the event loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settings: FetchSettings, spool: Path, connections_max: int
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._spool = spool
        self._agreements = Agreements()
        self._idle: list[Handle] = []
        self._busy: dict[Any, Handle] = {}
        self._sockets: set[int] = set()
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._kicked = False
        self._closed = False
        self._epoll = select.epoll()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def active(self) -> int:
        return len(self._busy)

    @property
    def sockets(self) -> int:
        """Connections that something is expected from."""
        return len(self._sockets)

    def start(self, order: FetchOrder) -> None:
        """Makes a request; `order.done` is called when it has ended, never before this returns."""
        handle = self._idle.pop() if self._idle else Handle(self._settings, self._spool, self._agreements)
        try:
            handle.prepare(order)
            self._multi.add_handle(handle.curl)
        except pycurl.error as problem:
            handle.close()
            refused = Fetched(order.job, FetchOutcome.INVALID, f"cannot fetch '{order.job.url}': {problem}")
            self._loop.call_soon(order.done, refused, 0)
        else:
            self._busy[handle.curl] = handle

    def close(self) -> None:
        """Breaks off what runs, without results, and deletes what it has left in files."""
        self._closed = True
        self._loop.remove_reader(self._epoll.fileno())
        if self._timer is not None:
            self._timer.cancel()
        for handle in [*self._busy.values(), *self._idle]:
            if handle.order is not None:
                self._multi.remove_handle(handle.curl)
                handle.abandon()
            handle.close()
        self._busy.clear()
        self._idle.clear()
        self._multi.close()
        self._epoll.close()

    def _watch(self, what: int, socket: int, _multi: Any, _data: Any) -> None:
        """libcurl's wish for a socket."""
        if what == pycurl.POLL_REMOVE:
            if socket in self._sockets:
                self._sockets.discard(socket)
                with suppress(OSError):  # closed already, which takes it out of the epoll
                    self._epoll.unregister(socket)
        elif socket in self._sockets:
            self._epoll.modify(socket, _EVENTS[what])
        else:
            self._epoll.register(socket, _EVENTS[what])
            self._sockets.add(socket)

    def _set_timer(self, milliseconds: int) -> None:
        """libcurl's wish to be called in a while; each takes the place of the one before."""
        if milliseconds < 0:
            self._deadline = _NEVER
        elif milliseconds == 0:
            self._deadline = _NEVER
            if not self._kicked:
                self._kicked = True
                self._loop.call_soon(self._kick)
        else:
            self._deadline = self._loop.time() + milliseconds / 1000
            if self._timer is None:
                self._timer = self._loop.call_at(self._deadline, self._expire)
            elif self._timer.when() > self._deadline:
                self._timer.cancel()
                self._timer = self._loop.call_at(self._deadline, self._expire)

    def _kick(self) -> None:
        self._kicked = False
        if self._closed:
            return
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()

    def _expire(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self._deadline > self._loop.time() + _EARLY_S:  # it was put off
            self._timer = self._loop.call_at(self._deadline, self._expire)
            return
        self._deadline = _NEVER
        self._kick()

    def _ready(self) -> None:
        act = self._multi.socket_action
        for socket, events in self._epoll.poll(0, _EVENTS_PER_TURN):
            flags = 0
            if events & select.EPOLLIN:
                flags = pycurl.CSELECT_IN
            if events & select.EPOLLOUT:
                flags |= pycurl.CSELECT_OUT
            if events & (select.EPOLLERR | select.EPOLLHUP):
                flags |= pycurl.CSELECT_ERR
            act(socket, flags)
        self._collect()

    def _collect(self) -> None:
        """Hands out what has ended."""
        left = 1
        while left:
            left, good, bad = self._multi.info_read()
            for curl in good:
                self._finish(curl, 0, "")
            for curl, code, problem in bad:
                self._finish(curl, code, problem)

    def _finish(self, curl: Any, code: int, problem: str) -> None:
        handle = self._busy.pop(curl)
        order = handle.order
        assert order is not None, "a busy handle has an order"
        if code == pycurl.E_PEER_FAILED_VERIFICATION and order.secret:
            problem += "; credentials are sent to servers with a good certificate only"
        elif code == pycurl.E_PEER_FAILED_VERIFICATION and handle.verifying and not self._settings.verify_tls:
            self._agreements.distrust(order.place.origin, problem)
            self._multi.remove_handle(curl)
            handle.abandon()
            self._idle.append(handle)
            self.start(order)
            return
        result = handle.finish(code, problem)
        self._multi.remove_handle(curl)
        self._idle.append(handle)
        order.done(*result)
