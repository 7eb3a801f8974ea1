"""W17: a page that its script builds is captured with all that it loads late; without a browser it is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browser_site import Site, crawled, job_of, needs_browser
from hostile_web import Served, Web

from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Web(seed=1, hosts=1, pages=10).serving() as served:
        yield served


def job_for(served: Served, *, browser: bool) -> CrawlJob:
    job = job_of(Site(), browser={"enabled": browser}, scope=ScopeKind.HOST)
    fetch = FetchSettings(delay=0.0, private=True, resolve=tuple(served.resolve), retries=0)
    return replace(job, seeds=(served.web.live.entry,), fetch=fetch)


@needs_browser
def test_late_requests_are_in_the_archive(served: Served, tmp_path: Path) -> None:
    live = served.web.live
    with crawled(tmp_path, job_for(served, browser=True)) as crawl:
        wanted = live.late | live.lazy | live.links
        assert {url for url in wanted if not crawl.has(url)} == set()
        assert {crawl.archive.get(url).entry.status for url in wanted} == {"200"}


def test_without_a_browser_they_are_not(served: Served, tmp_path: Path) -> None:
    live = served.web.live
    with crawled(tmp_path, job_for(served, browser=False)) as crawl:
        assert {url for url in live.late if crawl.has(url)} == set()
        assert {url for url in live.lazy if not crawl.has(url)} == set()
