"""Whether a URL is archived, as the Internet Archive's API tells it: `/wayback/available?url=&timestamp=`.

Made for links that people check by the thousand: one capture of the default collection or none, whatever the reason.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.errors import Blocked, CaptureNotFound, HoldfastError, UsageError
from holdfast.model import Pick
from holdfast.web.bounded_scan import in_thread
from holdfast.web.capture.find import Finder
from holdfast.web.context import WebContext
from holdfast.web.memento.links import uri
from holdfast.web.request import DEFAULT, archived_url, pick_of

_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def routes(site: WebContext) -> list[Route]:
    finder = Finder(site)

    async def available(request: Request) -> Response:
        site.tokens.require_read(request)
        try:
            told = await in_thread(_available, site, finder, *_asked(request), pick_of(request))
        except HoldfastError as error:
            return JSONResponse({"error": str(error)}, error.http_status, _HEADERS)
        return JSONResponse(told, headers=_HEADERS)

    return [Route("/wayback/available", available)]


def _asked(request: Request) -> tuple[str, str]:
    url, timestamp = request.query_params.get("url", ""), request.query_params.get("timestamp", "")
    if not url:
        raise UsageError("no URL given: ask with 'url=', and 'timestamp=' for the capture nearest to a time")
    if timestamp and not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 14):
        raise UsageError(f"bad timestamp {timestamp[:40]!r}: give 1 to 14 digits, such as 2020 or 20200102030405")
    return url, timestamp


def _available(site: WebContext, finder: Finder, url: str, timestamp: str, pick: Pick | None) -> dict[str, Any]:
    told: dict[str, Any] = {"url": url.encode("utf-8", "replace").decode(), "archived_snapshots": {}}
    if timestamp:
        told["timestamp"] = timestamp
    try:
        found = finder.find(site.collection(DEFAULT), archived_url(url), timestamp, pick)
    except (CaptureNotFound, Blocked):
        return told
    told["archived_snapshots"]["closest"] = {
        "available": True,
        "status": found.status if found.status.isdigit() else "200",
        "timestamp": found.timestamp,
        "url": f"{site.controls_origin}/{DEFAULT}/{found.timestamp}/{uri(found.url)}",
    }
    return told
