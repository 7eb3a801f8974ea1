"""A server on all addresses of its machine has as many names: each request is answered under the one it came by.

Addresses of frames, redirects and links must be such that whoever asks can reach them, and the machine does not know
by which of its names that is. So there is an application for each name that requests come by, made when it is first
needed: the same archive, other origins. Where the settings say how the world names the server, there is only one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from holdfast.env.lru import LruCache
from holdfast.web.app import App
from holdfast.web.capture.cache import CachedReply, ReplyCache
from holdfast.web.context import WebContext
from holdfast.web.server.listen import ANY, name_in
from holdfast.web.server.request_cycle import App as AnyApp

NAMES_MAX = 16  # a client can make up any number of addresses; the names asked by last are kept


def named_app(site: WebContext, make: Callable[[WebContext], App]) -> AnyApp:
    """The application of one origin, for one name or for all."""
    settings = site.settings
    is_open = settings.host in ANY and not settings.controls_url and not settings.replay_url
    return ByHost(site, make) if is_open else make(site)


class ByHost:
    """An ASGI application. The server has checked the names before. For the thread of the event loop."""

    def __init__(self, site: WebContext, make: Callable[[WebContext], App]) -> None:
        self._site = site
        self._make = make
        self._usual = make(site)
        self._apps: LruCache[str, App] = LruCache(NAMES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        name = name_in(host).decode("latin-1")
        app = self._apps.get(name) if name else self._usual
        if app is None:
            app = self._make(site_at(self._site, name))
            self._apps.put(name, app)
        await app(scope, receive, send)


def site_at(site: WebContext, name: str) -> WebContext:
    """The same under another host name; both origins keep their ports."""
    ports = [urlsplit(each).port for each in (site.controls_origin, site.replay_origin)]
    controls, replay = (f"http://{name}:{port}" for port in ports)
    if (controls, replay) == (site.controls_origin, site.replay_origin):
        return site
    other = replace(site, controls_origin=controls, replay_origin=replay)
    other.replies = _Part(site.replies, name)
    other.spool, other.streams, other.volumes = site.spool, site.streams, site.volumes  # limits hold for all names
    return other


class _Part(ReplyCache):
    """The replies under one name, in the cache that all names share: pages tell who frames them."""

    def __init__(self, shared: ReplyCache, name: str) -> None:
        super().__init__(0)
        self._shared = shared
        self._name = name

    def get(self, key: Hashable) -> CachedReply | None:
        return self._shared.get((self._name, key))

    def put(self, key: Hashable, reply: CachedReply) -> None:
        self._shared.put((self._name, key), reply)

    def __len__(self) -> int:
        return len(self._shared)
