"""Holdfast's frontier with very many URLs: what memory it needs, and what a page costs when so many have been seen.

One process fills a frontier, then lives through the frontier's share of some thousand pages: a URL is taken, its page's
links are looked up and the new ones queued, the URL is settled, and every group of pages is committed durably. Nothing
is fetched.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.measure import SEED, bytes_on_disk, cpu_seconds, peak, reset_peak, resident
from benchmarks.harness.process import ChildFailed

if TYPE_CHECKING:
    from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow

SMALL = 10_000  # what a larger frontier is compared with
PAGES = 4_000
_WARM_UP = 500
_LINKS = 50  # on a page
_NEW = 2  # of them not seen before
_NAVIGATION = 24  # of them the same on all pages of a host
_FAR = 5  # of them to anywhere
_GROUP = 64  # pages to a commit
_HOST_URLS = 1_000
_FILL = 1_000  # URLs to a commit while filling


@dataclass(frozen=True, slots=True)
class FrontierScale:
    """The figures of one size."""

    urls: int
    fill_s: float
    pages: int
    page_us: float  # of wall time, for each page
    page_cpu_us: float
    scattered_us: float  # the same with links to anywhere, as no web has them
    rss_bytes: int  # when all URLs were in
    rss_peak_bytes: int  # over all
    disk_bytes: int


def measure_frontier(path: Path, urls: int) -> FrontierScale:
    """Fills a frontier with so many URLs and crawls some pages with it. For a process of its own."""
    from holdfast.crawl.frontier import Frontier

    path.parent.mkdir(parents=True, exist_ok=True)
    reset_peak()
    frontier = Frontier(path)
    try:
        start = time.perf_counter()
        _fill(frontier, urls)
        fill_s = time.perf_counter() - start
        rss = resident()
        pages = min(PAGES, urls // 4)
        crawl = _Crawl(frontier, urls)
        page_s, page_cpu_s = _lived(crawl, pages)
        crawl.is_scattered = True
        scattered_s, _ = _lived(crawl, pages)
        most = peak()
    finally:
        frontier.close()
    return FrontierScale(
        urls=urls,
        fill_s=fill_s,
        pages=pages,
        page_us=page_s * 1e6,
        page_cpu_us=page_cpu_s * 1e6,
        scattered_us=scattered_s * 1e6,
        rss_bytes=rss,
        rss_peak_bytes=most,
        disk_bytes=bytes_on_disk(path)[0],
    )


def _lived(crawl: _Crawl, pages: int) -> tuple[float, float]:
    """Wall and processor time for each of so many pages, in seconds."""
    crawl.live(min(_WARM_UP, pages // 4))
    cpu, start = cpu_seconds(), time.perf_counter()
    crawl.live(pages)
    return (time.perf_counter() - start) / pages, (cpu_seconds() - cpu) / pages


def url_of(number: int) -> str:
    """A URL of usual length; neighbours in number are neighbours on a host."""
    host, place = divmod(number, _HOST_URLS)
    return f"https://www.host{host:05}.example/articles/{place % 12:02}/a-title-of-some-words-{number}.html"


def number_of(url: str) -> int:
    return int(url.rpartition("-")[2].removesuffix(".html"))


def _fill(frontier: Frontier, urls: int) -> None:
    for first in range(0, urls, _FILL):
        numbers = range(first, min(first + _FILL, urls))
        frontier.find([_found(number) for number in numbers], url_of(0), _admit)
        frontier.commit()
    if frontier.totals.seen != urls:
        raise ChildFailed(f"the frontier has seen {frontier.totals.seen:,} URLs, expected {urls:,}")


def _found(number: int) -> FoundUrl:
    from holdfast.crawl.frontier import FoundUrl, key_of
    from holdfast.formats.html.links.references import Hop

    url = url_of(number)
    return FoundUrl(key_of(url), url, Hop.LINK, 1)


def _admit(_: FoundUrl) -> str:
    return ""


class _Crawl:
    """What a conductor asks of the frontier, page after page."""

    def __init__(self, frontier: Frontier, urls: int) -> None:
        self._frontier = frontier
        self._urls = urls
        self._next = frontier.totals.seen
        self.is_scattered = False
        self._random = random.Random(SEED)
        self._taken = self._take()

    def live(self, pages: int) -> None:
        """The frontier's share of so many pages."""
        from holdfast.crawl.frontier import UrlState

        frontier = self._frontier
        done = 0
        while done < pages:
            group = list(islice(self._taken, min(_GROUP, pages - done)))
            if not group:
                raise ChildFailed(f"the frontier ran dry after {done:,} pages")
            for key, row in group:
                frontier.find(self._links(row.url), row.url, _admit)
                frontier.settle(key, row._replace(state=UrlState.DONE))
            frontier.commit()
            done += len(group)

    def _links(self, url: str) -> list[FoundUrl]:
        """Of a page: mostly to its own host, half of them to the places that all its pages link to."""
        new = range(self._next, self._next + _NEW)
        self._next += _NEW
        if self.is_scattered:
            known = [self._random.randrange(self._urls) for _ in range(_LINKS - _NEW)]
            return [_found(number) for number in (*known, *new)]
        first = number_of(url) // _HOST_URLS * _HOST_URLS
        near = [first + self._random.randrange(_HOST_URLS) for _ in range(_LINKS - _NEW - _NAVIGATION - _FAR)]
        far = [self._random.randrange(self._urls) for _ in range(_FAR)]
        return [_found(number) for number in (*range(first, first + _NAVIGATION), *near, *far, *new)]

    def _take(self) -> Iterator[tuple[bytes, UrlRow]]:
        """URLs of all live hosts in turn."""
        frontier = self._frontier
        hosts: list[str] = []
        while True:
            hosts += frontier.enliven()
            for host in hosts:
                yield from frontier.take(host, 1, ())
            hosts = [host for host in hosts if not frontier.is_exhausted(host)]
            if not hosts:
                return
