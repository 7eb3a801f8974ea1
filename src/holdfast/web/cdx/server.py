"""The CDX server: captures by URL and time over HTTP, in the habits of pywb, OutbackCDX and the Internet Archive (I10).

    the captures of one URL, as most ask for them      looked up and answered at once
    other questions that come by few captures          the same, by a query
    everything else                                    looked for in a thread, sent while it is found

What an access rule excludes is not there. What was asked wrong is answered with 400 and one line that says what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.catalog import CaptureQuery
from holdfast.catalog.query.search import Permits
from holdfast.errors import Denied, HoldfastError, MalformedQuery, UsageError
from holdfast.formats.http import media_type
from holdfast.model import Capture
from holdfast.web.bounded_scan import ScanBudget, ScanWatch, Spent, in_thread, pieces_of, streamed
from holdfast.web.capture.cache_busters import Busters
from holdfast.web.cdx.dialects import HELD_MAX, CdxRequest, Dialect, Params, output_of, parse_params, parse_request
from holdfast.web.cdx.forms import content_type, lines_of, quick_lines
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, DEFAULT, RequestTargetPath, small_body

_AT_ONCE = 200  # captures that are looked at on the event loop: about a millisecond
_HELD_CAPTURES_MAX = 100_000  # that a look may come by if it holds them all
_DIGITS_MAX = 9
_USUAL = frozenset((("matchType", "exact"), ("matchType", ""), ("sort", "closest"), ("closest", ""), ("output", "")))
_BARE = CaptureQuery(url="*")  # for forms: no fields, no counters
_FORM = "application/x-www-form-urlencoded"
_UNSNIFFED = {"x-content-type-options": "nosniff"}


def routes(site: WebContext) -> list[Route]:
    async def archive_form(request: Request) -> Response:
        site.tokens.require_read(request)
        return await _answered(site, request, DEFAULT, Dialect.ARCHIVE)

    async def collections(request: Request) -> Response:
        site.tokens.require_read(request)
        body = json.dumps(await in_thread(_collections, site), indent=1).encode()
        return Response(body, headers={"content-type": "application/json", "cache-control": "no-cache", **_UNSNIFFED})

    return [
        Route("/cdx/search/cdx", archive_form, methods=["GET", "HEAD", "POST"]),
        Route("/collinfo.json", collections),
    ]


def _collections(site: WebContext) -> list[dict[str, str]]:
    """As index servers made with pywb list them, such as Common Crawl's: where each can be asked."""
    places = [(name, f"{site.controls_origin}/{name}") for name in (*site.collections(), ALL)]
    return [
        {
            "id": name,
            "name": name if name != ALL else "all collections",
            "timegate": f"{place}/",
            "timemap": f"{place}/timemap/link/",
            "cdx-api": f"{place}/cdx",
        }
        for name, place in places
    ]


async def cdx(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """`/<coll>/cdx`, a collection that is asked for a URL as OutbackCDX is, or the Internet Archive's TimeMaps."""
    dialect = Dialect.OUTBACK if target.kind == "collection" else Dialect.PYWB
    if target.form:
        return await _answered(site, request, target.collection, Dialect.ARCHIVE, target.form)
    return await _answered(site, request, target.collection, dialect)


async def _answered(site: WebContext, request: Request, name: str, dialect: Dialect, form: str = "") -> Response:
    params: Params = ()
    try:
        params = await _params(request)
        if form:  # of the address, unless the query has another
            params = [*params, ("output", form)] if "output" not in dict(params) else params
        prefix = f"{site.controls_origin}/{name}/"
        collection = site.collection(name)
        quick = _quick(site, params, collection, dialect)
        if quick is not None:
            captures, asked = quick
            return _whole(quick_lines(captures, asked, prefix), asked)
        asked = parse_request(params, collection, dialect, limit_max=site.settings.cdx_limit)
        if asked.shows_num_pages:
            return await _num_pages(site, asked)
        return await _searched(site, asked, prefix)
    except Denied:
        raise
    except HoldfastError as error:
        is_json = ("output", "json") in params or b"output=json" in request.scope["query_string"]
        return _failure(error, is_json=is_json)


async def _params(request: Request) -> Params:
    """Of the address, and of a posted form, which may be longer."""
    text = request.scope["query_string"].decode("latin-1")
    if request.method not in ("POST", "PUT", "PATCH"):
        return parse_params(text)
    kind = media_type(request.headers.get("content-type", _FORM))
    if request.method != "POST" or kind != _FORM:
        raise UsageError(f"a query is asked by GET, or by POST as {_FORM!r}")
    body = await small_body(request.scope, request.receive)
    return [*parse_params(text), *parse_params(body.decode("latin-1"))]


# -- at once --------------------------------------------------------------------------------------------------------


class _Plain(NamedTuple):
    """A question about one URL that needs no query: for all captures, the first of them, or the nearest to a time."""

    url: str
    output: str
    limit: int
    closest: str


def _plain(params: Params) -> _Plain | None:
    url = output = closest = ""
    limit = _AT_ONCE
    for name, text in params:
        if name == "url" and not url:
            url = text
        elif name == "output" and not output:
            output = text
        elif name == "limit" and text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX:
            limit = int(text)
        elif name == "closest" and not closest:
            closest = text
        elif name != "gzip" and (name, text) not in _USUAL:
            return None
    if not url or url[0] == "*" or url[-1] == "*" or (closest and limit != 1):
        return None
    return _Plain(url, output, limit, closest)


def _quick(
    site: WebContext, params: Params, collection: str | None, dialect: Dialect
) -> tuple[list[Capture], CdxRequest] | None:
    """The answer to a plain question, if it is short."""
    plain = _plain(params)
    if plain is None or not site.access.is_open:
        return None
    catalog = site.archive.catalog
    if plain.closest:
        nearest = catalog.closest(plain.url, plain.closest, collection)
        captures = [nearest] if nearest is not None else []
    else:
        captures = catalog.lookup(plain.url, collection, most=_AT_ONCE)
        if len(captures) > _AT_ONCE:
            return None
    return captures[: plain.limit], CdxRequest(_BARE, output_of(plain.output, dialect), dialect)


def _whole(lines: Iterator[str], asked: CdxRequest) -> Response:
    some = [*lines, ""]
    body = "\n".join(some).encode("utf-8", "surrogateescape")
    return Response(body, headers={"content-type": content_type(asked.output, asked.dialect), **_UNSNIFFED})


# -- by query -------------------------------------------------------------------------------------------------------


async def _searched(site: WebContext, asked: CdxRequest, prefix: str) -> Response:
    permits: Permits | None = None if site.access.is_open else site.access.permits
    if asked.allows_fuzzy and asked.query.plain().match == "exact":
        widened = await in_thread(_or_same, site, asked, permits)
        asked, permits = widened.asked, widened.permits
    query = asked.query

    def lines(watched: Permits) -> Iterator[str]:
        return lines_of(asked, site.archive.catalog.search(query, watched), prefix, site.settings.cdx_limit)

    if not query.resolve_revisits and query.page is None:
        try:
            return _whole(lines(ScanBudget(_AT_ONCE, permits)), asked)
        except Spent:
            pass
    watch = _watch(site, asked, permits)
    if query.page and await watch.run(_is_beyond, site, query, watch):
        return _beyond(asked)
    pieces = await watch.run(_pieces, lines, watch)
    return await streamed(pieces, watch, {"content-type": content_type(asked.output, asked.dialect), **_UNSNIFFED})


class _Widened(NamedTuple):
    """A query for one URL, or for those that count as the same, and what permits their captures."""

    asked: CdxRequest
    permits: Permits | None


def _or_same(site: WebContext, asked: CdxRequest, permits: Permits | None) -> _Widened:
    """Widened if the URL has no captures, to URLs that count as the same (`busters`). Not for an event loop."""
    query, catalog, collection = asked.query, site.archive.catalog, asked.query.collection
    if next(catalog.search(CaptureQuery(url=query.url, match="exact", collection=collection), permits), None):
        return _Widened(asked, permits)
    busters = Busters(site.settings.busters)
    wanted = busters.bare(query.url)

    def is_same(capture: Capture) -> bool:
        return busters.bare(capture.url) == wanted and (permits is None or permits(capture))

    for begin in busters.beginnings(query.url):
        alike = CaptureQuery(url=begin, match="prefix", collection=collection)
        try:
            if next(catalog.search(alike, ScanBudget(Busters.LOOK_AT, is_same)), None):
                limit = min(query.limit or 0, HELD_MAX) if query.sort == "closest" else query.limit
                alike = replace(query, url=begin, match="prefix", limit=limit)
                return _Widened(asked._replace(query=alike), is_same)
        except Spent:
            continue
    return _Widened(asked, permits)


def _pieces(lines: Callable[[Permits], Iterator[str]], watch: ScanWatch) -> Iterator[bytes]:
    return pieces_of(lines(watch))


def _watch(site: WebContext, asked: CdxRequest, permits: Permits | None) -> ScanWatch:
    held = _HELD_CAPTURES_MAX if asked.holds_rows else None
    seconds_max = site.settings.query_seconds_max
    return ScanWatch(permits, seconds_max, captures_max=held, cut=lambda: site.counters.add("queries_cut"))


# -- pages ----------------------------------------------------------------------------------------------------------


async def _num_pages(site: WebContext, asked: CdxRequest) -> Response:
    watch = _watch(site, asked, None if site.access.is_open else site.access.permits)
    catalog = site.archive.catalog
    pages = await watch.run(catalog.num_pages, asked.query, watch)
    if asked.dialect is not Dialect.PYWB:
        return Response(f"{pages}\n", headers={"content-type": "text/plain; charset=utf-8", **_UNSNIFFED})
    blocks = await watch.run(catalog.num_pages, replace(asked.query, page_size=1), watch)
    told = {"pages": pages, "pageSize": asked.query.page_size, "blocks": blocks}
    return Response(json.dumps(told) + "\n", headers={"content-type": "application/json", **_UNSNIFFED})


def _is_beyond(site: WebContext, query: CaptureQuery, watch: ScanWatch) -> bool:
    assert query.page is not None
    return query.page >= max(1, site.archive.catalog.num_pages(query, watch))


def _beyond(asked: CdxRequest) -> Response:
    """Clients ask for page after page until this."""
    if asked.dialect is Dialect.PYWB:
        raise MalformedQuery(f"page {asked.query.page} is beyond the last: ask for their number with 'showNumPages'")
    return Response(b"", headers={"content-type": content_type(asked.output, asked.dialect), **_UNSNIFFED})


def _failure(error: HoldfastError, *, is_json: bool) -> Response:
    if is_json:
        body, kind = json.dumps({"error": str(error)}), "application/json"
    else:
        body, kind = " ".join(str(error).splitlines()), "text/plain; charset=utf-8"
    encoded = f"{body}\n".encode("utf-8", "replace")
    return Response(encoded, error.http_status, headers={"content-type": kind, **_UNSNIFFED})
