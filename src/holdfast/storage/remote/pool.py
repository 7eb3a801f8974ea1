"""The connections of a client to one server: opened when they are needed, used by one thread at a time, tried again.

A server that does not answer is tried for a while; then its volume counts as down, and is left alone for a while, so
that who has replicas elsewhere is not held up by it again and again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.config import RemoteSettings
from holdfast.env import Environment
from holdfast.errors import Busy, HoldfastError, MalformedInput, VolumeDown
from holdfast.storage.remote.link import Credentials, Link

log = logging.getLogger("holdfast.storage")
T = TypeVar("T")
_PAUSE_S = 0.02  # before a request is tried again; doubled each time
_PAUSE_MAX_S = 0.5


class Pool:
    """Any thread may call any method."""

    def __init__(
        self, name: str, address: str, credentials: Credentials, settings: RemoteSettings, env: Environment
    ) -> None:
        self._name = name
        self.address = address
        self._credentials = credentials
        self._settings = settings
        self._env = env
        self._idle: list[Link] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(settings.connections_max)
        self._down_until_s = float("-inf")
        self._failure = ""
        self._is_refused = False  # it answers, but not to us
        self._was_awaited = False  # the failure came after all patience: nobody else needs to have it
        self._closed = False
        self.connected: Callable[[Link], None] = lambda link: None  # told of every new connection before it is used

    @property
    def available(self) -> bool:
        """Whether it is worth asking: not, for a while, after the server could not be reached."""
        return self._env.monotonic() >= self._down_until_s

    def wake(self) -> None:
        """A server that was away is asked again at once, and with patience: there will be no other time."""
        self._failure, self._down_until_s = "", float("-inf")

    def use(self, talk: Callable[[Link], T], *, patient: bool = True) -> T:
        """What `talk` returns; it is called again on another connection if the network fails it.

        Raises VolumeDown when it has been tried for long enough, and at once if the server was away just now. Without
        patience it is tried on one new connection, at most.
        """
        return self.persist(lambda: self._once(talk), patient=patient)

    def borrow(self) -> Link:
        """A connection for the caller alone, to be given back or closed. Raises VolumeDown."""
        return self.persist(self.take)

    def persist(self, attempt: Callable[[], T], *, patient: bool = True) -> T:
        """What `attempt` returns; tried again while the network fails it, and then given up as in `use`."""
        if not self.available:
            raise self._down()
        patience_s = self._settings.retry_s if patient and not (self._failure and self._was_awaited) else 0.0
        started_s, pause_s = self._env.monotonic(), _PAUSE_S
        if self._failure:  # one finds out whether it is back; meanwhile the others leave it alone
            self._down_until_s = started_s + max(self._settings.down_s, self._settings.connect_timeout_s)
        while True:
            had_idle = bool(self._idle)
            try:
                result = attempt()
            except (OSError, MalformedInput) as error:
                failure = error
            else:
                if self._failure:
                    self._recover()
                return result
            if had_idle and not patient:  # what failed may have been a connection of long ago
                continue
            waited_s = self._env.monotonic() - started_s
            if self._closed or waited_s + pause_s > patience_s:
                raise self._give_up(failure, awaited=patient) from failure
            self._env.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _give_up(self, failure: Exception, *, awaited: bool = True) -> VolumeDown:
        self._was_awaited = awaited or (self._was_awaited and bool(self._failure))
        self._failure = str(failure) or repr(failure)
        self._is_refused = isinstance(failure, HoldfastError)
        self._down_until_s = self._env.monotonic() + self._settings.down_s
        return self._down()

    def _recover(self) -> None:
        log.warning("the volume server at %s answers again", self.address)
        self.wake()

    def _down(self) -> VolumeDown:
        if self._is_refused:
            return VolumeDown(f"volume {self._name!r} at {self.address} cannot be used: {self._failure}")
        return VolumeDown(f"volume {self._name!r} is down: no answer from {self.address}: {self._failure}")

    def _once(self, talk: Callable[[Link], T]) -> T:
        with self._room:
            link = self.take()
            try:
                result = talk(link)
            except (OSError, MalformedInput):
                self._drop_all(link)
                raise
            except HoldfastError:  # the server's own words: the network is sound
                if self._failure:
                    self._recover()
                self.give_back(link)
                raise
            except BaseException:
                link.close()
                raise
            self.give_back(link)
            return result

    def take(self) -> Link:
        """As `borrow`, tried once. Raises OSError or VolumeDown."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            link = Link(self.address, self._credentials, self._settings, self._env)
        except Busy as error:
            raise ConnectionRefusedError(str(error)) from error
        except HoldfastError as error:  # a refusal: asking again would not change it
            raise self._give_up(error) from error
        try:
            self.connected(link)
        except VolumeDown as error:  # it is not the volume that it should be
            link.close()
            raise self._give_up(error) from error
        except BaseException:
            link.close()
            raise
        if self._failure:
            self._recover()
        return link

    def give_back(self, link: Link) -> None:
        with self._lock:
            if link.is_sound and not self._closed:
                self._idle.append(link)
                return
        link.close()

    def _drop_all(self, link: Link) -> None:
        """A connection has failed: those that lie idle have most likely, too."""
        link.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()
