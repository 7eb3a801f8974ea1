"""The two applications, one for each origin: what a request is about, and who answers it.

Captures and CDX queries are answered here without further layers, because most requests are of these; the rest goes
through Starlette's routes. Whatever fails on purpose becomes a page or a line with the status that the error carries.
"""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from holdfast.errors import CaptureNotFound, Denied, HoldfastError, NotFound, UsageError
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Pick
from holdfast.web import api, runtime
from holdfast.web.capture import downloads
from holdfast.web.capture.cache import CachedReply
from holdfast.web.capture.find import shown_at
from holdfast.web.capture.render import Flow, Header, Replayer
from holdfast.web.cdx import server
from holdfast.web.context import WebContext
from holdfast.web.memento import availability, memento
from holdfast.web.operations import metrics
from holdfast.web.request import SERVICE_WORKER, RequestInfo, RequestTargetPath, asked, parse_target, raw_target
from holdfast.web.server.request_cycle import WHOLE
from holdfast.web.stream import stream
from holdfast.web.ui import calendar, compare, crawls, explore, home, not_found, replay, search, static_files, volumes

log = logging.getLogger("holdfast.web")

_READING = ("GET", "HEAD")
_POLICY = b"content-security-policy"
_ROBOTS = "/robots.txt"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SOUGHT = frozenset(("replay", "raw", "calendar", "timegate", "timemap"))  # what is about captures of a URL
_KINDS = {
    **dict.fromkeys(("api", "openapi.json", "wayback"), "api"),
    **dict.fromkeys(("health", "status", "metrics"), "operations"),
    **dict.fromkeys(("static", "favicon.ico"), "static"),
    **dict.fromkeys(("cdx", "collinfo.json"), "cdx"),
}


class App:
    """An ASGI application: what both origins have in common. One in each worker."""

    def __init__(self, site: WebContext, routes: list[Any], *, on_controls: bool) -> None:
        self._site = site
        self._router = Router(routes=routes, redirect_slashes=False, default=_nothing)
        self._replayer = Replayer(site, on_controls=on_controls)
        self._replayer.finder.note_fuzzy = lambda: site.counters.add("fuzzy_matches")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _decline(scope, receive, send)
            return
        started = perf_counter()
        meter = Meter(send)
        try:
            await self._serve(scope, receive, meter)
        except HoldfastError as error:
            if type(error) is CaptureNotFound and meter.kind in _SOUGHT:
                meter.kind = "missing"
            if error.http_status >= 500:
                log.error("%s %s: %s", scope["method"], scope["raw_path"][:200], error)
            if not meter.status:
                response = not_found.error(self._site, Request(scope, receive), error)
                await response(scope, receive, meter)
        except (ClientDisconnect, ClientDisconnected):
            raise
        except Exception:
            meter.status = meter.status or 500  # which the server answers
            raise
        finally:
            self._count(meter, scope, perf_counter() - started)

    def _count(self, meter: Meter, scope: Scope, seconds: float) -> None:
        """Once for each request; those that are refused before they come here are counted where that is done."""
        sent = meter.sent if scope["method"] != "HEAD" else 0
        self._site.counters.observe(meter.kind, meter.status, seconds, sent)
        if meter.kind == "missing":
            self._site.counters.add("captures_missing")

    async def _serve(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        """Answers, and notes what kind of request it was."""
        if scope["method"] not in _METHODS:
            await PlainTextResponse("method not allowed\n", 405)(scope, receive, meter)
            return
        facts = asked(scope)
        target = parse_target(raw_target(scope))
        if target is None:
            await self._route(scope, receive, meter)
            return
        if facts.pick and target.pick is None:
            target = target._replace(pick=Pick.parse(facts.pick.strip()))
        meter.kind = "raw" if target.modifier == "id_" else target.kind
        await self._aim(target, facts, scope, receive, meter)

    async def _route(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        meter.kind = _KINDS.get(scope["path"][1:].partition("/")[0], "page")
        await self._router(scope, receive, meter)

    async def _aim(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        raise AssertionError("each origin has its own")

    async def _replay(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = await self._replayer.answer(target, facts, scope, receive)
        if isinstance(answer, CachedReply):
            await _send_whole(answer.status, answer.headers, answer.body, scope, send)
        else:
            await _flow(answer, facts, send)


class ControlsApp(App):
    """The origin of the pages with controls, and of the answers for programs. No archived code runs there."""

    def __init__(self, site: WebContext) -> None:
        pages = (home, search, static_files, replay, explore, compare, crawls, volumes)
        offered = (*pages, api, availability, server, metrics)
        routes = [route for module in offered for route in module.routes(site)]
        own = [Route("/favicon.ico", _favicon), Route(_ROBOTS, _robots)]
        super().__init__(site, [*routes, *own], on_controls=True)

    async def _aim(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        request = Request(scope, receive)
        self._site.tokens.require_read(request)
        if target.kind == "replay" and target.modifier == "id_":
            if facts.method not in _READING:
                raise UsageError(f"method {facts.method} makes no sense here: archived pages are posted to on replay")
            await self._replay(target, facts, scope, receive, meter)
            return
        response = await self._respond(target, facts, request)
        if response.status_code == 404 and target.kind in _SOUGHT:
            meter.kind = "missing"
        elif target.kind == "replay" and response.status_code == 200:
            meter.kind = "banner"
        if type(response) is Response and response.background is None:
            await _send_whole(response.status_code, response.raw_headers, bytes(response.body), scope, meter)
        else:
            await response(scope, receive, meter)

    async def _respond(self, target: RequestTargetPath, facts: RequestInfo, request: Request) -> Response:
        site = self._site
        match target.kind:
            case "replay":
                return self._page(target, facts, request)
            case "calendar":
                return await calendar.calendar_page(site, request, target)
            case "timegate":
                return await memento.timegate(site, request, target)
            case "timemap":
                return await memento.timemap(site, request, target)
            case "cdx":
                return await server.cdx(site, request, target)
            case "record" | "warc":
                return await downloads.download(site, request, target)
            case "stream":
                return await stream.stream(site, request, target)
            case "odd":
                site.collection(target.collection)
                raise UsageError(target.fault)
            case "delete" if request.method == "POST":
                return await api.post_lines(site, request, target)
            case "delete":
                raise UsageError("lines of CDX that are to go are sent by POST")
            case _:
                return await self._collection(target, request)

    def _page(self, target: RequestTargetPath, facts: RequestInfo, request: Request) -> Response:
        """The banner for people who look at a page; everything else is on the other origin."""
        if target.modifier:
            return self._elsewhere(target, 307)
        response = self._framed(target, facts, request)
        response.raw_headers.append((b"vary", b"accept"))
        return response

    def _framed(self, target: RequestTargetPath, facts: RequestInfo, request: Request) -> Response:
        try:
            collection = self._site.collection(target.collection)
            capture = self._replayer.finder.find(collection, target.url, target.timestamp, target.pick)
        except CaptureNotFound as error:
            return not_found.not_archived(self._site, request, target, error)
        date, links = memento.headers(self._site, capture, target)
        time = shown_at(self._site, target, capture)
        if facts.wants_page and capture.mime in HTML_TYPES:
            if time == target.timestamp:
                response = replay.banner(self._site, request, target, capture)
                response.raw_headers += (date, links)
                return response
            response = RedirectResponse(f"{target.prefix}{time}/{target.url}", 302)
        else:
            response = self._elsewhere(target._replace(timestamp=time, modifier="mp_"), 302)
        response.raw_headers.append(links)  # without the date: what redirects is no memento
        return response

    def _elsewhere(self, target: RequestTargetPath, status: int) -> Response:
        address = f"{target.prefix}{target.timestamp}{target.modifier}/{target.url}"
        return RedirectResponse(self._site.replay_origin + address, status)

    async def _collection(self, target: RequestTargetPath, request: Request) -> Response:
        """As OutbackCDX has it: lines are posted to a collection, and its captures asked of it."""
        if request.method == "POST":
            return await api.post_lines(self._site, request, target)
        if "url" in request.query_params:
            return await server.cdx(self._site, request, target)
        return await home.collection(self._site, request, target)


class ReplayApp(App):
    """The origin of archived pages: they, the scripts that keep them in, and nothing else."""

    def __init__(self, site: WebContext) -> None:
        super().__init__(site, runtime.routes(site), on_controls=False)

    async def _aim(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        self._site.tokens.require_ticket(Request(scope, receive))
        if facts.dest == SERVICE_WORKER:  # it would answer for pages, with whatever it liked
            raise Denied("archived pages have no service worker but the archive's own")
        if target.kind == "replay" and self._site.has_collection(target.collection):
            modified = target if target.modifier else target._replace(modifier="mp_")
            await self._replay(modified, facts, scope, receive, meter)
        elif target.kind == "odd" and self._site.has_collection(target.collection):
            raise UsageError(target.fault)
        else:
            await self._lead_back(facts, scope, receive, meter)

    async def _route(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        if scope["path"].startswith("/_hf/"):
            meter.kind = "static"
            await self._router(scope, receive, meter)
        else:
            await self._lead_back(asked(scope), scope, receive, meter)

    async def _lead_back(self, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter) -> None:
        """An address that is not ours may be one that an archived script made up. Raises CaptureNotFound."""
        meter.kind = "stray"
        stray = self._stray(facts, scope)
        if stray is None and scope["path"] == _ROBOTS:
            stray = await _robots(Request(scope))
        if stray is None:
            raise CaptureNotFound("nothing is here: captures are at /<collection>/<time>mp_/<url>")
        await stray(scope, receive, meter)

    def _stray(self, facts: RequestInfo, scope: Scope) -> Response | None:
        """To where an address leads that a script made by itself, by the page that it is on."""
        origin, slash, path = facts.referrer.removeprefix("//").partition("://")[2].partition("/")
        page = parse_target(b"/" + path.encode("utf-8", "surrogateescape")) if origin and slash else None
        if page is None or page.kind != "replay" or origin != facts.host:
            return None
        host = "/".join(page.url.split("/", 3)[:3])
        found = raw_target(scope).decode("utf-8", "surrogateescape")
        return RedirectResponse(f"{page.prefix}{page.timestamp}mp_/{host}{found}", 307)


def controls_app(site: WebContext) -> ControlsApp:
    return ControlsApp(site)


def replay_app(site: WebContext) -> ReplayApp:
    return ReplayApp(site)


class Meter:
    """Passes an answer on, and remembers what for the counters: of what kind it is, its status and its bytes.

    Answers that have no policy of their own, such as lines of text, get one that lets nothing in them load or run. Not
    304: it says nothing of its own, and would replace the policy of what the browser has kept.
    """

    __slots__ = ("_send", "kind", "sent", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.kind = "other"
        self.status = 0
        self.sent = 0

    async def __call__(self, message: Message) -> None:
        if "status" in message:
            self.status = message["status"]
            if self.status != 304 and not any(name == _POLICY for name, _ in message.get("headers", ())):
                message["headers"] = [*message.get("headers", ()), (_POLICY, b"default-src 'none'")]
        if "body" in message:
            self.sent += len(message["body"])
        await self._send(message)


async def _send_whole(status: int, headers: list[Header], body: bytes, scope: Scope, send: Send) -> None:
    """An answer of which everything is there: in one message where the server knows that."""
    if WHOLE in scope.get("extensions", ()):
        await send({"type": WHOLE, "status": status, "headers": headers, "body": body})
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _flow(flow: Flow, facts: RequestInfo, send: Send) -> None:
    await send({"type": "http.response.start", "status": flow.status, "headers": flow.headers})
    if facts.method != "HEAD":
        async for piece in iterate_in_threadpool(flow.pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _favicon(request: Request) -> Response:
    """For those who do not read the page first."""
    request.scope["path_params"] = {"name": "icon.svg"}
    return await static_files.serve_static(request)


async def _robots(request: Request) -> Response:
    """An archive is no source of its own: search engines would show its copies beside the originals."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


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
