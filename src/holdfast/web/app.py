"""The two applications, one per origin: they route requests to modules.

Captures and CDX queries, the bulk of requests, are dispatched directly; the rest goes through Starlette's routes. An
error of Holdfast becomes a page or a line of text with its HTTP status.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from holdfast.errors import CaptureNotFound, Denied, HoldfastError, NotFound, UsageError
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Pick, RecordId
from holdfast.urls import parse_page_id, registered_domain
from holdfast.web.api import openapi, operations
from holdfast.web.api.cdx import server
from holdfast.web.api.stream import stream
from holdfast.web.api.write import write
from holdfast.web.context import WebContext
from holdfast.web.memento import availability, memento, timemap
from holdfast.web.replay import downloads
from holdfast.web.replay.cache import CachedReply
from holdfast.web.replay.csp import Header
from holdfast.web.replay.find import shown_at
from holdfast.web.replay.render import Flow, Replayer
from holdfast.web.request import (
    READING,
    SERVICE_WORKER,
    RequestInfo,
    RequestTargetPath,
    archived_url,
    parse_target,
    raw_target,
    request_info,
)
from holdfast.web.rewrite import runtime
from holdfast.web.server.bounded_scan import in_thread
from holdfast.web.server.connection import ClientDisconnected
from holdfast.web.ui import screenshots, static_files
from holdfast.web.ui.pages import (
    banner,
    calendar,
    compare,
    crawls,
    explore,
    home,
    nodes,
    not_found,
    search,
    studies,
    volumes,
)

log = logging.getLogger("holdfast.web")

_POLICY = b"content-security-policy"
_ROBOTS = "/robots.txt"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_SOUGHT = frozenset(("replay", "raw", "calendar", "timegate", "timemap"))  # kinds that concern captures of a URL
_OF_ONE_URL = frozenset(
    ("/compare", "/api/compare", "/api/coherence", "/api/nearest", "/api/near", "/wayback/available")
)
_RECORD_PATH = re.compile(r"/api/captures/([^/]+)(?:/payload)?$")
_PAGE_PATH = re.compile(r"/api/pages/([^/]+)")
_KINDS = {
    **dict.fromkeys(("api", "openapi.json", "wayback"), "api"),
    **dict.fromkeys(("health", "status", "metrics"), "operations"),
    **dict.fromkeys(("static", "favicon.ico"), "static"),
    **dict.fromkeys(("cdx", "collinfo.json"), "cdx"),
}


class App(ABC):
    """An ASGI application: what both origins have in common. One in each worker."""

    def __init__(self, site: WebContext, routes: list[Any], *, on_controls: bool) -> None:
        self._site = site
        self._on_controls = on_controls
        self._router = Router(routes=routes, redirect_slashes=False, default=_nothing)
        self._replayer = Replayer(site, on_controls=on_controls)
        self._replayer.finder.note_fuzzy = lambda: site.counters.add("fuzzy_matches")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            else:
                meter.status = 500  # the response is cut off
        except (ClientDisconnect, ClientDisconnected):
            raise
        except Exception:
            meter.status = 500  # sent by the server, or the response is cut off
            raise
        finally:
            self._count(meter, scope, perf_counter() - started)

    def _count(self, meter: Meter, scope: Scope, seconds: float) -> None:
        """Called once for each request. Requests that the server refuses are counted there."""
        sent = meter.sent if scope["method"] != "HEAD" else 0
        self._site.counters.observe(meter.kind, meter.status, seconds, sent)
        if meter.kind == "missing":
            self._site.counters.add("captures_missing")

    async def _serve(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        """Responds, and notes the kind of request."""
        if scope["method"] not in _METHODS:
            await PlainTextResponse("method not allowed\n", 405)(scope, receive, meter)
            return
        facts = request_info(scope)
        target = parse_target(raw_target(scope))
        if target is None:
            await self._route(scope, receive, meter)
            return
        if facts.pick and target.pick is None:
            target = target._replace(pick=Pick.parse(facts.pick.strip()))
        meter.kind = "raw" if target.modifier == "id_" else target.kind
        await self._handle(target, facts, scope, receive, meter)

    async def _route(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        meter.kind = _KINDS.get(scope["path"][1:].partition("/")[0], "page")
        await self._router(scope, receive, meter)

    @abstractmethod
    async def _handle(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        """Responds to a request about a collection, as this origin does."""

    async def _forwarded(self, target: RequestTargetPath, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether another node has responded: the one that serves the URL (H8)."""
        site = self._site
        if site.forwarder is None:
            return False
        if target.kind == "record":
            url = await in_thread(site.answers.url_of, RecordId.parse(target.url.partition("?")[0])) or ""
        else:
            url = _routed_url(target, scope)
            if target.kind == "warc" and not url:
                raise UsageError("in a cluster, WARCs are of one registered domain at a time: give it as 'url'")
        return await self._forward(url, scope, receive, send)

    async def _forward(self, url: str, scope: Scope, receive: Receive, send: Send) -> bool:
        site = self._site
        if site.forwarder is None or not url:
            return False
        app = "controls" if self._on_controls else "replay"
        return await site.forwarder.forward(url, app, site.origins, scope, receive, send)

    async def _replay(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = await self._replayer.answer(target, facts, scope, receive)
        if isinstance(answer, CachedReply):
            await _send_whole(answer.status, answer.headers, answer.body, send)
        else:
            await _flow(answer, facts, send)


Page = Callable[[WebContext, Request], Awaitable[Response]]
_TO_READ: dict[str, Page] = {  # for those who may read
    "/": home.home,
    "/search": search.search,
    "/explore": explore.explore,
    "/explore/screenshot/{record}": screenshots.screenshot,
    "/compare": compare.compare_page,
    "/crawls": crawls.overview,
    "/crawls/{name}": crawls.one,
    "/studies": studies.overview,
    "/studies/{name}": studies.one,
    "/studies/{name}/{file}": studies.file,
    "/nodes": nodes.nodes,
    "/volumes": volumes.volumes,
    "/status": operations.status_page,
    "/metrics": operations.metrics_page,
    "/openapi.json": openapi.description,
    **dict.fromkeys(("/api", "/api/", "/api/docs"), openapi.docs),
    "/api/near": banner.near_api,
    "/cdx/search/cdx": server.archive_form,
    "/collinfo.json": server.collections,
    "/wayback/available": availability.available,
}


def _bound(site: WebContext, page: Page, *, needs_token: bool = True) -> Callable[[Request], Awaitable[Response]]:
    """The page of one site, as a route wants it."""

    async def respond(request: Request) -> Response:
        if needs_token:
            site.tokens.require_read(request)
        return await page(site, request)

    return respond


def _control_routes(site: WebContext) -> list[Route]:
    methods = {"/cdx/search/cdx": ["GET", "POST"]}
    return [
        *(Route(path, _bound(site, page), methods=methods.get(path)) for path, page in _TO_READ.items()),
        Route("/crawls", _bound(site, crawls.start, needs_token=False), methods=["POST"]),  # it needs one to write
        Route("/crawls/{name}/stop", _bound(site, crawls.stop, needs_token=False), methods=["POST"]),
        Route("/health", _bound(site, operations.health, needs_token=False)),
        *(Route(path, static_files.serve_static) for path in ("/static/{name}", "/favicon.ico")),
        Route(_ROBOTS, _robots),
        *openapi.routes(site),
    ]


class ControlsApp(App):
    """The origin of the pages with controls, and of the interfaces for programs. No archived code runs there."""

    def __init__(self, site: WebContext) -> None:
        super().__init__(site, _control_routes(site), on_controls=True)

    async def _route(self, scope: Scope, receive: Receive, meter: Meter) -> None:
        if self._site.is_clustered and scope["method"] in READING:
            meter.kind = _KINDS.get(scope["path"][1:].partition("/")[0], "page")
            url = await self._page_url(scope)
            if url:
                self._site.tokens.require_read(Request(scope, receive))
                if await self._forward(url, scope, receive, meter):
                    return
        await super()._route(scope, receive, meter)

    async def _page_url(self, scope: Scope) -> str:
        """The one URL that a page or an endpoint of the API is about; empty if it is about none, or several."""
        path: str = scope["path"]
        if path in _OF_ONE_URL:
            return archived_url(parse_qs(scope["query_string"].decode("latin-1")).get("url", [""])[0])
        try:
            if found := _RECORD_PATH.match(path):
                return await in_thread(self._site.answers.url_of, RecordId.parse(found[1])) or ""
            if found := _PAGE_PATH.fullmatch(path):
                return await in_thread(self._site.answers.url_of, None, parse_page_id(found[1])) or ""
        except UsageError:  # the endpoint reports it
            pass
        return ""

    async def _handle(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        request = Request(scope, receive)
        self._site.tokens.require_read(request)
        if await self._forwarded(target, scope, receive, meter):
            return
        if target.kind == "replay" and target.modifier == "id_":
            if facts.method not in READING:
                raise UsageError(
                    f"method {facts.method} is not allowed here: archived pages take it on the replay origin"
                )
            await self._replay(target, facts, scope, receive, meter)
            return
        response = await self._respond(target, facts, request)
        if response.status_code == 404 and target.kind in _SOUGHT:
            meter.kind = "missing"
        elif target.kind == "replay" and response.status_code == 200:
            meter.kind = "banner"
        if type(response) is Response and response.background is None:
            await _send_whole(response.status_code, response.raw_headers, bytes(response.body), meter)
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
                return await timemap.timemap(site, request, target)
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
                return await write.post_lines(site, request, target)
            case "delete":
                raise UsageError("send the lines of CDX to delete by POST")
            case _:
                return await self._collection(target, request)

    def _page(self, target: RequestTargetPath, facts: RequestInfo, request: Request) -> Response:
        """The banner for people who view a page; everything else is on the other origin."""
        if target.modifier:
            return self._elsewhere(target, 307)
        response = self._framed(target, facts, request)
        response.raw_headers.append((b"vary", b"accept"))
        return response

    def _framed(self, target: RequestTargetPath, facts: RequestInfo, request: Request) -> Response:
        try:
            capture = self._replayer.finder.find_target(target)
        except CaptureNotFound as error:
            return not_found.not_archived(self._site, request, target, error)
        date, links = memento.headers(self._site, capture, target)
        time = shown_at(self._site, target, capture)
        if facts.wants_page and capture.mime in HTML_TYPES:
            if time == target.timestamp:
                response = banner.banner(self._site, request, target, capture)
                response.raw_headers += (date, links)
                return response
            response = RedirectResponse(f"{target.prefix}{time}/{target.url}", 302)
        else:
            response = self._elsewhere(target._replace(timestamp=time, modifier="mp_"), 302)
        response.raw_headers.append(links)  # without the date: a redirect is not a memento
        return response

    def _elsewhere(self, target: RequestTargetPath, status: int) -> Response:
        address = f"{target.prefix}{target.timestamp}{target.modifier}/{target.url}"
        return RedirectResponse(self._site.replay_origin + address, status)

    async def _collection(self, target: RequestTargetPath, request: Request) -> Response:
        """As with OutbackCDX: lines are posted to a collection, and captures queried from it."""
        if request.method == "POST":
            return await write.post_lines(self._site, request, target)
        if "url" in request.query_params:
            return await server.cdx(self._site, request, target)
        return await home.collection(self._site, request, target)


class ReplayApp(App):
    """The origin of archived pages and of the scripts that contain them; nothing else."""

    def __init__(self, site: WebContext) -> None:
        scripts = Route("/_hf/{name}", _bound(site, runtime.serve_runtime, needs_token=False))
        super().__init__(site, [scripts], on_controls=False)

    async def _handle(
        self, target: RequestTargetPath, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter
    ) -> None:
        self._site.tokens.require_ticket(Request(scope, receive))
        if facts.dest == SERVICE_WORKER:  # it could answer any request of a page
            raise Denied("archived pages cannot register a service worker")
        if target.kind == "replay" and self._site.has_collection(target.collection):
            if await self._forwarded(target, scope, receive, meter):
                return
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
            await self._lead_back(request_info(scope), scope, receive, meter)

    async def _lead_back(self, facts: RequestInfo, scope: Scope, receive: Receive, meter: Meter) -> None:
        """Redirects an unknown address that an archived script may have built. Raises CaptureNotFound."""
        meter.kind = "stray"
        stray = self._stray(facts, scope)
        if stray is None and scope["path"] == _ROBOTS:
            stray = await _robots(Request(scope))
        if stray is None:
            raise CaptureNotFound("nothing is here: captures are at /<collection>/<time>mp_/<url>")
        await stray(scope, receive, meter)

    def _stray(self, facts: RequestInfo, scope: Scope) -> Response | None:
        """Where an address built by an archived script leads, judged by the page in `Referer`."""
        origin, slash, path = facts.referrer.removeprefix("//").partition("://")[2].partition("/")
        page = parse_target(b"/" + path.encode("utf-8", "surrogateescape")) if origin and slash else None
        if page is None or page.kind != "replay" or origin != facts.host:
            return None
        host = "/".join(page.url.split("/", 3)[:3])
        found = raw_target(scope).decode("utf-8", "surrogateescape")
        return RedirectResponse(f"{page.prefix}{page.timestamp}mp_/{host}{found}", 307)


def _routed_url(target: RequestTargetPath, scope: Scope) -> str:
    """The URL that a request is about; empty if it is about several, or none."""
    if target.kind in _SOUGHT:
        return "" if target.kind == "calendar" and calendar.is_pattern(target.url) else target.url
    if target.kind in ("cdx", "warc") or (target.kind == "collection" and scope["method"] in READING):
        return _one_site(parse_qs(scope["query_string"].decode("latin-1")))
    return ""


def _one_site(params: dict[str, list[str]]) -> str:
    """The URL of a query that concerns one registered domain, which one node answers; else empty."""
    url, match = params.get("url", [""])[0], params.get("matchType", [""])[0]
    if "toUrl" in params or match not in ("", "exact", "prefix", "host", "domain"):
        return ""
    if match == "domain" or (not match and url.startswith("*.")):
        host = url.removeprefix("*.").removesuffix("/*")
        is_wide = "/" in host or registered_domain(f"x.{host}") != registered_domain(host)
        return "" if is_wide else archived_url(host)
    return archived_url(url.removesuffix("*"))


class Meter:
    """Forwards a response, and records its kind, status and size for the counters.

    A response without a content security policy, such as lines of text, gets one that lets nothing load or run. Not
    304: its policy would replace that of the cached response.
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


async def _send_whole(status: int, headers: list[Header], body: bytes, send: Send) -> None:
    """Sends a complete response. The server adds its length and sends it in one write."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _flow(flow: Flow, facts: RequestInfo, send: Send) -> None:
    await send({"type": "http.response.start", "status": flow.status, "headers": flow.headers})
    if facts.method != "HEAD":
        async for piece in iterate_in_threadpool(flow.pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _robots(request: Request) -> Response:
    """Keeps search engines from listing archived copies."""
    return PlainTextResponse("User-agent: *\nDisallow: /\n")


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound(f"nothing is at {scope['path'][:200]!r}")
