"""What a browser hands on for a job, and what it gives back: each job ends once (H5)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import uvloop
from browser_site import Reply, job_of, needs_browser, serving

from holdfast.crawl.browser.browser import Browser
from holdfast.crawl.browser.open import WithoutBrowser, open_browser
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.processes.messages import Fetched, FetchJob

WAITING = 12  # more than are asked of the fetcher at a time


@needs_browser
def test_only_the_page_itself_is_no_part_and_it_comes_last(tmp_path: Path) -> None:
    delivered: list[Fetched] = []
    workspaces: list[Path] = []

    with serving({"/": Reply(b"<p>shown<img src=/picture>")}) as site:

        async def show() -> None:
            job = job_of(site, browser={"screenshots": True})
            fetcher = Fetcher(job, tmp_path)
            browser = await open_browser(fetcher, job, tmp_path)
            assert isinstance(browser, Browser) and browser._workspace is not None
            workspaces.append(browser._workspace)
            assert {path.name.partition("-")[0].partition(".")[0] for path in browser._workspace.iterdir()} >= {
                "org",  # org.chromium.Chromium.…
                "playwright_chromiumdev_profile",
            }
            done = asyncio.Event()

            def deliver(fetched: Fetched) -> None:
                delivered.append(fetched)
                if not fetched.part:
                    done.set()

            browser.submit(FetchJob(1, site.url(), "site", browse=True), deliver)
            await asyncio.wait_for(done.wait(), 60)
            await browser.close()
            fetcher.close()
            await asyncio.sleep(0)

        uvloop.run(show())
    assert not workspaces[0].exists()
    *parts, page = delivered
    assert not page.part and not page.resource and page.job.url == site.url()
    assert all(part.part for part in parts)
    assert {part.resource.partition(";")[0] for part in parts} == {"", "image/png", "text/html", "text/plain"}
    assert {part.job.id for part in delivered} == {1}


@needs_browser
def test_what_waits_for_a_browser_is_given_back_and_others_have_its_place(tmp_path: Path) -> None:
    recalled: list[list[FetchJob]] = []

    async def show(url: str) -> Fetched:
        fetcher = Fetcher(job, tmp_path, on_recall=lambda _, jobs: recalled.append(jobs))
        browser = await open_browser(fetcher, job, tmp_path)
        fetcher.pause("resting", time.time() + 20, "why")
        page: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        for number in range(WAITING):
            browser.submit(FetchJob(number, url, "resting", browse=True), page.set_result)
        browser.submit(
            FetchJob(99, url, "site", browse=True), lambda fetched: None if fetched.part else page.set_result(fetched)
        )
        fetcher.recall("resting")
        recalled.append(browser.recall("resting", recalled[0]))
        try:
            return await asyncio.wait_for(page, 60)
        finally:
            await browser.close()
            fetcher.close()
            await asyncio.sleep(0)

    with serving({"/": Reply(b"<p>shown")}) as site:
        job = job_of(site)
        assert uvloop.run(show(site.url())).job.id == 99
    asked, waiting = ([job.id for job in jobs] for jobs in recalled)
    assert asked and waiting
    assert sorted(asked + waiting) == list(range(WAITING))


def test_without_a_browser_it_is_the_fetcher_that_gives_back(tmp_path: Path) -> None:
    recalled: list[FetchJob] = []

    async def submit() -> list[FetchJob]:
        fetcher = Fetcher(job, tmp_path, on_recall=lambda _, jobs: recalled.extend(jobs))
        without = WithoutBrowser(fetcher, "none")
        without.submit(FetchJob(7, site.url(), "site", browse=True), lambda fetched: None)
        fetcher.recall("site")
        fetcher.close()
        await asyncio.sleep(0)
        return without.recall("site", recalled)

    with serving({}) as site:
        job = job_of(site)
        assert uvloop.run(submit()) == []
    assert [job.id for job in recalled] == [7]
