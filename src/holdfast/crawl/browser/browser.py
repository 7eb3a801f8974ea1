"""A few tabs behind one object: pages in, their parts and then themselves out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Playwright, async_playwright

from holdfast.crawl.browser.chromium import (
    CLOSE_TIMEOUT_S,
    CannotStart,
    close_workspace,
    open_workspace,
    temporary_files_in,
)
from holdfast.crawl.browser.network import PartCache, is_page
from holdfast.crawl.browser.robots import BrowserRobots
from holdfast.crawl.browser.tab import Tab
from holdfast.crawl.browser.visit import Visit
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes.messages import Fetched, FetchJob

Deliver = Callable[[Fetched], None]
_AHEAD = 8  # pages for each tab that are fetched, or wait for their host, while others are shown


class Browser:
    """Shows pages in a few tabs. Belongs to the event loop's thread."""

    def __init__(self, fetcher: Fetcher, job: CrawlJob, directory: Path) -> None:
        """`directory` is the crawl's."""
        self._fetcher = fetcher
        self._job = job
        self._directory = directory
        self._workspace: Path | None = None
        self._robots = BrowserRobots(fetcher, job)
        self._parts = PartCache()
        self._waiting: deque[tuple[FetchJob, Deliver]] = deque()
        self._fetching = 0  # and waiting for a tab
        self._showing = 0
        self._to_show: asyncio.Queue[Visit] = asyncio.Queue()
        self._tabs: list[Tab] = []
        self._work: list[asyncio.Task[None]] = []
        self._playwright: Playwright | None = None

    async def start(self) -> None:
        """Starts the first tab, to see whether it starts at all. Raises CannotStart."""
        try:
            self._workspace = open_workspace(self._directory)
            with temporary_files_in(self._workspace):
                self._playwright = await async_playwright().start()
        except Exception as error:  # a program of its own, whose failures have no common type
            raise CannotStart(f"Playwright does not start: {error}; install it again") from error
        _ignore_late_errors(asyncio.get_running_loop())
        for _ in range(max(self._job.browser.tabs, 1)):
            self._tabs.append(Tab(self._playwright, self._fetcher, self._job, self._robots, self._parts))
        await self._tabs[0].start()
        self._work = [asyncio.get_running_loop().create_task(self._serve(tab)) for tab in self._tabs]

    @property
    def active(self) -> int:
        """Pages that are shown, or about to be, and parts that were fetched and are not delivered yet."""
        return self._showing + self._to_show.qsize() + sum(tab.handing for tab in self._tabs)

    def submit(self, job: FetchJob, deliver: Deliver) -> None:
        """`deliver` is called for each part of the page, and last for the page itself."""
        self._waiting.append((job, deliver))
        self._pump()

    def recall(self, host: str, recalled: list[FetchJob]) -> list[FetchJob]:
        """Notes the jobs that the fetcher returned, and returns those it has not been given yet."""
        self._fetching -= sum(job.browse for job in recalled)
        kept: deque[tuple[FetchJob, Deliver]] = deque()
        given: list[FetchJob] = []
        for job, deliver in self._waiting:
            if job.host == host:
                given.append(job)
            else:
                kept.append((job, deliver))
        self._waiting = kept
        asyncio.get_running_loop().call_soon(self._pump)  # not now: the fetcher is in the middle of its own work
        return given

    def stop(self) -> None:
        """No further page is fetched; those that are here may still be shown."""
        self._waiting.clear()

    async def close(self) -> None:
        """Ends all browsers; the pages they show are lost."""
        for task in self._work:
            task.cancel()
        self._robots.close()
        await asyncio.gather(*self._work, return_exceptions=True)
        await asyncio.gather(*(tab.close() for tab in self._tabs), return_exceptions=True)
        if self._playwright is not None:
            with suppress(TimeoutError):  # it ends with us
                await asyncio.wait_for(self._playwright.stop(), CLOSE_TIMEOUT_S)
        if self._workspace is not None:
            close_workspace(self._workspace)

    # -- a page -------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        while self._waiting and self._fetching < _AHEAD * len(self._tabs):
            job, deliver = self._waiting.popleft()
            self._fetching += 1
            # a 304 could not be shown
            whole = job if job.no_links else job._replace(etag="", modified="")
            self._fetcher.submit(whole, partial(self._fetched, job, deliver), recallable=True)

    def _fetched(self, job: FetchJob, deliver: Deliver, fetched: Fetched) -> None:
        fetched = fetched._replace(job=job)
        if is_page(fetched) and not job.no_links:
            self._to_show.put_nowait(Visit(fetched, deliver))
            return
        self._fetching -= 1
        deliver(fetched)
        self._pump()

    async def _serve(self, tab: Tab) -> None:
        while True:
            visit = await self._to_show.get()
            self._showing += 1
            try:
                await tab.show(visit)
            finally:
                self._showing -= 1
                self._fetching -= 1
                self._pump()


def _ignore_late_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Playwright reports failed calls to a browser that is gone, even if nobody waits for them any more."""
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), Error):
            return
        before(loop, context) if before is not None else loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
