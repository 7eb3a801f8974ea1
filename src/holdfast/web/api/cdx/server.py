"""The CDX server: captures by URL and time, in the dialects of pywb, OutbackCDX and the Internet Archive (I10).

    the captures of one URL, as most clients want them     looked up on the event loop
    other queries that scan few captures                   the same, by a query
    everything else                                        scanned in a thread, sent as it is found

Excluded captures are left out. A malformed query is 400 with a one-line message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery, Row, SearchResult
from holdfast.catalog.query.search import Permits
from holdfast.errors import Denied, HoldfastError, MalformedQuery, UsageError
from holdfast.formats.http import media_type
from holdfast.model import Capture
from holdfast.web.answers import partial_headers
from holdfast.web.api.cdx.dialects import (
    HELD_MAX,
    PLAIN,
    CdxRequest,
    Dialect,
    Params,
    lines_of,
    output_of,
    parse_params,
    parse_request,
)
from holdfast.web.context import WebContext
from holdfast.web.replay.rules import ReplayRules
from holdfast.web.request import ALL, DEFAULT, KEYED_BODY_BYTES_MAX, RequestTargetPath, body_of
from holdfast.web.server.bounded_scan import ScanBudget, ScanWatch, Spent, in_thread, pieces_of, streamed

LINES_MAX = 1_000_000  # of one response; a resume key continues
_AT_ONCE = 200  # captures that are scanned on the event loop: about a millisecond
_HELD_CAPTURES_MAX = 100_000  # scanned by a query that holds them all
_DIGITS_MAX = 9
_USUAL = frozenset((("matchType", "exact"), ("matchType", ""), ("sort", "closest"), ("closest", ""), ("output", "")))
_FORM = "application/x-www-form-urlencoded"
_UNSNIFFED = {"x-content-type-options": "nosniff"}


async def archive_form(site: WebContext, request: Request) -> Response:
    """`/cdx/search/cdx`, as the Internet Archive has it."""
    return await _answered(site, request, DEFAULT, Dialect.ARCHIVE)


async def collections(site: WebContext, request: Request) -> Response:
    body = json.dumps(await in_thread(_collections, site), indent=1).encode()
    return Response(body, headers={"content-type": "application/json", "cache-control": "no-cache", **_UNSNIFFED})


def _collections(site: WebContext) -> list[dict[str, str]]:
    """As index servers made with pywb list them, such as Common Crawl's: where each can be queried."""
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
    """`/<coll>/cdx`, `/<coll>?url=` as of OutbackCDX, or a TimeMap of the Internet Archive."""
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
        collection = await in_thread(site.known_collection, name) if site.is_clustered else site.collection(name)
        quick = _quick(site, params, collection, dialect)
        if quick is not None:
            captures, asked = quick
            return _whole(lines_of(asked, map(Row, captures), prefix), asked)
        asked = parse_request(params, collection, dialect, limit_max=LINES_MAX)
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
        raise UsageError(f"send a query by GET, or by POST as {_FORM!r}")
    body = await body_of(request, KEYED_BODY_BYTES_MAX)
    return [*parse_params(text), *parse_params(body.decode("latin-1"))]


# -- at once --------------------------------------------------------------------------------------------------------


class _Plain(NamedTuple):
    """What needs no query: all captures of one URL, the first of them, or the nearest to a time."""

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
    """The captures of a plain request, if there are few."""
    plain = _plain(params)
    if plain is None or not site.access.is_open or site.is_clustered:
        return None
    catalog = site.archive.catalog
    if plain.closest:
        nearest = catalog.closest(plain.url, plain.closest, collection)
        captures = [nearest] if nearest is not None else []
    else:
        captures = catalog.lookup(plain.url, collection, most=_AT_ONCE)
        if len(captures) > _AT_ONCE:
            return None
    return captures[: plain.limit], CdxRequest(PLAIN, output_of(plain.output, dialect), dialect)


def _whole(lines: Iterator[str], asked: CdxRequest) -> Response:
    some = [*lines, ""]
    body = "\n".join(some).encode("utf-8", "surrogateescape")
    return Response(body, headers={"content-type": asked.content_type, **_UNSNIFFED})


# -- by query -------------------------------------------------------------------------------------------------------


async def _searched(site: WebContext, asked: CdxRequest, prefix: str) -> Response:
    permits = site.permits
    if asked.allows_fuzzy and asked.query.plain().match == "exact":
        asked, permits = await in_thread(_or_same, site, asked, permits)
    query = asked.query
    found: list[SearchResult] = []

    def lines(watched: Permits) -> Iterator[str]:
        rows = site.answers.search(query, watched)
        found.append(rows)
        # Results cut at the server's limit must not look complete.
        has_key = asked.shows_resume_key or query.limit == LINES_MAX
        return lines_of(asked, rows, prefix, (lambda: rows.resume_key) if has_key else None)

    if not query.resolve_revisits and query.page is None and not site.is_clustered:
        try:
            return _whole(lines(ScanBudget(_AT_ONCE, permits)), asked)
        except Spent:
            pass
    watch = _watch(site, asked, permits)
    if query.page and await watch.run(_is_beyond, site, query, watch):
        return _beyond(asked)
    pieces = await watch.run(lambda: pieces_of(lines(watch)))
    response = await streamed(pieces, watch, {"content-type": asked.content_type, **_UNSNIFFED})
    response.headers.update(partial_headers(found[-1].coverage))
    return response


def _or_same(site: WebContext, asked: CdxRequest, permits: Permits | None) -> tuple[CdxRequest, Permits | None]:
    """If the URL has no captures: the query and the filter for URLs that count as the same. Not for an event loop."""
    query, catalog, collection = asked.query, site.archive.catalog, asked.query.collection
    if next(catalog.search(CaptureQuery(url=query.url, match="exact", collection=collection), permits), None):
        return asked, permits
    rules = site.rules
    wanted = rules.same(query.url)

    def is_same(capture: Capture) -> bool:
        return rules.same(capture.url) == wanted and (permits is None or permits(capture))

    for begin in rules.beginnings(query.url):
        alike = CaptureQuery(url=begin, match="prefix", collection=collection)
        try:
            if next(catalog.search(alike, ScanBudget(ReplayRules.LOOK_AT, is_same)), None):
                limit = min(query.limit or 0, HELD_MAX) if query.sort == "closest" else query.limit
                alike = replace(query, url=begin, match="prefix", limit=limit)
                return asked._replace(query=alike), is_same
        except Spent:
            continue
    return asked, permits


def _watch(site: WebContext, asked: CdxRequest, permits: Permits | None) -> ScanWatch:
    return site.watch(permits, _HELD_CAPTURES_MAX if asked.holds_rows else None)


# -- pages ----------------------------------------------------------------------------------------------------------


async def _num_pages(site: WebContext, asked: CdxRequest) -> Response:
    watch = _watch(site, asked, site.permits)
    pages = await watch.run(site.answers.num_pages, asked.query, watch)
    if asked.dialect is not Dialect.PYWB:
        return Response(f"{pages}\n", headers={"content-type": "text/plain; charset=utf-8", **_UNSNIFFED})
    blocks = await watch.run(site.answers.num_pages, replace(asked.query, page_size=1), watch)
    counts = {"pages": pages, "pageSize": asked.query.page_size, "blocks": blocks}
    return Response(json.dumps(counts) + "\n", headers={"content-type": "application/json", **_UNSNIFFED})


def _is_beyond(site: WebContext, query: CaptureQuery, watch: ScanWatch) -> bool:
    assert query.page is not None
    return query.page >= max(1, site.answers.num_pages(query, watch))


def _beyond(asked: CdxRequest) -> Response:
    """Clients request pages until this response."""
    if asked.dialect is Dialect.PYWB:
        raise MalformedQuery(f"page {asked.query.page} is beyond the last: request their number with 'showNumPages'")
    return Response(b"", headers={"content-type": asked.content_type, **_UNSNIFFED})


def _failure(error: HoldfastError, *, is_json: bool) -> Response:
    if is_json:
        body, kind = json.dumps({"error": str(error)}), "application/json"
    else:
        body, kind = " ".join(str(error).splitlines()), "text/plain; charset=utf-8"
    encoded = f"{body}\n".encode("utf-8", "replace")
    return Response(encoded, error.http_status, headers={"content-type": kind, **_UNSNIFFED})
