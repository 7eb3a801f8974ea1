"""The explorer: what the archive holds, from hosts down to pages.

    /explore?collection=&filter=         hosts, those of one registered domain together
    /explore?host=example.com            what lies below its root
    /explore?host=example.com&path=/a/   what lies below a path, level by level
    ...&type=image/png                   the addresses there of one type

Every page costs what it shows: the catalog is leapt through (`holdfast.catalog.outline`), never read whole.

The addresses that begin alike: of a directory, a host or a domain, one page after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.catalog import CaptureQuery
from holdfast.catalog.outline import HostEntry, Listing, Outline, OutlineChild, Types, host_prefix
from holdfast.errors import UsageError
from holdfast.model import Capture
from holdfast.urls import registered_domain
from holdfast.web.context import WebContext
from holdfast.web.request import ALL
from holdfast.web.ui.display import path_to
from holdfast.web.ui.history import captures
from holdfast.web.ui.render import render

HOSTS_SHOWN = 50
CHILDREN_SHOWN = 100
_TEXT_MAX = 8192


@dataclass(frozen=True, slots=True)
class ExploreRequest:
    """What the address of an explorer's page says."""

    collection: str
    host: str = ""
    path: str = "/"
    filter: str = ""
    type: str = ""
    after: str = ""

    def link(self, **changes: str) -> str:
        """The address of a page that differs in this; what is usual is left out."""
        values = {"collection": self.collection, "host": self.host, "path": self.path, "filter": self.filter}
        values |= {"type": self.type, "after": ""} | changes
        usual = {"collection": ALL, "path": "/"}
        told = {name: value for name, value in values.items() if value and value != usual.get(name)}
        return f"/explore?{urlencode(told, errors='surrogateescape')}" if told else "/explore"

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


class Domain(NamedTuple):
    """Hosts of one owner."""

    name: str
    hosts: list[HostEntry]


class Level(NamedTuple):
    """What a page shows of a host."""

    children: Listing[OutlineChild]
    types: Types
    typed: Listing[Capture] | None  # the addresses of the type that is asked for


def routes(site: WebContext) -> list[Route]:
    async def explore(request: Request) -> Response:
        site.tokens.require_read(request)
        wanted = wanted_of(site, request)
        if not wanted.host:
            found = await run_in_threadpool(read_hosts, site, wanted)
            values: dict[str, Any] = {"domains": domains(found.entries), "next": found.next}
            return render(site, request, "explore.html", wanted=wanted, collections=_names(site), **values)
        level = await run_in_threadpool(read_level, site, wanted)
        is_empty = not level.children.entries and not wanted.after and not wanted.type
        status = 404 if is_empty else 200
        return render(site, request, "explore_host.html", status=status, wanted=wanted, level=level, here="/explore")

    return [Route("/explore", explore)]


def wanted_of(site: WebContext, request: Request) -> ExploreRequest:
    """Raises UsageError or UnknownCollection."""
    given = {name: request.query_params.get(name, "") for name in ("host", "path", "filter", "type", "after")}
    if sum(map(len, given.values())) > _TEXT_MAX:
        raise UsageError("the address of this page is too long")
    collection = request.query_params.get("collection") or ALL
    site.collection(collection)
    host = given.pop("host").strip().lower()
    if host and (any(sign in host for sign in "/?#\\@ ") or not host_prefix(host)):
        raise UsageError(f"{host!r} is no host: write 'example.com' or 'example.com:8080'")
    path = given.pop("path") or "/"
    if not path.startswith("/") or not path.endswith(("/", "?")):
        raise UsageError(f"{path!r} is no path of a level: it begins with '/' and ends with '/' or '?'")
    return ExploreRequest(collection, host, path, **given)


def read_hosts(site: WebContext, wanted: ExploreRequest) -> Listing[HostEntry]:
    collection = site.collection(wanted.collection)
    return _outline(site).hosts(collection, after=wanted.after, limit=HOSTS_SHOWN, containing=wanted.filter)


def read_level(site: WebContext, wanted: ExploreRequest) -> Level:
    outline, collection = _outline(site), site.collection(wanted.collection)
    where = (collection, wanted.host, wanted.path)
    if not wanted.type:
        children = outline.children(*where, after=wanted.after, limit=CHILDREN_SHOWN)
        return Level(children, outline.types(*where), None)
    typed = outline.of_type(*where, wanted.type, after=wanted.after, limit=CHILDREN_SHOWN)
    return Level(Listing([]), outline.types(*where), typed)


def domains(entries: Iterable[HostEntry]) -> list[Domain]:
    """Hosts stand by their domains already."""
    grouped = groupby(entries, key=lambda entry: registered_domain(entry.host.rpartition("]")[0] or _bare(entry.host)))
    return [Domain(name, list(hosts)) for name, hosts in grouped]


def _bare(host: str) -> str:
    return host.partition(":")[0]


def _outline(site: WebContext) -> Outline:
    return site.archive.catalog.outline(None if site.access.is_open else site.access.permits)


def _names(site: WebContext) -> list[str]:
    """What can be chosen: all as one, and each collection."""
    return [ALL, *site.collections()]


PAGE_MAX = 100  # addresses on one page
LOOK_MAX = 50_000  # captures looked at for one page


class ListedAddress(NamedTuple):
    """An address and its captures."""

    newest: Capture
    captures: int
    first: str
    path: str  # of its calendar


class ListingPage(NamedTuple):
    """Part of a listing. `after` goes on behind it; empty: that was all."""

    listed: list[ListedAddress]
    after: str


async def listing(site: WebContext, request: Request, collection: str, pattern: str, after: str = "") -> Response:
    """`pattern` is 'example.com/a*', '*.example.com' and the like; `after` is that of the page before."""
    page = await run_in_threadpool(read_page, site, collection, pattern, after)
    status = 200 if page.listed or after else 404
    values = {"collection": collection, "pattern": pattern, "page": page, "is_first": not after, "q": pattern}
    return render(site, request, "listing.html", status=status, **values)


def read_page(
    site: WebContext, collection: str, pattern: str, after: str = "", *, most: int = PAGE_MAX, look: int = LOOK_MAX
) -> ListingPage:
    """The next addresses in the order of their keys, at most so many, from at most `look` captures."""
    query = CaptureQuery(url=pattern, collection=site.collection(collection), resume_key=after)
    listed: list[ListedAddress] = []
    last: Capture | None = None
    for number, capture in enumerate(captures(site, query)):
        if last is None or capture.urlkey != last.urlkey:
            if len(listed) == most:
                return ListingPage(listed, _key_after(query, last))
            listed.append(_listed(collection, capture))
        else:
            listed[-1] = listed[-1]._replace(newest=capture, captures=listed[-1].captures + 1)
        last = capture
        if number == look:
            return ListingPage(listed, _key_after(query, last))
    return ListingPage(listed, "")


def _listed(collection: str, capture: Capture) -> ListedAddress:
    return ListedAddress(capture, 1, capture.timestamp, path_to(collection, "*", capture.url))


def _key_after(query: CaptureQuery, capture: Capture | None) -> str:
    from holdfast.catalog.query.fields import Row

    return query.resume_key_after(Row(capture)) if capture is not None else ""
