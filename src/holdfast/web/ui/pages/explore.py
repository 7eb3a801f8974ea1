"""The explorer: the archive from hosts down to pages.

    /explore?collection=&filter=         hosts, those of one registered domain together
    /explore?host=example.com            what lies below its root
    /explore?host=example.com&path=/a/   what lies below a path, level by level
    ...&type=image/png                   the addresses there of one type

The cost of a page depends on what it shows: the catalog is read in leaps (`holdfast.catalog.outline`), never whole. The
paged list of addresses with a common prefix is here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeVar, cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.catalog.outline import HostEntry, Listing, Outline, OutlineChild, Types, host_prefix
from holdfast.catalog.query.fields import Row
from holdfast.errors import UsageError
from holdfast.model import Capture, Coverage
from holdfast.urls import registered_domain
from holdfast.web.context import WebContext
from holdfast.web.request import ALL
from holdfast.web.ui.display import page_address, path_to
from holdfast.web.ui.history import shown_of
from holdfast.web.ui.render import render

HOSTS_SHOWN = 50
CHILDREN_SHOWN = 100
_TEXT_MAX = 8192


@dataclass(frozen=True, slots=True)
class ExploreRequest:
    """What the address of a page says."""

    collection: str
    host: str = ""
    path: str = "/"
    filter: str = ""
    type: str = ""
    after: str = ""

    def link(self, **changes: str) -> str:
        """The address of a page that differs in this."""
        return page_address("/explore", asdict(self) | {"after": ""} | changes, {"collection": ALL, "path": "/"})

    def steps(self) -> list[tuple[str, str]]:
        """The way from the host's root to the path: names, each with its address."""
        found = [(self.host, self.link(path="/", type=""))]
        bare, mark, _ = self.path.partition("?")
        segments = bare.strip("/").split("/") if bare.strip("/") else []
        for number, segment in enumerate(segments, 1):
            is_last = mark and number == len(segments) and not bare.endswith("/")
            below = "/" + "/".join(segments[:number]) + ("?" if is_last else "/")
            found.append((segment + ("?" if is_last else ""), self.link(path=below, type="")))
        if mark and bare == "/":
            found.append(("?", self.link(path="/?", type="")))
        return found


async def explore(site: WebContext, request: Request) -> Response:
    """A list that fits on one page has the most captures first; a longer one is in the order of addresses."""
    wanted = await run_in_threadpool(wanted_of, site, request)
    outline = await run_in_threadpool(site.answers.outline, site.permits)
    if not wanted.host:
        found = await run_in_threadpool(read_hosts, site, outline, wanted)
        grouped = domains(found.entries)
        if not wanted.after and not found.next:
            grouped = [(name, by_captures(hosts)) for name, hosts in grouped]
            grouped.sort(key=lambda each: -sum(entry.extent.captures for entry in each[1]))
        values: dict[str, Any] = {"domains": grouped, "next": found.next, "most": most_captures(found.entries)}
        values["collections"] = [ALL, *await run_in_threadpool(site.answers.collections)]
        return render(site, request, "explore.html", wanted=wanted, coverage=outline.coverage, **values)
    listed, types = await run_in_threadpool(read_level, site, outline, wanted)
    status = 200 if listed.entries or wanted.after or wanted.type else missing_status(outline.coverage)
    most = 1
    if not wanted.type:
        children = cast(Listing[OutlineChild], listed)
        most = most_captures(children.entries)
        if not wanted.after and not children.next:
            listed = Listing(by_captures(children.entries))
    values = {"wanted": wanted, "listed": listed, "types": types, "here": "/explore", "most": most}
    values["coverage"] = outline.coverage
    return render(site, request, "explore_host.html", status=status, **values)


def wanted_of(site: WebContext, request: Request) -> ExploreRequest:
    """Raises UsageError or UnknownCollection. Not for an event loop."""
    given = {name: request.query_params.get(name, "") for name in ("host", "path", "filter", "type", "after")}
    if sum(map(len, given.values())) > _TEXT_MAX:
        raise UsageError("the address of this page is too long")
    collection = request.query_params.get("collection") or ALL
    site.known_collection(collection)
    host = given.pop("host").strip().lower()
    if host and (any(sign in host for sign in "/?#\\@ ") or not host_prefix(host)):
        raise UsageError(f"{host!r} is not a host: write 'example.com' or 'example.com:8080'")
    path = given.pop("path") or "/"
    if not path.startswith("/") or not path.endswith(("/", "?")):
        raise UsageError(f"{path!r} is not the path of a level: it begins with '/' and ends with '/' or '?'")
    return ExploreRequest(collection, host, path, **given)


def missing_status(coverage: Coverage | None) -> int:
    """Of a page about what was not found: 503, if nodes of a cluster that may have it do not respond."""
    return 503 if coverage is not None and coverage.missing else 404


def read_hosts(site: WebContext, outline: Outline, wanted: ExploreRequest) -> Listing[HostEntry]:
    collection = site.known_collection(wanted.collection)
    return outline.hosts(collection, after=wanted.after, limit=HOSTS_SHOWN, containing=wanted.filter)


def read_level(
    site: WebContext, outline: Outline, wanted: ExploreRequest
) -> tuple[Listing[OutlineChild] | Listing[Capture], Types]:
    """The children of the path, or its addresses of the chosen type; and all types."""
    where = site.known_collection(wanted.collection), wanted.host, wanted.path
    if wanted.type:
        typed = outline.of_type(*where, wanted.type, after=wanted.after, limit=CHILDREN_SHOWN)
        return typed, outline.types(*where)
    return outline.children(*where, after=wanted.after, limit=CHILDREN_SHOWN), outline.types(*where)


def domains(entries: Iterable[HostEntry]) -> list[tuple[str, list[HostEntry]]]:
    """The hosts of each registered domain. They are sorted by it already."""

    def domain(entry: HostEntry) -> str:
        return registered_domain(entry.host.rpartition("]")[0] or entry.host.partition(":")[0])

    return [(name, list(hosts)) for name, hosts in groupby(entries, key=domain)]


T = TypeVar("T", HostEntry, OutlineChild)


def by_captures(entries: Iterable[T]) -> list[T]:
    """The most captures first. Only for a list that is whole: one in parts is in the order of the catalog."""
    return sorted(entries, key=lambda entry: -entry.extent.captures)


def most_captures(entries: Iterable[T]) -> int:
    return max((entry.extent.captures for entry in entries), default=1)


# -- lists of addresses ----------------------------------------------------------------------------------------------

PAGE_MAX = 100  # addresses on one page
LOOK_MAX = 50_000  # captures looked at for one page


class ListedAddress(NamedTuple):
    """An address and its captures."""

    newest: Capture
    captures: int
    first: str
    path: str  # of its calendar


class ListingPage(NamedTuple):
    """Part of a listing. `after` continues it; empty at the end."""

    listed: list[ListedAddress]
    after: str
    coverage: Coverage | None  # of a cluster


async def listing(site: WebContext, request: Request, collection: str, pattern: str, after: str = "") -> Response:
    """`pattern` is 'example.com/a*', '*.example.com' and the like; `after` is that of the page before."""
    page = await run_in_threadpool(read_page, site, collection, pattern, after)
    status = 200 if page.listed or after else missing_status(page.coverage)
    values = {
        "coverage": page.coverage,
        "collection": collection,
        "pattern": pattern,
        "page": page,
        "is_first": not after,
        "q": pattern,
    }
    return render(site, request, "listing.html", status=status, **values)


def read_page(
    site: WebContext, collection: str, pattern: str, after: str = "", *, most: int = PAGE_MAX, look: int = LOOK_MAX
) -> ListingPage:
    """The next addresses in key order, at most `most`, from at most `look` captures."""
    query = CaptureQuery(url=pattern, collection=site.known_collection(collection), resume_key=after)
    rows = site.answers.search(query, site.permits)
    listed: list[ListedAddress] = []
    last: Capture | None = None
    for number, capture in enumerate(shown_of(rows)):
        if last is None or capture.urlkey != last.urlkey:
            if len(listed) == most:
                return ListingPage(listed, _key_after(query, last), rows.coverage)
            path = path_to(collection, "*", capture.url)
            listed.append(ListedAddress(capture, 1, capture.timestamp, path))
        else:
            listed[-1] = listed[-1]._replace(newest=capture, captures=listed[-1].captures + 1)
        last = capture
        if number == look:
            return ListingPage(listed, _key_after(query, last), rows.coverage)
    return ListingPage(listed, "", rows.coverage)


def _key_after(query: CaptureQuery, capture: Capture | None) -> str:
    return query.resume_key_after(Row(capture)) if capture is not None else ""
