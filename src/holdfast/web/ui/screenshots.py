"""Screenshots by crawls with a browser, shown as thumbnails next to their pages.

GET /explore/screenshot/RECORD    the picture as it is kept
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog.access_rules import Verdict
from holdfast.catalog.timestamps import seconds
from holdfast.errors import Blocked, CaptureNotFound, MalformedKey, MalformedQuery
from holdfast.model import Capture, RecordId
from holdfast.query.results import Hit
from holdfast.urls import url_key
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder
from holdfast.web.ui.render import page_headers

VIEW = "urn:view:"  # before the address of the page, in the address of its screenshot
BYTES_MAX = 32 << 20
APART_S_MAX = 3600  # a screenshot of another time says nothing of this capture
_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def screenshot_path(site: WebContext, capture: Capture | Hit) -> str:
    """The address of the screenshot of a capture; empty if there is none, or it is hidden."""
    try:
        found = Finder(site).find(capture.collection, VIEW + capture.url, capture.timestamp)
    except (CaptureNotFound, Blocked, MalformedQuery):
        return ""
    apart_s = abs(seconds(found.timestamp) - seconds(capture.timestamp))
    if apart_s > APART_S_MAX or not found.url.startswith(VIEW) or not found.mime.startswith("image/"):
        return ""
    if not _may_be_seen(site, found):
        return ""
    return f"/explore/screenshot/{found.record}"


async def screenshot(site: WebContext, request: Request) -> Response:
    """The picture. Only screenshots, and only pictures: archived bytes of other types are not served here."""
    return await run_in_threadpool(_picture, site, request.path_params["record"])


def _picture(site: WebContext, name: str) -> Response:
    try:
        capture = site.archive.catalog.capture_of(RecordId.parse(name))
    except MalformedKey:
        capture = None
    if capture is None or not capture.url.startswith(VIEW) or not _may_be_seen(site, capture):
        raise CaptureNotFound(f"no screenshot has the record {name[:80]!r}")
    body = b"" if capture.size > BYTES_MAX else b"".join(site.archive.records.of(capture).stream())
    kind = next((kind for start, kind in _TYPES.items() if body.startswith(start)), None)
    if kind is None:
        raise CaptureNotFound(f"the record {name[:80]!r} is not a picture, or too large to show")
    headers = page_headers(site) | {"Cache-Control": "private, max-age=3600", "Content-Security-Policy": "sandbox"}
    return Response(body, 200, headers, kind)


def _may_be_seen(site: WebContext, capture: Capture) -> bool:
    """Rules for the page hold for its picture, too."""
    url = capture.url.removeprefix(VIEW)
    page = capture._replace(url=url, urlkey=url_key(url))
    return all(site.access.verdict(each) is Verdict.ALLOW for each in (capture, page))
