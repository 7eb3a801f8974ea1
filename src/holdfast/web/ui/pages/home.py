"""The home page: a search box, what the archive holds and saves, its growth, new pages, collections and crawls.

Each content is stored once for all collections, so a single collection has no savings figures. With access rules
nothing is counted: a figure would reveal what is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.archive.usage import ArchiveUsage
from holdfast.catalog.access_rules import Verdict
from holdfast.crawl.report.crawls import CrawlStatus, crawls, log_path
from holdfast.crawl.report.log import read_log
from holdfast.errors import HoldfastError, MalformedKey
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture, RecordId
from holdfast.query.language.parser import parse
from holdfast.query.language.syntax import Match, conjunction
from holdfast.query.results import QueryOptions
from holdfast.web.context import WebContext
from holdfast.web.replay.find import SHOWN
from holdfast.web.request import RequestTargetPath
from holdfast.web.ui.pages.calendar import TimelinePeriod
from holdfast.web.ui.pages.crawls import form_page
from holdfast.web.ui.pages.search import SearchRequest, timeline
from holdfast.web.ui.render import render
from holdfast.web.ui.screenshots import screenshot_path

NEW_MAX = 8  # pages of one crawl, or of none
CRAWLS_MAX = 4
_LOOK_MAX = 1000  # records
_ROWS_MAX = 500  # of a crawl's log


class SizeBar(NamedTuple):
    """A size, and its share of the largest one beside it."""

    name: str
    size: int
    percent: float


class NewPage(NamedTuple):
    """A page that was added lately."""

    capture: Capture
    title: str  # empty: none, or not indexed
    screenshot: str  # its address; empty: there is none


class NewPages(NamedTuple):
    """Pages that one crawl has added lately; or others, with an empty name."""

    crawl: str
    pages: list[NewPage]


async def home(site: WebContext, request: Request) -> Response:
    return await _page(site, request, None, here="/")


async def collection(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """The same for one collection."""
    return await _page(site, request, site.collection(target.collection), here="")


async def _page(site: WebContext, request: Request, name: str | None, *, here: str) -> Response:
    def read() -> dict[str, Any]:
        totals = site.archive.catalog.totals()[0]
        usage = site.volumes.usage() if name is None and site.access.is_open else None
        is_empty = not (totals if name is None else name in totals)
        return {
            "usage": usage,
            "captures": sum(total.captures for total in totals.values()),
            **(usage_bars(usage) if usage else {}),
            "growth": growth(site, name) if not is_empty else [],
            "has_figures": site.access.is_open,
            "own": totals.get(name) if name is not None else None,
            "is_empty": is_empty,
            "collections": sorted(totals.items()),
            "new": new_pages(site, name),
            "crawls": last_crawls(site),
        }

    values = await run_in_threadpool(read)
    if values["is_empty"]:
        return form_page(site, request, "home.html", here=here, name=name, **values)
    return render(site, request, "home.html", here=here, name=name, **values)


def usage_bars(usage: ArchiveUsage) -> dict[str, list[SizeBar]]:
    """What was captured, each content once, and the same compressed; the parts of the disk space, the largest first."""
    savings = {"captured": usage.captured_bytes, "unique": usage.unique_bytes, "stored": usage.compressed_bytes}
    disk = sorted(_bars(usage.disk.as_dict()), key=lambda bar: bar.size, reverse=True)
    return {"savings": _bars(savings), "disk": disk}


def _bars(sizes: dict[str, int]) -> list[SizeBar]:
    most = max(sizes.values()) or 1
    return [SizeBar(name, size, round(100 * size / most, 1)) for name, size in sizes.items()]


def growth(site: WebContext, collection: str | None) -> list[TimelinePeriod]:
    """Captures by month, from the index; none without one, or where access rules hide something."""
    if not site.access.is_open or not site.archive.index.exists:
        return []
    expression = parse("") if collection is None else conjunction([Match("collection", collection)])
    wanted = SearchRequest(expression)
    try:
        found = site.query(wanted.text, QueryOptions(group="capture", limit=0, timeline=True))
    except HoldfastError:  # the rest of the page does not depend on the index
        return []
    return timeline(wanted, {each.month: each.count for each in found.timeline}, least=1)


# -- new pages -------------------------------------------------------------------------------------------------------


def new_pages(site: WebContext, collection: str | None) -> list[NewPages]:
    """The newest pages by the crawl that captured them, then those that no crawl did; each page once.

    A page that access rules block has no title: that is part of what they withhold.
    """
    shown: set[str] = set()  # by key: with and without TLS a page is one
    crawled: set[RecordId] = set()
    oldest = RecordId("", 0)  # records before it may be of a crawl whose log was not read so far
    groups = []
    for status in last_crawls(site):
        rows = list(_logged(site, status.name))
        crawled |= {record for record, _ in rows}
        if len(rows) == _ROWS_MAX:
            oldest = max(oldest, rows[-1][0])
        records = [record for record, is_page in rows if is_page]
        groups.append((status.name, list(_pages(site, records, collection, shown))))
    others = (each for each in newest(site, collection) if each >= oldest and each not in crawled)
    groups.append(("", list(_pages(site, others, collection, shown))))
    readable = [each for _, captures in groups for each in captures if site.access.verdict(each) is Verdict.ALLOW]
    titles = site.archive.queries.titles([each.record for each in readable])
    return [
        NewPages(name, [NewPage(each, titles.get(each.record, ""), screenshot_path(site, each)) for each in captures])
        for name, captures in groups
        if captures
    ]


def _logged(site: WebContext, crawl: str) -> Iterator[tuple[RecordId, bool]]:
    """The last captures in the log of a crawl, the newest first, and whether they are pages."""
    for row in reversed(list(read_log(log_path(site.archive.path, crawl), last=_ROWS_MAX))):
        with suppress(MalformedKey):
            record = RecordId.parse(str(row.get("record", "")))
            yield record, row.get("mime") in HTML_TYPES and row.get("status") == HTTPStatus.OK


def _pages(site: WebContext, records: Iterable[RecordId], collection: str | None, shown: set[str]) -> Iterator[Capture]:
    """The first captures of these records that may be seen and were not shown before."""
    count = 0
    for record in records:
        capture = site.archive.catalog.capture_of(record)
        if capture is None or collection not in (None, capture.collection) or capture.urlkey in shown:
            continue
        if not (site.access.is_open or site.access.permits(capture)):
            continue
        shown.add(capture.urlkey)
        yield capture
        count += 1
        if count == NEW_MAX:
            return


def newest(site: WebContext, collection: str | None) -> Iterator[RecordId]:
    """The records of the newest pages, each once, from the ends of the newest batches."""
    records = site.archive.records
    batches = sorted(site.archive.catalog.batches(), reverse=True)
    seen: set[str] = set()
    for record, entry in islice(chain.from_iterable(map(records.newest, batches)), _LOOK_MAX):
        if entry.type not in SHOWN or entry.mime not in HTML_TYPES or not entry.status.startswith("2"):
            continue
        if collection in (None, entry.collection) and entry.url not in seen:
            seen.add(entry.url)
            yield record


def last_crawls(site: WebContext) -> list[CrawlStatus]:
    """Running crawls first, then the most recent ones."""
    found = sorted(crawls(site.archive.path), key=lambda status: (status.running, status.updated), reverse=True)
    return found[:CRAWLS_MAX]
