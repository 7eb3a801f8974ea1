"""TimeMaps (RFC 7089): all mementos of a URL, page by page, in three forms.

    link    as the RFC has it (application/link-format)
    json    as MemGator has it: one object
    cdxj    the lines of the CDX server, each with its `uri`, `rel` and `datetime`; what holds for all comes first

A page begins with the time in its address, `/<coll>/timemap/<form>/<14 digits>/<url>`, so that it is found by one seek
and does not change while later captures are added. Captures of the same second are one memento.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.catalog import CaptureQuery
from holdfast.catalog.timestamps import digits, http_date, moment
from holdfast.errors import CaptureNotFound
from holdfast.formats.cdx.cdxj import cdxj_line
from holdfast.model import Capture
from holdfast.web.context import WebContext
from holdfast.web.replay.find import NOT_SHOWN, SHOWN
from holdfast.web.request import RequestTargetPath, require_reading, uri
from holdfast.web.server.bounded_scan import ScanWatch

CONTENT_TYPES = {"link": "application/link-format", "json": "application/json", "cdxj": "text/x-cdxj"}
MEMENTOS_MAX = 5000  # of one page
_AT_ONCE = 200  # captures, looked up on the event loop


class TimeMapPage(NamedTuple):
    """Part of a TimeMap. Times are of 14 digits."""

    mementos: list[Capture]
    first: str  # of all mementos of the URL
    last: str
    next: str = ""  # with which the next page begins


class Addresses(NamedTuple):
    """Addresses in a TimeMap."""

    collection: str  # origin and collection
    url: str

    def memento(self, capture: Capture) -> str:
        return f"{self.collection}/{capture.timestamp}/{uri(capture.url)}"

    def timemap(self, form: str, page: str = "") -> str:
        return f"{self.collection}/timemap/{form}/{f'{page}/' if page else ''}{self.url}"

    @property
    def timegate(self) -> str:
        return f"{self.collection}/timegate/{self.url}"


async def timemap(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """Raises UsageError and UnknownCollection."""
    require_reading(request, "a TimeMap")
    collection = site.collection(target.collection)
    page = None if target.page else _at_once(site, collection, target.url)
    if page is None:
        watch = site.watch(site.permits)
        page = await watch.run(_paged, site, collection, target, watch)
    if not page.mementos:
        error = CaptureNotFound(f"'{target.url}' is not archived")
        return PlainTextResponse(f"{error}\n", error.http_status)
    addresses = Addresses(f"{site.controls_origin}/{target.collection}", uri(target.url))
    begin = f"{target.page:014d}" if target.page else ""
    body = "\n".join([*_FORMS[target.form](page, addresses, begin), ""]).encode("utf-8", "surrogateescape")
    return Response(body, headers={"content-type": CONTENT_TYPES[target.form], "x-content-type-options": "nosniff"})


def _at_once(site: WebContext, collection: str | None, url: str) -> TimeMapPage | None:
    """The whole TimeMap, if it is short."""
    captures = site.archive.catalog.lookup(url, collection, most=_AT_ONCE)
    if len(captures) > min(_AT_ONCE, MEMENTOS_MAX):
        return None
    permits = site.permits
    shown = [each for each in captures if each.type in SHOWN and (permits is None or permits(each))]
    mementos = list({each.timestamp: each for each in reversed(shown)}.values())[::-1]
    if not mementos:
        return TimeMapPage([], "", "")
    return TimeMapPage(mementos, mementos[0].timestamp, mementos[-1].timestamp)


def _paged(site: WebContext, collection: str | None, target: RequestTargetPath, watch: ScanWatch) -> TimeMapPage:
    most = MEMENTOS_MAX

    def found(limit: int, begin: str = "") -> list[Capture]:
        query = CaptureQuery(
            url=target.url,
            match="exact",
            from_=begin,
            filters=NOT_SHOWN,
            collapse=("timestamp",),
            limit=limit,
            collection=collection,
        )
        return [row.capture for row in site.archive.catalog.search(query, watch)]

    begin = digits(f"{target.page:014d}", "page") if target.page else ""
    mementos = found(most + 1, begin)
    first, last = found(1), found(-1)
    if not mementos:
        return TimeMapPage([], "", "")
    beyond = mementos[most].timestamp if len(mementos) > most else ""
    return TimeMapPage(mementos[:most], first[0].timestamp, last[0].timestamp, beyond)


def _relation(capture: Capture, page: TimeMapPage) -> str:
    is_first, is_last = capture.timestamp == page.first, capture.timestamp == page.last
    return ("first " if is_first else "") + ("last " if is_last else "") + "memento"


def _link(page: TimeMapPage, addresses: Addresses, begin: str) -> Iterator[str]:
    kind = 'type="application/link-format"'
    start, end = http_date(page.mementos[0].timestamp), http_date(page.mementos[-1].timestamp)
    yield f'<{addresses.url}>; rel="original",'
    yield f'<{addresses.timegate}>; rel="timegate",'
    yield f'<{addresses.timemap("link", begin)}>; rel="self"; {kind}; from="{start}"; until="{end}",'
    if begin:
        yield f'<{addresses.timemap("link")}>; rel="timemap"; {kind}; from="{http_date(page.first)}",'
    if page.next:
        later = f'from="{http_date(page.next)}"; until="{http_date(page.last)}"'
        yield f'<{addresses.timemap("link", page.next)}>; rel="timemap"; {kind}; {later},'
    mementos = [
        f'<{addresses.memento(each)}>; rel="{_relation(each, page)}"; datetime="{http_date(each.timestamp)}"'
        for each in page.mementos
    ]
    yield ",\n".join(mementos)


def _json(page: TimeMapPage, addresses: Addresses, begin: str) -> Iterator[str]:
    listed = [{"datetime": _iso(each.timestamp), "uri": addresses.memento(each)} for each in page.mementos]
    mementos: dict[str, object] = {"list": listed}
    if page.mementos[0].timestamp == page.first:
        mementos["first"] = listed[0]
    if page.mementos[-1].timestamp == page.last:
        mementos["last"] = listed[-1]
    values: dict[str, object] = {
        "original_uri": addresses.url,
        "self": addresses.timemap("json", begin),
        "timegate_uri": addresses.timegate,
        "timemap_uri": {f"{form}_format": addresses.timemap(form, begin) for form in CONTENT_TYPES},
        "mementos": mementos,
    }
    if page.next:
        values["next"] = {
            "uri": addresses.timemap("json", page.next),
            "from": _iso(page.next),
            "until": _iso(page.last),
        }
    yield json.dumps(values)


def _cdxj(page: TimeMapPage, addresses: Addresses, begin: str) -> Iterator[str]:
    yield f"!context {json.dumps(['http://tools.ietf.org/html/rfc7089'])}"
    yield f"!id {json.dumps({'uri': addresses.timemap('cdxj', begin)})}"
    yield f"!meta {json.dumps({'original_uri': addresses.url, 'timegate_uri': addresses.timegate})}"
    if page.next:
        following = {"uri": addresses.timemap("cdxj", page.next), "from": _iso(page.next), "until": _iso(page.last)}
        yield f"!meta {json.dumps({'next': following})}"
    for capture in page.mementos:
        own = {
            "uri": addresses.memento(capture),
            "rel": _relation(capture, page),
            "datetime": http_date(capture.timestamp),
        }
        yield f"{cdxj_line(capture)[:-1]}, {json.dumps(own)[1:]}"


def _iso(timestamp: str) -> str:
    return moment(timestamp).strftime("%Y-%m-%dT%H:%M:%SZ")


_FORMS: dict[str, Callable[[TimeMapPage, Addresses, str], Iterator[str]]] = {
    "link": _link,
    "json": _json,
    "cdxj": _cdxj,
}
