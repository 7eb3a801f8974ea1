"""Whether a URL is archived, in the form of the Internet Archive's API: `/wayback/available?url=&timestamp=`.

For checking links by the thousand: one capture of the default collection, or none for whatever reason.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.errors import Blocked, CaptureNotFound, HoldfastError, UsageError
from holdfast.model import Pick
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder
from holdfast.web.request import DEFAULT, archived_url, pick_of, uri
from holdfast.web.server.bounded_scan import in_thread

_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


async def available(site: WebContext, request: Request) -> Response:
    try:
        found = await in_thread(_available, site, *_asked(request), pick_of(request))
    except HoldfastError as error:
        return JSONResponse({"error": str(error)}, error.http_status, _HEADERS)
    return JSONResponse(found, headers=_HEADERS)


def _asked(request: Request) -> tuple[str, str]:
    url, timestamp = request.query_params.get("url", ""), request.query_params.get("timestamp", "")
    if not url:
        raise UsageError("no URL given: send 'url=', and 'timestamp=' for the capture nearest to a time")
    if timestamp and not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 14):
        raise UsageError(f"bad timestamp {timestamp[:40]!r}: give 1 to 14 digits, such as 2020 or 20200102030405")
    return url, timestamp


def _available(site: WebContext, url: str, timestamp: str, pick: Pick | None) -> dict[str, Any]:
    values: dict[str, Any] = {"url": url.encode("utf-8", "replace").decode(), "archived_snapshots": {}}
    if timestamp:
        values["timestamp"] = timestamp
    try:
        found = Finder(site).find(site.collection(DEFAULT), archived_url(url), timestamp, pick)
    except (CaptureNotFound, Blocked):
        return values
    values["archived_snapshots"]["closest"] = {
        "available": True,
        "status": found.status if found.status.isdigit() else "200",
        "timestamp": found.timestamp,
        "url": f"{site.controls_origin}/{DEFAULT}/{found.timestamp}/{uri(found.url)}",
    }
    return values
