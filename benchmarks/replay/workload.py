"""The workloads: their names, and the requests of each, in an order that is the same for every server."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from urllib.parse import quote

from benchmarks.archive.crawl import CRAWLS, Crawls, page_url
from benchmarks.harness.measure import SEED

HOT = 200  # pages that `replay-hot` asks for again and again


class ReplayWorkload(StrEnum):
    """What is asked for. One operation is one request, answered whole with a status of 2xx."""

    REPLAY = "replay"  # rewritten pages at the exact time of a capture, all captures
    REPLAY_HOT = "replay-hot"  # the same for few of them
    RAW = "raw"  # payloads as they were captured, all captures
    CDX = "cdx-exact"  # all captures of a URL from the CDX server, all URLs
    TIMEMAP = "timemap"  # all captures of a URL as a TimeMap in link format, all URLs


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the crawls: one URL, captured once in each crawl."""

    number: int
    url: str

    @property
    def times(self) -> tuple[datetime, ...]:
        return tuple(date + timedelta(seconds=self.number) for date in CRAWLS)

    @property
    def timestamps(self) -> tuple[str, ...]:
        return tuple(f"{time:%Y%m%d%H%M%S}" for time in self.times)


def pages_of(crawls: Crawls) -> list[Page]:
    """All pages, shuffled."""
    pages = [Page(number, page_url(crawls.corpus, number)) for number in range(crawls.pages)]
    random.Random(SEED).shuffle(pages)
    return pages


def paths_of(workload: ReplayWorkload, pages: list[Page], collection: str) -> list[str]:
    """What is asked for, in this order, again and again."""
    at = f"/{collection}"
    if workload is ReplayWorkload.CDX:
        return [f"{at}/cdx?url={quote(page.url, safe='')}" for page in pages]
    if workload is ReplayWorkload.TIMEMAP:
        return [f"{at}/timemap/link/{page.url}" for page in pages]
    modifier = "id_" if workload is ReplayWorkload.RAW else "mp_"
    captures = [(time, page.url) for page in pages for time in page.timestamps]
    random.Random(SEED + 1).shuffle(captures)
    if workload is ReplayWorkload.REPLAY_HOT:
        del captures[HOT:]
    return [f"{at}/{time}{modifier}/{url}" for time, url in captures]


def mixed_paths(pages: list[Page], collection: str) -> list[str]:
    """Rewritten and raw replay in turns: what a long life consists of."""
    replay, raw = (paths_of(each, pages, collection) for each in (ReplayWorkload.REPLAY, ReplayWorkload.RAW))
    return list(chain.from_iterable(zip(replay, reversed(raw), strict=True)))
