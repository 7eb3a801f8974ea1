"""Catalogs of many synthetic captures: how fast they are filled, opened and asked, and how much memory that takes.

    number of the URL       0, 1, 2, ...                              two captures each, a month apart
    URL                     http://www.host0000007.example/section/page-12.html
    order of filling        scattered, as crawls meet URLs; one crawl after the other

One child fills a catalog and closes it; another, fresh one opens it and looks URLs up: at once, when RocksDB may still
be compacting what was filled in, and again when that has come to rest. Every capture comes with its record, digest and
fingerprint, so the catalog is as large as that of an archive with as many captures.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b32encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archive.crawl import CRAWLS
from benchmarks.archive.ours import look_up
from benchmarks.archive.sample import chosen_numbers
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.measure import bytes_on_disk, peak, reset_peak, resident
from benchmarks.harness.process import run_apart
from holdfast.model import Capture, RecordId
from holdfast.urls import url_key

_STEP = 1_024  # captures of one change
_PAGES_PER_HOST = 50
_STRIDE = 2_654_435_761  # a prime, so that steps of it meet every URL once
_TIMES = tuple(f"{date:%Y%m%d%H%M%S}" for date in CRAWLS)


@dataclass(frozen=True, slots=True)
class Filled:
    """What filling took."""

    seconds: float
    close_s: float
    rss_peak_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What a fresh process needed."""

    open_s: float
    rss_open_bytes: int
    rss_peak_bytes: int
    first_s: float
    figure: Figure


@dataclass(frozen=True, slots=True)
class CatalogScale:
    """The figures of one size."""

    captures: int
    fill_s: float
    close_s: float
    fill_rss_peak_bytes: int
    disk_bytes: int
    open_s: float
    rss_open_bytes: int
    rss_peak_bytes: int
    lookups: int
    first_s: float  # of as many lookups at once after opening, while RocksDB may still be compacting
    lookup_s: float
    lookup_cpu_s: float

    @property
    def lookups_per_s(self) -> float:
        return self.lookups / max(self.lookup_s, 1e-9)


def measure_captures(path: Path, captures: int, repeats: int) -> tuple[CatalogScale, list[Figure]]:
    """Fills a catalog at the path, and asks it so many times. Raises ChildFailed."""
    filled = run_apart(fill, path, captures)
    asked = [run_apart(ask, path, captures) for _ in range(repeats)]
    best = min(asked, key=lambda each: each.figure.cost.seconds)
    scale = CatalogScale(
        captures=captures,
        fill_s=filled.seconds,
        close_s=filled.close_s,
        fill_rss_peak_bytes=filled.rss_peak_bytes,
        disk_bytes=filled.disk_bytes,
        open_s=best.open_s,
        rss_open_bytes=best.rss_open_bytes,
        rss_peak_bytes=max(each.rss_peak_bytes for each in asked),
        lookups=best.figure.operations,
        first_s=asked[0].first_s,  # those that come later find less to be compacted
        lookup_s=best.figure.cost.seconds,
        lookup_cpu_s=best.figure.cost.cpu_s,
    )
    return scale, [each.figure for each in asked]


def fill(path: Path, captures: int) -> Filled:
    from holdfast.catalog import Catalog, CatalogChange

    path.parent.mkdir(parents=True, exist_ok=True)
    catalog = Catalog(path)
    start = time.perf_counter()
    with catalog:
        for step in _steps(captures):
            fingerprints = {_bytes_of(each.record.serial, each.record.batch)[:16]: each.record for each in step}
            catalog.add(CatalogChange(captures=step, fingerprints=fingerprints))
        catalog.sync()
        closing = time.perf_counter()
    return Filled(closing - start, time.perf_counter() - closing, peak(), bytes_on_disk(path)[0])


def ask(path: Path, captures: int) -> Asked:
    from holdfast.catalog import Catalog

    urls, others = sample_urls(captures), sample_urls(captures, turn=1)
    reset_peak()
    start = time.perf_counter()
    with Catalog(path) as catalog:
        open_s = time.perf_counter() - start
        rss_open_bytes = resident()
        start = time.perf_counter()
        for url in others:
            catalog.lookup(url)
        first_s = time.perf_counter() - start
        figure = look_up(catalog.lookup, urls, OURS, form_of(captures))
        return Asked(open_s, rss_open_bytes, max(peak(), figure.cost.rss_peak_bytes), first_s, figure)


def write_cdxj(path: Path, captures: int) -> None:
    """The same captures as a sorted CDXJ file, for peers."""
    from holdfast.formats.cdx.cdxj import cdxj_line

    with path.open("w", encoding="utf-8") as file:
        for number in range(_urls_of(captures)):
            file.writelines(cdxj_line(capture_of(number, crawl)) + "\n" for crawl in range(len(CRAWLS)))


def form_of(captures: int) -> str:
    return f"{captures:,} synthetic captures"


def sample_urls(captures: int, turn: int = 0) -> list[str]:
    return [url_of(number) for number in chosen_numbers(_urls_of(captures), turn)]


def url_of(number: int) -> str:
    host, page = divmod(number, _PAGES_PER_HOST)
    return f"http://www.host{host:07d}.example/section/page-{page:02d}.html"


def capture_of(number: int, crawl: int) -> Capture:
    url = url_of(number)
    payload = _bytes_of(number, "payload")
    return Capture(
        urlkey=url_key(url),
        timestamp=_TIMES[crawl],
        url=url,
        mime="text/html",
        status="200",
        digest=f"sha1:{b32encode(payload[:20]).decode()}",
        length=4_000 + payload[0],
        offset=number * 4_100,
        filename=f"pages-{_TIMES[crawl]}-{number % 100:05d}.warc.gz",
        type="response",
        size=15_000 + payload[1],
        contents=f"v0:{payload.hex()}",
        record=RecordId(_TIMES[crawl][:6], number + 1),
        collection="main",
    )


def _steps(captures: int) -> Iterator[list[Capture]]:
    urls = _urls_of(captures)
    for crawl in range(len(CRAWLS)):
        for start in range(0, urls, _STEP):
            steps = range(start, min(start + _STEP, urls))
            yield [capture_of(step * _STRIDE % urls, crawl) for step in steps]


def _urls_of(captures: int) -> int:
    return max(1, captures // len(CRAWLS))


def _bytes_of(number: int, kind: str) -> bytes:
    return hashlib.sha256(f"{kind} {number}".encode()).digest()
