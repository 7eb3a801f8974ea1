"""A tab: one Chromium that shows one page after the other, and is replaced when it is old or broken."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from playwright.async_api import BrowserContext, Error, Playwright

from holdfast.crawl.browser.chromium import CLOSE_TIMEOUT_S, CannotStart, Chromium
from holdfast.crawl.browser.network import NetworkGate, PartCache
from holdfast.crawl.browser.open import noted
from holdfast.crawl.browser.render import (
    DOM_CHARACTERS_MAX,
    LOOK_TIMEOUT_S,
    PageFacts,
    Rendering,
    Stuck,
    all_links,
    document_of,
    resources,
)
from holdfast.crawl.browser.robots import BrowserRobots
from holdfast.crawl.browser.visit import Visit
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.robots_gate import agent_of
from holdfast.crawl.policy.robots_tags import RobotsTags, read_robots_tags
from holdfast.errors import TooLarge
from holdfast.formats.html.links.document import Document
from holdfast.formats.http import decoded_content, parse_head

log = logging.getLogger("holdfast.crawl")

PAGES_MAX = 200  # that one Chromium shows: its memory never shrinks


class Tab:
    """Belongs to the event loop's thread; one page at a time."""

    def __init__(
        self, playwright: Playwright, fetcher: Fetcher, job: CrawlJob, robots: BrowserRobots, parts: PartCache
    ) -> None:
        self._playwright = playwright
        self._job = job
        self._gate = NetworkGate(fetcher, job, robots, parts)
        self._chromium: Chromium | None = None

    @property
    def handing(self) -> int:
        """Parts that were fetched and are not delivered yet."""
        return self._gate.handing

    async def start(self) -> Chromium:
        """Raises CannotStart."""
        if self._chromium is not None and (not self._chromium.alive or self._chromium.pages >= PAGES_MAX):
            await self.close()
        if self._chromium is None:
            self._chromium = await Chromium.start(self._playwright, self._gate, self._job)
        return self._chromium

    async def show(self, visit: Visit) -> None:
        """Delivers all that belongs to the page, and last the page itself, whatever happens in the browser."""
        facts = PageFacts()
        try:
            facts = await self._show(visit)
        except Exception as error:  # a page that was fetched must not be lost, whatever went wrong
            if not isinstance(error, (Error, Stuck, CannotStart, TimeoutError)):
                log.exception("cannot show '%s'", visit.job.url)
            why = str(error).strip().partition("\n")[0] or "the browser did not answer in time"
            facts = PageFacts(note=f"kept without rendering: {why}")
            log.info("'%s': %s", visit.job.url, facts.note)
            await self.close()
        links = await asyncio.to_thread(all_links, visit.job, facts, visit.left_for)
        tags = await asyncio.to_thread(self._tags, visit, facts)
        for resource in resources(visit.job, facts) if tags.archive else ():
            visit.keep(resource)
        links = tuple(tags.followed(links))
        visit.finish(noted(visit.page, facts.note)._replace(links=links))

    def _tags(self, visit: Visit, facts: PageFacts) -> RobotsTags:
        """What the page, as it was rendered, asks of crawlers."""
        head = parse_head(visit.page.head) if self._job.fetch.robots_tags else None
        if head is None:
            return RobotsTags()
        agent = agent_of(self._job)
        tags = read_robots_tags(document_of(visit.job, facts, head.headers), agent)
        with suppress(TooLarge):  # and as it was sent: that decides whether its response is kept
            content = decoded_content(visit.page.body, head.headers, DOM_CHARACTERS_MAX)
            kind = head.headers.get("Content-Type") or ""
            sent = read_robots_tags(Document(visit.job.url, content, kind, head.headers, head.status), agent)
            tags = tags._replace(archive=tags.archive and sent.archive)
        return tags

    async def _show(self, visit: Visit) -> PageFacts:
        chromium = await self.start()
        self._gate.open(visit)
        context: BrowserContext | None = None
        try:
            async with asyncio.timeout(self._job.browser.page_timeout_s + 4 * LOOK_TIMEOUT_S):
                context, page = await chromium.open_page()
                session = await context.new_cdp_session(page)
                return await _unless_broken(Rendering(page, session, visit, self._job.browser), visit)
        finally:
            self._gate.shut()
            if context is not None:
                await self._leave(context)

    async def _leave(self, context: BrowserContext) -> None:
        """A page that does not close takes its browser with it."""
        try:
            await asyncio.wait_for(context.close(), CLOSE_TIMEOUT_S)
        except (Error, TimeoutError):
            await self.close()

    async def close(self) -> None:
        chromium, self._chromium = self._chromium, None
        self._gate.shut()
        if chromium is not None:
            await chromium.close()


async def _unless_broken(rendering: Rendering, visit: Visit) -> PageFacts:
    """A browser that is gone does not always notify those who wait for it."""
    work = asyncio.ensure_future(rendering.run())
    try:
        waited: set[asyncio.Future[Any]] = {work, visit.failed}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if visit.failed.done() and not work.done():
            raise Stuck(visit.failed.result())
        return await work
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError, Error, Stuck):
            await work
