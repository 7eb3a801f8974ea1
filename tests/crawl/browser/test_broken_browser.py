"""H5 with a browser: pages, browsers and fetchers that die cost nothing but what a browser would have found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop
from browser_processes import browsers, fetchers, gone, kill, mains, renderers
from browser_site import Reply, Request, Site, crawled, job_of, needs_browser, serving

from holdfast.crawl.browser.open import open_browser
from holdfast.crawl.crawl import CrawlState
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.processes.messages import Fetched, FetchJob

pytestmark = needs_browser

PAGE = b"<p>shown<img src=%s>"


def test_a_crash_costs_only_what_the_browser_would_have_found(tmp_path: Path) -> None:
    """Each is killed once: what a page lost with its browser is fetched again, while the next browser is at work."""
    seen: list[int] = []
    killed: list[int] = []

    def kill_renderers(_request: Request) -> Reply:
        if not seen:
            seen.extend(browsers())
            kill(renderers())
        return Reply(status=404)

    def kill_browser(_request: Request) -> Reply:
        if not killed:
            killed.extend(mains())
            kill(killed)
        return Reply(status=404)

    pages = {
        "/crashes": Reply(PAGE % b"/kill-page"),
        "/ends": Reply(PAGE % b"/kill-browser"),
        "/after": Reply(PAGE % b"/picture.png"),
        "/kill-page": kill_renderers,
        "/kill-browser": kill_browser,
    }
    with serving(pages) as site, crawled(tmp_path, job_of(site, "/crashes", "/ends", "/after")) as crawl:
        assert crawl.body(site.url("/crashes")) == PAGE % b"/kill-page"
        assert "the page crashed" in crawl.note(site.url("/crashes"))
        assert crawl.body(site.url("/ends")) == PAGE % b"/kill-browser"
        assert "kept without" in crawl.note(site.url("/ends"))
        assert crawl.body(f"urn:text:{site.url('/after')}") == b"shown"
        assert crawl.summary.state is CrawlState.FINISHED
    assert seen
    assert gone(seen)


def test_a_browser_is_replaced_after_so_many_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.crawl.browser.tab.PAGES_MAX", 1)
    used: list[list[int]] = []

    async def show_all(site: Site) -> list[Fetched]:
        job = job_of(site)
        fetcher = Fetcher(job, tmp_path)
        browser = await open_browser(fetcher, job, tmp_path)
        try:
            return [await shown(browser, FetchJob(number, site.url(), "")) for number in range(2)]
        finally:
            await browser.close()
            fetcher.close()
            await asyncio.sleep(0)

    async def shown(browser: Any, job: FetchJob) -> Fetched:
        page: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        browser.submit(job, lambda fetched: None if fetched.part else page.set_result(fetched))
        return await page

    def note(_request: Request) -> Reply:
        used.append(mains())
        return Reply(status=404, headers={"Cache-Control": "no-store"})

    with serving({"/": Reply(PAGE % b"/picture"), "/picture": note}) as site:
        pages = uvloop.run(show_all(site))
    assert [page.detail for page in pages] == ["", ""]
    assert len(used) == 2
    assert not set(used[0]) & set(used[1])
    assert gone([*used[0], *used[1]])


def test_a_fetcher_that_is_killed_leaves_no_browser_behind(tmp_path: Path) -> None:
    seen: list[int] = []

    def kill_fetcher(_request: Request) -> Reply:
        if not seen:
            seen.extend(browsers())
            kill(fetchers())
        return Reply(b"1", "text/plain")

    pages = {"/": Reply(b"<p id=told><script>fetch('/late').then(() => told.append('done'))</script>")}
    with serving(pages | {"/late": kill_fetcher}) as site, crawled(tmp_path, job_of(site)) as crawl:
        assert crawl.summary.state is CrawlState.FINISHED
        assert crawl.body(f"urn:text:{site.url('/')}") == b"done"
        assert crawl.body(site.url("/late")) == b"1"
        assert seen
        assert gone(seen)
        assert not browsers()
