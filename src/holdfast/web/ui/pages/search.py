"""The one box: an address leads to its captures, everything else is a query in the query language.

    /search?q=example.com                 an address: its calendar
    /search?q=example.com/*               the beginning of addresses: their list
    /search?q=harbour tides&sort=newest   words: pages that have them, with facets and a timeline
    /search?q=...&group=capture           every capture by itself; `text`: pages with nearly the same text once
    /search?q=...&as=words                a query in any case
    /search?q=...&as=addresses            words in addresses; also what an archive without an index does with words

Every link on the results page is another query in canonical form: the address of a page describes it completely, and
can be kept or shared.

People often paste the address of a capture, of this server or of the Wayback Machine, instead of a page's:

    https://web.archive.org/web/20200102030405/http://example.com/     the page, at that time
    http://127.0.0.1:8080/main/20200102030405/http://example.com/      the same of this server, in that collection
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from holdfast.catalog import CaptureQuery
from holdfast.errors import IndexNotFound, MalformedQuery, MissingExtra, UsageError
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture, Coverage
from holdfast.query import results
from holdfast.query.language.fields import ALIASES, NAMES
from holdfast.query.language.parser import parse
from holdfast.query.language.syntax import And, Everything, Expression, Match, TextTerm, canonical, conjunction
from holdfast.query.results import FACETS, QueryOptions
from holdfast.urls import parse as parse_url
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, parse_target
from holdfast.web.server.bounded_scan import in_thread
from holdfast.web.ui.display import in_words, language_name, page_address, path_to, readable, visible
from holdfast.web.ui.history import shown_of
from holdfast.web.ui.pages.calendar import TimelineBar, TimelinePeriod, bar_height, timeline_years
from holdfast.web.ui.pages.explore import listing
from holdfast.web.ui.render import render
from holdfast.web.ui.screenshots import screenshot_path

QUERY_MAX = 16 << 10  # characters
HITS = 20  # on a page
REACH = 10_000  # hits that can be paged through
SORTS = {"relevance": "Relevance", "newest": "Newest", "oldest": "Oldest", "rank": "Page rank"}
GROUPS = {"page": "Page", "text": "Text", "capture": "Capture"}
_YEARS_SHOWN = 40
_TITLES = {
    "site": "Sites",
    "type": "Types",
    "lang": "Languages",
    "status": "Status",
    "year": "Years",
    "collection": "Collections",
}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[^.].*\.[^.].*|localhost|.+:\d+|\[.+\]")
_FIELD = re.compile(rf"[-(]*(?:{'|'.join((*NAMES, *ALIASES))})[:<>=]", re.IGNORECASE)
_END = re.compile(r"[/?#*]")
_TIME = re.compile(r"\d{0,14}")
_PLACE = re.compile(r" at character (\d{1,5})")
_PAGE = re.compile(r"[1-9]\d{0,5}", re.ASCII)


async def search(site: WebContext, request: Request) -> Response:
    query, collection = _asked_for(site, request)
    taken_as = request.query_params.get("as", "")
    address = "" if taken_as in ("words", "addresses") else address_in(query)
    meant = pasted(site, address, request.headers.get("host", ""))
    if meant.url == address and "*" in (address[-1:], address[:1]):
        return await listing(site, request, collection, address, request.query_params.get("after", ""))
    if address:
        time = request.query_params.get("time", "")  # from the banner's box, so that the time stays the same
        time = meant.time or (time if _TIME.fullmatch(time) else "") or "*"
        return RedirectResponse(path_to(meant.collection or collection, time, meant.url), 302)
    has_index = site.archive.index.exists
    if not query.strip():
        return render(site, request, "search.html", q=query, fault=None, has_index=has_index)
    if taken_as == "addresses" or not has_index:
        words = query.casefold().split()
        name = await run_in_threadpool(site.known_collection, collection)
        found = await run_in_threadpool(search_addresses, site, name, words)
        values: dict[str, Any] = {
            "collection": collection,
            "found": found,
            "words": words,
            "coverage": found.coverage,
        }
        return render(site, request, "search_addresses.html", q=query, has_index=has_index, **values)
    return await _results(site, request, query, collection)


def _asked_for(site: WebContext, request: Request) -> tuple[str, str]:
    """Query and collection of the request. Raises UsageError or UnknownCollection."""
    query = request.query_params.get("q", "")
    if len(query) > QUERY_MAX:
        raise UsageError(f"a search of {len(query)} characters is too long: give at most {QUERY_MAX}")
    collection = request.query_params.get("collection") or ALL
    if not site.is_clustered:  # else another node may have it
        site.collection(collection)
    return query, collection


# -- addresses -------------------------------------------------------------------------------------------------------

LOOK_MAX = 100_000  # captures
FOUND_MAX = 100  # addresses
_WAYBACK = frozenset(("web.archive.org", "www.web.archive.org", "web-beta.archive.org", "wayback.archive-it.org"))
_KINDS = frozenset(("replay", "calendar", "timegate", "timemap"))
_DEEP_MAX = 3  # a capture of a capture of a capture


def address_in(text: str) -> str:
    """The URL, or beginning of URLs with a star, that the text is; empty if it is words.

    A fragment is left out: browsers never send it, so nothing is archived under it.
    """
    bare = text.strip().partition("#")[0]
    if not bare or any(character.isspace() for character in bare) or _FIELD.match(bare):
        return ""
    if _SCHEME.match(bare) or bare.startswith(("urn:", "dns:")):
        return bare
    host = _END.split(bare.removeprefix("*."), maxsplit=1)[0]
    if _HOST.fullmatch(host) is None or parse_url(f"http://{host}") is None:
        return ""
    return bare if bare.endswith("*") or bare.startswith("*.") else f"http://{bare}"


class Pasted(NamedTuple):
    """The page that is meant; time and collection are empty if the text named none."""

    url: str
    time: str = ""
    collection: str = ""


def pasted(site: WebContext, url: str, host: str = "") -> Pasted:
    """What an address stands for. `host` is the name by which the browser knows this server."""
    meant = Pasted(url.partition("#")[0])
    for _ in range(_DEEP_MAX):
        inner = _inner(site, meant, host)
        if inner is None:
            break
        meant = inner
    return meant


def _inner(site: WebContext, outer: Pasted, host: str) -> Pasted | None:
    """The page of which the address is a capture; None if it is a page itself."""
    parsed = parse_url(outer.url)
    if parsed is None or parsed.scheme not in ("http", "https"):
        return None
    at = f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host
    ours = {host, urlsplit(site.controls_origin).netloc, urlsplit(site.replay_origin).netloc}
    if at not in ours and at not in _WAYBACK:
        return None
    rest = outer.url.split("/", 3)[3:]  # as it was written: the page's own address must come through unchanged
    target = parse_target(f"/{rest[0]}".encode("utf-8", "surrogateescape")) if rest else None
    if target is None or target.kind not in _KINDS or parse_url(target.url) is None:
        return None
    is_known = at in ours and site.has_collection(target.collection)
    return Pasted(
        target.url.partition("#")[0],
        (target.timestamp if target.kind == "replay" else "") or outer.time,
        target.collection if is_known else outer.collection,
    )


class FoundAddresses(NamedTuple):
    """The addresses with the words of a search."""

    captures: list[Capture]  # the newest of each address
    looked: int  # captures that were looked at
    is_cut: bool  # there is more than was looked at, or than is shown
    coverage: Coverage | None  # of a cluster


def search_addresses(site: WebContext, collection: str | None, words: list[str]) -> FoundAddresses:
    """Addresses with all the words, which must be in lower case, from the first `LOOK_MAX` captures of the catalog.

    Pages come first: the pictures and scripts of a site would otherwise hide them. One capture that is a page makes its
    address one, even if it moved or failed later.
    """
    pages: dict[str, Capture] = {}
    others: dict[str, Capture] = {}
    looked, is_cut = 0, False
    rows = site.answers.search(CaptureQuery(match="all", collection=collection), site.permits)
    for capture in shown_of(rows) if words else ():
        key = capture.urlkey
        if looked == LOOK_MAX or (len(pages) == FOUND_MAX and key not in pages):
            is_cut = True
            break
        looked += 1
        if key in pages:
            pages[key] = capture
        elif key in others or _has(capture.url, words):
            if capture.mime in HTML_TYPES and capture.status.startswith("2"):
                others.pop(key, None)
                pages[key] = capture
            elif key in others or len(others) <= FOUND_MAX:
                others[key] = capture
    found = [*pages.values(), *others.values()]
    return FoundAddresses(found[:FOUND_MAX], looked, is_cut or len(found) > FOUND_MAX, rows.coverage)


def _has(url: str, words: list[str]) -> bool:
    text = unquote(readable(url)).casefold()
    return all(word in text for word in words)


# -- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What the address of a page of results says."""

    expression: Expression
    sort: str = ""  # empty: as fits the query
    group: str = "page"
    page: int = 1

    @property
    def text(self) -> str:
        """The query in its canonical form."""
        return canonical(self.expression)

    def link(self, *, text: str | None = None, sort: str = "", group: str = "", page: int = 1) -> str:
        """The address of a page that differs in this."""
        values = {
            "q": self.text if text is None else text,
            "as": "words",
            "sort": sort or self.sort,
            "group": group or self.group,
            "page": str(page),
        }
        return page_address("/search", values, {"page": "1", "group": "page"})

    def narrowed(self, *terms: Expression, group: str = "") -> str:
        """The address of what also fits these terms."""
        return self.link(text=canonical(conjunction([self.expression, *terms])), group=group)

    def captures(self, url: str) -> str:
        """The address of the matching captures of one page."""
        return self.narrowed(Match("url", url), group="capture")

    def parts(self) -> list[tuple[str, str]]:
        """The filter terms of the query, each with the address of the query without it. Words are not filters."""
        whole = self.expression.parts if isinstance(self.expression, And) else (self.expression,)
        found = []
        for number, part in enumerate(whole):
            if not isinstance(part, TextTerm | Everything):
                rest = conjunction([*whole[:number], *whole[number + 1 :]])
                found.append((canonical(part), self.link(text=canonical(rest))))
        return found

    def turns(self, last: int, around: int = 2) -> list[tuple[int, str]]:
        """Numbers and addresses of the first page, of those around this one, and of the last."""
        near = range(max(1, self.page - around), min(last, self.page + around) + 1)
        return [(number, self.link(page=number)) for number in sorted({1, *near, last}) if 1 <= number <= last]


async def _results(site: WebContext, request: Request, query: str, collection: str) -> Response:
    try:
        wanted = _wanted_of(site, request, query, collection)
        offset = (wanted.page - 1) * HITS
        options = QueryOptions(
            sort=wanted.sort, group=wanted.group, limit=HITS, offset=offset, facets=FACETS, timeline=True
        )
        found = await in_thread(site.query, wanted.text, options)
    except (MalformedQuery, IndexNotFound, MissingExtra) as error:
        fault = _fault_of(query, error)
        return render(site, request, "search.html", status=error.http_status, q=query, fault=fault, has_index=True)
    last = max(1, -(-min(found.total, REACH) // HITS))
    values: dict[str, Any] = {
        "q": query,
        "taken_as": request.query_params.get("as", ""),
        "wanted": wanted,
        "found": found,
        "coverage": found.coverage,
        "facets": facets(wanted, found.facets),
        "timeline": timeline(wanted, {each.month: each.count for each in found.timeline}),
        "sorts": SORTS,
        "groups": GROUPS,
        "pictures": await in_thread(lambda: {hit.record: screenshot_path(site, hit) for hit in found.hits}),
        "last": last,
        "turns": wanted.turns(last),
        "reach": REACH,
        "pieces": pieces,
    }
    return render(site, request, "search_results.html", **values)


def _wanted_of(site: WebContext, request: Request, query: str, collection: str) -> SearchRequest:
    """A collection beside the query becomes a part of it. Raises UsageError, MalformedQuery."""
    page = request.query_params.get("page") or "1"
    if _PAGE.fullmatch(page) is None or int(page) * HITS > REACH:
        raise UsageError(f"no page {page[:20]!r}: give a number from 1 to {REACH // HITS}")
    expression = parse(query)
    name = collection if site.is_clustered and collection != ALL else site.collection(collection)
    if name is not None:
        expression = conjunction([expression, Match("collection", name)])
    given = request.query_params
    return SearchRequest(expression, given.get("sort", ""), given.get("group") or "page", int(page))


class QueryFault(NamedTuple):
    """What is wrong with a query."""

    message: str
    parts: tuple[str, str, str] | None  # the query before the place that is wrong, the sign there, and the rest


def _fault_of(query: str, error: MalformedQuery | IndexNotFound | MissingExtra) -> QueryFault:
    message = visible(str(error))
    place = _PLACE.search(str(error))
    parts = None
    if place is not None and 0 < int(place[1]) <= len(query):
        at = int(place[1]) - 1
        parts = query[:at], query[at], query[at + 1 :]
    return QueryFault(message[:1].upper() + message[1:], parts)


class ShownFacet(NamedTuple):
    """Ways to narrow the search, of one kind."""

    name: str
    title: str
    choices: list[tuple[str, int, str]]  # label, captures, address


def facets(wanted: SearchRequest, found: Sequence[results.Facet]) -> list[ShownFacet]:
    """Each value with the address of the hits that have it. A facet with one value is left out."""
    shown = []
    for facet in found:
        name = language_name if facet.name == "lang" else str
        if len(facet.values) > 1:
            choices = [(name(each.value), each.count, wanted.narrowed(parse(each.term))) for each in facet.values]
            shown.append(ShownFacet(facet.name, _TITLES[facet.name], choices))
    return shown


def timeline(wanted: SearchRequest, months: Mapping[str, int], least: int = 2) -> list[TimelinePeriod]:
    """Years with a bar for each month, the last ones if there are many; the months of a year if there is only one.

    Of fewer months than `least`, there is none: in a single month there is nothing to choose.
    """

    def narrowed(period: str) -> str:
        return wanted.narrowed(Match("from", period), Match("to", period))

    if len(months) < least:
        return []
    if len({month[:4] for month in months}) > 1:
        return timeline_years(months, narrowed, gap_years_max=_YEARS_SHOWN)[-_YEARS_SHOWN:]
    most, year = max(months.values()), next(iter(months))[:4]
    found = []
    for month in (f"{year}{number:02}" for number in range(1, 13)):
        count, name = months.get(month, 0), in_words(month)
        bars = [TimelineBar(0, bar_height(count, most))] if count else []
        found.append(TimelinePeriod(name[:3], name, count, bars, narrowed(month)))
    return found


def pieces(snippet: results.Snippet) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is one of the words that were searched for."""
    found, at = [], 0
    for first, last in snippet.marks:
        found += [(snippet.text[at:first], False), (snippet.text[first:last], True)]
        at = last
    return [each for each in (*found, (snippet.text[at:], False)) if each[0]]
