"""The two applications, one for each origin: what a request is about, and who answers it.

Captures and CDX queries are answered here without further layers, because most requests are of these; the rest goes
through Starlette's routes. Whatever fails on purpose becomes a page or a line with the status that the error carries.
"""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from holdfast.errors import CaptureNotFound, HoldfastError, NotFound, UsageError
from holdfast.replay import api, assets, cdx_server, downloads, memento, operations
from holdfast.replay.asked import Asked, asked
from holdfast.replay.kinds import HTML_TYPES
from holdfast.replay.pages import calendar, compare, crawls, explorer, home, missing, replay_page, searching, static
from holdfast.replay.replaying import Flow, Replayer
from holdfast.replay.replies import Reply
from holdfast.replay.site import Site
from holdfast.replay.target import Target, parse_target, raw_target

log = logging.getLogger("holdfast.replay")

_READING = ("GET", "HEAD")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class App:
    """An ASGI application: what both origins have in common. One in each worker."""

    name = ""

    def __init__(self, site: Site, routes: list[Any], *, on_controls: bool) -> None:
        self._site = site
        self._router = Router(routes=routes, redirect_slashes=False, default=_nothing)
        self._replayer = Replayer(site, on_controls=on_controls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _decline(scope, receive, send)
            return
        started = perf_counter()
        meter = Meter(send)
        kind = "other"
        try:
            kind = await self._serve(scope, receive, meter)
        except HoldfastError as error:
            if error.http_status >= 500:
                log.error("%s %s: %s", scope["method"], scope["raw_path"][:200], error)
            if not meter.status:
                response = missing.error(self._site, Request(scope, receive), error)
                await response(scope, receive, meter)
        finally:
            self._site.counters.observe(kind, meter.status, perf_counter() - started, meter.sent)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Answers, and returns what kind of request it was."""
        if scope["method"] not in _METHODS:
            await PlainTextResponse("method not allowed\n", 405)(scope, receive, send)
            return "other"
        facts = asked(scope)
        target = parse_target(raw_target(scope))
        if target is None:
            return await self._route(scope, receive, send)
        await self._aim(target, facts, scope, receive, send)
        return "raw" if target.modifier == "id_" else target.kind

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> str:
        await self._router(scope, receive, send)
        return "page"

    async def _aim(self, target: Target, facts: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("each origin has its own")

    async def _replay(self, target: Target, facts: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._replayer.answer(target, facts, scope, receive)
        if isinstance(answer, Reply):
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": b"" if facts.method == "HEAD" else answer.body})
        else:
            await _flow(answer, facts, send)


class ControlsApp(App):
    """The origin of the pages with controls, and of the answers for programs. No archived code runs there."""

    def __init__(self, site: Site) -> None:
        offered = (home, searching, static, replay_page, explorer, compare, crawls, api, cdx_server, operations)
        super().__init__(site, [route for module in offered for route in module.routes(site)], on_controls=True)

    async def _aim(self, target: Target, facts: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self._site.tokens.require_read(request)
        if target.kind == "replay" and target.modifier == "id_":
            if facts.method not in _READING:
                raise UsageError(f"method {facts.method} makes no sense here: archived pages are posted to on replay")
            await self._replay(target, facts, scope, receive, send)
            return
        response = await self._respond(target, facts, request)
        await response(scope, receive, send)

    async def _respond(self, target: Target, facts: Asked, request: Request) -> Response:
        site = self._site
        match target.kind:
            case "replay":
                return self._page(target, facts, request)
            case "calendar":
                return await calendar.calendar(site, request, target)
            case "timegate":
                return await memento.timegate(site, request, target)
            case "timemap":
                return await memento.timemap(site, request, target)
            case "cdx":
                return await cdx_server.cdx(site, request, target)
            case "record" | "warc":
                return await downloads.download(site, request, target)
            case _:
                return await self._collection(target, request)

    def _page(self, target: Target, facts: Asked, request: Request) -> Response:
        """The banner for people who look at a page; everything else is on the other origin."""
        if target.modifier:
            return self._elsewhere(target, 307)
        try:
            capture = self._replayer.finder.find(self._site.collection(target.collection), target.url, target.timestamp)
        except CaptureNotFound:
            return missing.not_archived(self._site, request, target)
        if facts.wants_page and capture.mime in HTML_TYPES:
            if capture.timestamp != target.timestamp:
                address = f"{target.prefix}{capture.timestamp}/{target.url}"
                return RedirectResponse(address, 302)
            response = replay_page.banner(self._site, request, target, capture)
            response.raw_headers.extend(memento.headers(self._site, capture, target))
            return response
        return self._elsewhere(target._replace(timestamp=capture.timestamp, modifier="mp_"), 302)

    def _elsewhere(self, target: Target, status: int) -> Response:
        address = f"{target.prefix}{target.timestamp}{target.modifier}/{target.url}"
        return RedirectResponse(self._site.replay_origin + address, status)

    async def _collection(self, target: Target, request: Request) -> Response:
        """As OutbackCDX has it: lines are posted to a collection, and its captures asked of it."""
        if request.method == "POST":
            return await api.post_lines(self._site, request, target)
        if "url" in request.query_params:
            return await cdx_server.cdx(self._site, request, target)
        return await home.collection(self._site, request, target)


class ReplayApp(App):
    """The origin of archived pages: they, the scripts that keep them in, and nothing else."""

    def __init__(self, site: Site) -> None:
        super().__init__(site, assets.routes(site), on_controls=False)

    async def _aim(self, target: Target, facts: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        self._site.tokens.require_ticket(Request(scope, receive))
        if target.kind == "replay" and self._site.has_collection(target.collection):
            modified = target if target.modifier else target._replace(modifier="mp_")
            await self._replay(modified, facts, scope, receive, send)
        else:
            await self._lead_back(facts, scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> str:
        if scope["path"].startswith("/_hf/"):
            await self._router(scope, receive, send)
            return "static"
        await self._lead_back(asked(scope), scope, receive, send)
        return "other"

    async def _lead_back(self, facts: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """An address that is not ours may be one that an archived script made up. Raises CaptureNotFound."""
        stray = self._stray(facts, scope)
        if stray is None:
            raise CaptureNotFound("nothing is here: captures are at /<collection>/<time>mp_/<url>")
        await stray(scope, receive, send)

    def _stray(self, facts: Asked, scope: Scope) -> Response | None:
        """To where an address leads that a script made by itself, by the page that it is on."""
        origin, slash, path = facts.referrer.removeprefix("//").partition("://")[2].partition("/")
        page = parse_target(b"/" + path.encode("utf-8", "surrogateescape")) if origin and slash else None
        if page is None or page.kind != "replay" or origin != facts.host:
            return None
        host = "/".join(page.url.split("/", 3)[:3])
        found = raw_target(scope).decode("utf-8", "surrogateescape")
        return RedirectResponse(f"{page.prefix}{page.timestamp}mp_/{host}{found}", 307)


def controls_app(site: Site) -> ControlsApp:
    return ControlsApp(site)


def replay_app(site: Site) -> ReplayApp:
    return ReplayApp(site)


class Meter:
    """Passes an answer on, and remembers its status and its bytes."""

    __slots__ = ("_send", "sent", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.sent = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)


async def _flow(flow: Flow, facts: Asked, send: Send) -> None:
    await send({"type": "http.response.start", "status": flow.status, "headers": flow.headers})
    if facts.method != "HEAD":
        async for piece in iterate_in_threadpool(flow.pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound(f"nothing is at {scope['path'][:200]!r}")


async def _decline(scope: Scope, receive: Receive, send: Send) -> None:
    """Neither web sockets nor anything else but HTTP."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
    elif scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
