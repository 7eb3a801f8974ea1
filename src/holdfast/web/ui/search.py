"""The one box: an address leads to its captures, everything else is a query in the query language.

/search?q=example.com                 an address: its calendar
/search?q=example.com/*               the beginning of addresses: their list
/search?q=harbour tides&sort=newest   words: captures that have them, with facets and a timeline
/search?q=...&as=words                a query in any case
/search?q=...&as=addresses            words in addresses; also what an archive without an index does with words
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.errors import IndexNotFound, MalformedQuery, UsageError
from holdfast.query import QueryOptions
from holdfast.query.fields import ALIASES, NAMES
from holdfast.query.parser import parse
from holdfast.query.results import FACETS
from holdfast.query.syntax import Match, conjunction
from holdfast.urls import parse as parse_url
from holdfast.web.bounded_scan import in_thread
from holdfast.web.context import WebContext
from holdfast.web.ui.address_search import FoundAddress, look, pasted
from holdfast.web.ui.display import path_to, visible
from holdfast.web.ui.explore import listing
from holdfast.web.ui.render import render
from holdfast.web.ui.results import SORTS, SearchRequest, facets, timeline, turns

QUERY_MAX = 16 << 10  # characters
HITS = 20  # on a page
REACH = 10_000  # hits that can be paged through
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[^.].*\.[^.].*|localhost|.+:\d+|\[.+\]")
_FIELD = re.compile(rf"[-(]*(?:{'|'.join((*NAMES, *ALIASES))})[:<>=]", re.IGNORECASE)
_END = re.compile(r"[/?#*]")
_TIME = re.compile(r"\d{0,14}")
_PLACE = re.compile(r" at character (\d{1,5})")
_PAGE = re.compile(r"[1-9]\d{0,5}", re.ASCII)


class QueryFault(NamedTuple):
    """Why a query was not answered."""

    message: str
    parts: tuple[str, str, str] | None  # the query before the place that is wrong, the sign there, and the rest


def address_in(text: str) -> str:
    """The URL, or beginning of URLs with a star, that the text is; empty if it is words. A fragment is left out."""
    bare = text.strip().partition("#")[0]
    if not bare or any(character.isspace() for character in bare) or _FIELD.match(bare):
        return ""
    if _SCHEME.match(bare) or bare.startswith(("urn:", "dns:")):
        return bare
    host = _END.split(bare.removeprefix("*."), maxsplit=1)[0]
    if _HOST.fullmatch(host) is None or parse_url(f"http://{host}") is None:
        return ""
    return bare if bare.endswith("*") or bare.startswith("*.") else f"http://{bare}"


def routes(site: WebContext) -> list[Route]:
    async def search(request: Request) -> Response:
        site.tokens.require_read(request)
        query, collection = asked_for(site, request)
        taken_as = request.query_params.get("as", "")
        address = "" if taken_as in ("words", "addresses") else address_in(query)
        meant = pasted(site, address, request.headers.get("host", ""))
        if meant.url == address and "*" in (address[-1:], address[:1]):
            return await listing(site, request, collection, address, request.query_params.get("after", ""))
        if address:
            time = meant.time or time_of(request) or "*"
            return RedirectResponse(path_to(meant.collection or collection, time, meant.url), 302)
        has_index = site.full_text.exists
        if not query.strip():
            return render(site, request, "search.html", q=query, fault=None, has_index=has_index)
        if taken_as == "addresses" or not has_index:
            return await _in_addresses(site, request, query, collection)
        return await _answered(site, request, query, collection)

    return [Route("/search", search)]


async def _in_addresses(site: WebContext, request: Request, query: str, collection: str) -> Response:
    words = query.casefold().split()
    found: FoundAddress = await run_in_threadpool(look, site, site.collection(collection), words)
    values: dict[str, Any] = {
        "q": query,
        "collection": collection,
        "found": found,
        "words": words,
        "has_index": site.full_text.exists,
    }
    return render(site, request, "search_addresses.html", **values)


async def _answered(site: WebContext, request: Request, query: str, collection: str) -> Response:
    try:
        wanted = wanted_of(site, request, query, collection)
        options = QueryOptions(
            sort=wanted.sort, limit=HITS, offset=(wanted.page - 1) * HITS, facets=FACETS, timeline=True
        )
        found = await in_thread(site.full_text.ask, wanted.text, options)
    except (MalformedQuery, IndexNotFound) as error:
        fault = fault_of(query, error)
        return render(site, request, "search.html", status=error.http_status, q=query, fault=fault, has_index=True)
    last = max(1, -(-min(found.total, REACH) // HITS))
    values: dict[str, Any] = {
        "q": query,
        "taken_as": request.query_params.get("as", ""),
        "wanted": wanted,
        "found": found,
        "facets": facets(wanted, found.facets),
        "timeline": timeline(wanted, {each.month: each.count for each in found.timeline}),
        "sorts": SORTS,
        "last": last,
        "turns": turns(wanted, last),
        "reach": REACH,
    }
    return render(site, request, "search_results.html", **values)


def wanted_of(site: WebContext, request: Request, query: str, collection: str) -> SearchRequest:
    """What is asked for. A collection beside the query becomes a part of it. Raises UsageError, MalformedQuery."""
    page = request.query_params.get("page") or "1"
    if _PAGE.fullmatch(page) is None or int(page) * HITS > REACH:
        raise UsageError(f"no page {page[:20]!r}: give a number from 1 to {REACH // HITS}")
    expression = parse(query)
    name = site.collection(collection)
    if name is not None:
        expression = conjunction([expression, Match("collection", name)])
    return SearchRequest(expression, request.query_params.get("sort", ""), int(page))


def fault_of(query: str, error: MalformedQuery | IndexNotFound) -> QueryFault:
    """The message for people, and where in the query it is."""
    message = visible(str(error))
    place = _PLACE.search(str(error))
    parts = None
    if place is not None and 0 < int(place[1]) <= len(query):
        at = int(place[1]) - 1
        parts = query[:at], query[at], query[at + 1 :]
    return QueryFault(message[:1].upper() + message[1:], parts)


def asked_for(site: WebContext, request: Request) -> tuple[str, str]:
    """What is looked for, and where; raises UsageError or UnknownCollection."""
    query = request.query_params.get("q", "")
    if len(query) > QUERY_MAX:
        raise UsageError(f"a search of {len(query)} characters is too long: give at most {QUERY_MAX}")
    collection = request.query_params.get("collection") or "all"
    site.collection(collection)
    return query, collection


def time_of(request: Request) -> str:
    """The time that the replay banner's box gives with its address, so that one stays in the same days."""
    time = request.query_params.get("time", "")
    return time if _TIME.fullmatch(time) else ""
