"""The first page: one box for an address or words, the collections, what is new, and how much was saved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.crawl.crawls import CrawlStatus, crawls
from holdfast.model import Capture
from holdfast.replay.finding import SHOWN
from holdfast.replay.kinds import HTML_TYPES
from holdfast.replay.pages.rendering import render
from holdfast.replay.pages.savings import collections, savings
from holdfast.replay.site import Site
from holdfast.replay.target import Target

NEW_MAX = 8  # pages
CRAWLS_MAX = 4
_LOOK_MAX = 1000  # records


def routes(site: Site) -> list[Route]:
    async def home(request: Request) -> Response:
        site.tokens.require_read(request)
        return await _page(site, request, None)

    return [Route("/", home)]


async def collection(site: Site, request: Request, target: Target) -> Response:
    """The same for one collection."""
    return await _page(site, request, target)


async def _page(site: Site, request: Request, target: Target | None) -> Response:
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


def _places(target: Target | None) -> str:
    """The collection that the page's box searches, as addresses name it."""
    return target.collection if target is not None else "all"


def newest(site: Site, collection: str | None) -> Iterator[Capture]:
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


def last_crawls(site: Site) -> list[CrawlStatus]:
    """Those that did something last."""
    found = sorted(crawls(site.archive.path), key=lambda status: (status.running, status.updated), reverse=True)
    return found[:CRAWLS_MAX]
