"""Memento (RFC 7089): every capture states its time and links to its neighbours; the TimeGate leads to them.

    original    the URL itself                          URI-R
    timegate    <controls>/<coll>/timegate/<url>        URI-G   302 to the memento for `Accept-Datetime`
    timemap     <controls>/<coll>/timemap/link/<url>    URI-T   all mementos (`timemap`)
    memento     <controls>/<coll>/<14 digits>/<url>     URI-M   a page for people; a redirect for programs

Addresses are on the origin with the controls, whichever origin serves the capture.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog.timestamps import http_date
from holdfast.errors import CaptureNotFound, UsageError
from holdfast.model import Capture
from holdfast.web.context import WebContext
from holdfast.web.replay.find import SHOWN, Finder, shown_at
from holdfast.web.request import PICK, RequestTargetPath, require_reading, uri

_EMBEDDED = frozenset(("js_", "cs_", "im_", "oe_"))
_VARY = (b"vary", f"accept-datetime, {PICK}".encode())
Header = tuple[bytes, bytes]


def headers(site: WebContext, capture: Capture, target: RequestTargetPath) -> list[Header]:
    """`Memento-Datetime` and `Link` of a capture. Parts of pages, such as a logo, get no neighbours."""
    date = (b"memento-datetime", http_date(capture.timestamp).encode())
    if target.modifier in _EMBEDDED:
        short = f"{_places(site, target, capture.url)}, {_memento(site, target, capture, 'memento')}"
        return [date, (b"link", short.encode("latin-1"))]
    if not site.access.is_open:  # visibility may change with time
        return [date, (b"link", _links(site, capture, target))]
    key = (capture.record, target.collection, site.controls_origin, site.archive.catalog.changes)
    links = site.links.get(key)
    if links is None:
        links = _links(site, capture, target)
        site.links.put(key, links)
    return [date, (b"link", links)]


def _links(site: WebContext, capture: Capture, target: RequestTargetPath) -> bytes:
    return f"{_places(site, target, capture.url)}, {_neighbours(site, target, capture)}".encode("latin-1")


def _wanted(site: WebContext) -> Callable[[Capture], bool]:
    """A filter for mementos that are not excluded."""
    permits = site.permits
    return lambda capture: capture.type in SHOWN and (permits is None or permits(capture))


def _places(site: WebContext, target: RequestTargetPath, url: str) -> str:
    """Links that are the same for all mementos of a URL."""
    address, here = uri(url), f"{site.controls_origin}/{target.collection}"
    return (
        f'<{address}>; rel="original", <{here}/timegate/{address}>; rel="timegate", '
        f'<{here}/timemap/link/{address}>; rel="timemap"; type="application/link-format"'
    )


def _memento(site: WebContext, target: RequestTargetPath, capture: Capture, relation: str) -> str:
    place = f"{site.controls_origin}/{target.collection}/{capture.timestamp}/{uri(capture.url)}"
    return f'<{place}>; rel="{relation}"; datetime="{http_date(capture.timestamp)}"'


def _neighbours(site: WebContext, target: RequestTargetPath, capture: Capture) -> str:
    """A neighbour that is also the first or the last is named once, with both relations."""
    collection = site.collection(target.collection)
    first, previous, following, last = site.archive.catalog.neighbours(capture, collection, _wanted(site))
    links = []
    if previous is not None:
        is_first = first.timestamp == previous.timestamp
        if not is_first:
            links.append(_memento(site, target, first, "first memento"))
        links.append(_memento(site, target, previous, "first prev memento" if is_first else "prev memento"))
    own = ("" if previous else "first ") + ("" if following else "last ") + "memento"
    links.append(_memento(site, target, capture, own))
    if following is not None:
        is_last = last.timestamp == following.timestamp
        links.append(_memento(site, target, following, "next last memento" if is_last else "next memento"))
        if not is_last:
            links.append(_memento(site, target, last, "last memento"))
    return ", ".join(links)


async def timegate(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """302 to the memento for the accepted time, or to the newest. Raises UsageError, Blocked."""
    require_reading(request, "a TimeGate")
    timestamp = _accepted(request.headers.get("accept-datetime", ""))
    try:
        capture = Finder(site).find(site.collection(target.collection), target.url, timestamp, target.pick)
    except CaptureNotFound as error:
        return _not_archived(site, request, target._replace(timestamp=timestamp), error)
    time = shown_at(site, target._replace(timestamp=timestamp), capture)
    place = f"{site.controls_origin}{target.prefix}{time}/{uri(capture.url)}"
    links = f"{_places(site, target, target.url)}, {_neighbours(site, target, capture)}"
    response = Response(status_code=302, headers={"location": place})
    response.raw_headers += [_VARY, (b"link", links.encode("latin-1"))]
    return response


def _accepted(text: str) -> str:
    """The time as 14 digits; empty if none was given. Raises UsageError."""
    if not text.strip():
        return ""
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        raise UsageError(
            f"malformed Accept-Datetime {text[:80]!r}: give a date such as 'Thu, 31 May 2007 20:35:00 GMT'"
        ) from None
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S").rjust(14, "0")


def _not_archived(site: WebContext, request: Request, target: RequestTargetPath, error: CaptureNotFound) -> Response:
    from holdfast.web.ui.pages import not_found

    response = not_found.not_archived(site, request, target, error)
    response.raw_headers += [_VARY, (b"link", _places(site, target, target.url).encode("latin-1"))]
    return response
