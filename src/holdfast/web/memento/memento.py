"""Memento (RFC 7089): every capture says when it was made and where its neighbours are; the TimeGate leads to them.

    original    the URL itself                          URI-R
    timegate    <controls>/<coll>/timegate/<url>        URI-G   302 to the memento for `Accept-Datetime`
    timemap     <controls>/<coll>/timemap/link/<url>    URI-T   all mementos (`timemaps`)
    memento     <controls>/<coll>/<14 digits>/<url>     URI-M   a page for people; programs are led to the capture

Addresses are those of the origin with the controls, whichever origin a capture is served from.
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
from holdfast.web.capture.find import SHOWN, Finder, shown_at
from holdfast.web.context import WebContext
from holdfast.web.memento import timemaps
from holdfast.web.memento.links import uri
from holdfast.web.request import PICK, RequestTargetPath

_EMBEDDED = frozenset(("js_", "cs_", "im_", "oe_"))
_VARY = (b"vary", f"accept-datetime, {PICK}".encode())
_READING = ("GET", "HEAD")
Header = tuple[bytes, bytes]

timemap = timemaps.timemap


def headers(site: WebContext, capture: Capture, target: RequestTargetPath) -> list[Header]:
    """`Memento-Datetime` and `Link` of a capture. Parts of pages get no neighbours: nobody asks for those of a logo."""
    date = (b"memento-datetime", http_date(capture.timestamp).encode())
    if target.modifier in _EMBEDDED:
        short = f"{_places(site, target, capture.url)}, {_memento(site, target, capture, 'memento')}"
        return [date, (b"link", short.encode("latin-1"))]
    if not site.access.is_open:  # what may be seen changes with the time
        return [date, (b"link", _links(site, capture, target))]
    key = (capture.record, target.collection)
    links = site.links.get(key, site.archive.catalog.changes)
    if links is None:
        links = _links(site, capture, target)
        site.links.put(key, links)
    return [date, (b"link", links)]


def _links(site: WebContext, capture: Capture, target: RequestTargetPath) -> bytes:
    return f"{_places(site, target, capture.url)}, {_neighbours(site, target, capture)}".encode("latin-1")


def wanted(site: WebContext) -> Callable[[Capture], bool]:
    """Whether a capture is a memento that may be known to exist."""
    if site.access.is_open:
        return _is_shown
    permits = site.access.permits
    return lambda capture: capture.type in SHOWN and permits(capture)


def _is_shown(capture: Capture) -> bool:
    return capture.type in SHOWN


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
    first, previous, following, last = site.archive.catalog.neighbours(capture, collection, wanted(site))
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


# -- TimeGate -------------------------------------------------------------------------------------------------------


async def timegate(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """302 to the memento that stands for the time that is accepted, or to the newest. Raises UsageError, Blocked."""
    if request.method not in _READING:
        raise UsageError(f"a TimeGate is asked by GET or HEAD, not by {request.method}")
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
            f"malformed Accept-Datetime {text[:80]!r}: expected such as 'Thu, 31 May 2007 20:35:00 GMT'"
        ) from None
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S").rjust(14, "0")


def _not_archived(site: WebContext, request: Request, target: RequestTargetPath, error: CaptureNotFound) -> Response:
    from holdfast.web.ui import not_found

    response = not_found.not_archived(site, request, target, error)
    response.raw_headers += [_VARY, (b"link", _places(site, target, target.url).encode("latin-1"))]
    return response
