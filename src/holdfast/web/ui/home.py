"""The first page: one box for an address or words, the collections, what is new, and how much was saved.

How much an archive holds, and how much less it takes than it captured.

What is kept once is kept once for all collections, so a single one has no such figures. Where rules of access hide
something, nothing is counted for anybody: a figure would tell of what is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.crawl.crawls import CrawlStatus, crawls
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture
from holdfast.web.capture.find import SHOWN
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath
from holdfast.web.ui.render import render


class Savings(NamedTuple):
    """Bytes of all payloads, of those bytes once, and as they rest on disk."""

    captures: int
    captured: int
    kept: int
    stored: int

    @property
    def saved_share(self) -> float:
        """From 0 to 1: what did not have to be kept."""
        return max(0.0, 1 - self.stored / self.captured) if self.captured else 0.0


class Collection(NamedTuple):
    """A collection as the home page lists it."""

    name: str
    captures: int | None  # None: this is not told
    payload_bytes: int | None


def savings(site: WebContext) -> Savings | None:
    """Of the whole archive; None if this is not told."""
    if not site.access.is_open:
        return None
    totals = site.archive.catalog.totals()[0].values()
    stats = [report.stat for report in site.archive.volumes() if report.stat is not None]
    return Savings(
        sum(total.captures for total in totals),
        max(sum(total.payload_bytes for total in totals), sum(stat.referenced_bytes for stat in stats)),
        sum(stat.content_bytes for stat in stats),
        sum(stat.stored_bytes for stat in stats),
    )


def collections(site: WebContext) -> list[Collection]:
    """All that have captures."""
    totals = site.archive.catalog.totals()[0]
    if not site.access.is_open:
        return [Collection(name, None, None) for name in sorted(totals)]
    return [Collection(name, total.captures, total.payload_bytes) for name, total in sorted(totals.items())]


NEW_MAX = 8  # pages
CRAWLS_MAX = 4
_LOOK_MAX = 1000  # records


def routes(site: WebContext) -> list[Route]:
    async def home(request: Request) -> Response:
        site.tokens.require_read(request)
        return await _page(site, request, None)

    return [Route("/", home)]


async def collection(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """The same for one collection."""
    return await _page(site, request, target)


async def _page(site: WebContext, request: Request, target: RequestTargetPath | None) -> Response:
    name = site.collection(target.collection) if target is not None else None

    def read() -> dict[str, Any]:
        known = collections(site)
        return {
            "savings": savings(site) if name is None else None,
            "own": next((each for each in known if each.name == name), None),
            "is_empty": not any(name in (None, each.name) for each in known),
            "collections": known,
            "new": list(newest(site, name)),
            "crawls": last_crawls(site),
        }

    values = await run_in_threadpool(read)
    here = "/" if target is None else ""
    return render(site, request, "home.html", here=here, name=name, places=_places(target), **values)


def _places(target: RequestTargetPath | None) -> str:
    """The collection that the page's box searches, as addresses name it."""
    return target.collection if target is not None else "all"


def newest(site: WebContext, collection: str | None) -> Iterator[Capture]:
    """The pages that came last, each once, from the ends of the newest batches."""
    records, catalog = site.archive.records, site.archive.catalog
    batches = sorted(catalog.batches(), reverse=True)
    seen: set[str] = set()
    shown: set[str] = set()  # by key: with and without TLS a page is one
    for record, entry in islice(chain.from_iterable(map(records.newest, batches)), _LOOK_MAX):
        if entry.type not in SHOWN or entry.mime not in HTML_TYPES or not entry.status.startswith("2"):
            continue
        if collection not in (None, entry.collection) or entry.url in seen:
            continue
        seen.add(entry.url)
        capture = catalog.capture_of(record)
        if capture is None or capture.urlkey in shown or not (site.access.is_open or site.access.permits(capture)):
            continue
        shown.add(capture.urlkey)
        yield capture
        if len(shown) == NEW_MAX:
            return


def last_crawls(site: WebContext) -> list[CrawlStatus]:
    """Those that did something last."""
    found = sorted(crawls(site.archive.path), key=lambda status: (status.running, status.updated), reverse=True)
    return found[:CRAWLS_MAX]
