"""The host names of the server: accepted ones, and the application for each.

A foreign page can point its own name at this machine and then read our responses as its own (DNS rebinding). So only
known names are accepted (`Hosts`): those of the settings and the host name of the machine. A numeric address is not a
name and cannot be pointed elsewhere: it is always accepted, and so are `localhost` and all names below it.

A server on all addresses of its machine has many names, and must use the one the client can reach in frames, redirects
and links. So each name has its own application (`ByHost`), created on first use: the same archive, other origins. If
the settings name the server, there is only one.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from holdfast.config import ServeSettings
from holdfast.env.lru import LruCache
from holdfast.web.context import WebContext
from holdfast.web.server.listen import ANY

AnyApp = Callable[[Any, Any, Any], Awaitable[None]]

NAMES_MAX = 16  # applications kept, by last use; clients can make up any number of names
_NUMERIC = re.compile(rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[[0-9a-f:.]{2,45}\]")
_LOCAL = re.compile(rb"(?:[a-z0-9_-]+\.)*localhost")
_PORT = re.compile(rb":\d{0,5}$")
_HOST_BYTES_MAX = 300  # of a `Host` header; longer than any name in the DNS
_KEPT_MAX = 1000  # names cached; clients can make up any number of them


def name_in(host: bytes) -> bytes:
    """The value of a `Host` header without its port, as names are compared."""
    return _PORT.sub(b"", host.lower()).rstrip(b".")


class Hosts:
    """The names that requests may use, without ports. For the thread of the event loop."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower().rstrip(".").encode() for name in names if name)
        self._judge = lru_cache(_KEPT_MAX)(self._names_us)

    @classmethod
    def of(cls, settings: ServeSettings, *origins: str) -> Hosts:
        named = [urlsplit(origin).hostname or "" for origin in origins]
        return cls([settings.host, socket.gethostname(), *settings.hosts, *named])

    def accepts(self, host: bytes) -> bool:
        """True if the value of a `Host` header names this server."""
        return len(host) <= _HOST_BYTES_MAX and self._judge(host)

    def _names_us(self, host: bytes) -> bool:
        name = name_in(host)
        return name in self._names or any(each.fullmatch(name) for each in (_NUMERIC, _LOCAL))


def named_app(site: WebContext, make: Callable[[WebContext], AnyApp]) -> AnyApp:
    """The application of one origin, for one name or for all."""
    settings = site.settings
    is_open = settings.host in ANY and not settings.controls_url and not settings.replay_url
    return ByHost(site, make) if is_open else make(site)


class ByHost:
    """An ASGI application that has one for each name. For the thread of the event loop."""

    def __init__(self, site: WebContext, make: Callable[[WebContext], AnyApp]) -> None:
        self._site = site
        self._make = make
        self._usual = make(site)
        self._apps: LruCache[str, AnyApp] = LruCache(NAMES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        name = name_in(host).decode("latin-1")
        app = self._apps.get(name) if name else self._usual
        if app is None:
            app = self._make(self._site.at(name))
            self._apps.put(name, app)
        await app(scope, receive, send)
