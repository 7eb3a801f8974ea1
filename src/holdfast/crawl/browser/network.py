"""The door: what Chromium asks the network for is fetched by the crawl's own fetcher, and by nothing else.

The protocol's Fetch domain at the level of the whole browser sees every request before it leaves: of pages, frames in
other processes and workers, checks of other origins, and each step of a redirect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from playwright.async_api import CDPSession, Error

from holdfast.crawl.browser.part_cache import PartCache, Shown
from holdfast.crawl.browser.request import BrowserRequest
from holdfast.crawl.browser.response import answer_of, is_html, is_page, reason_of
from holdfast.crawl.browser.robots import BrowserRobots
from holdfast.crawl.browser.visit import REQUESTS_MAX, Visit
from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes.messages import Fetched, FetchJob
from holdfast.formats.http import parse_head
from holdfast.urls import canonical

log = logging.getLogger("holdfast.crawl")

_RELOADS_MAX = 3
_OWN = ("data:", "blob:", "about:")  # need no network
_LARGE = 1 << 18  # bytes that are not decoded on the loop


class NetworkGate:
    """Of one Chromium, which shows one page at a time. Belongs to the event loop's thread."""

    def __init__(self, fetcher: Fetcher, job: CrawlJob, manners: BrowserRobots, parts: PartCache) -> None:
        self._fetcher = fetcher
        self._job = job
        self._manners = manners
        self._parts = parts
        self._visit: Visit | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._handing: set[asyncio.Task[None]] = set()  # not to be cut short: what was fetched is kept

    async def guard(self, session: CDPSession) -> None:
        """From now on nothing passes but through here."""
        session.on("Fetch.requestPaused", lambda event: self._paused(session, event))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})

    def open(self, visit: Visit) -> None:
        """What is asked from now on belongs to the page."""
        self._visit = visit

    def shut(self) -> None:
        """Nothing is answered any more. What is being fetched is kept when it comes."""
        self._visit = None
        for task in self._passing:
            task.cancel()

    def broken(self, why: str) -> None:
        if self._visit is not None:
            self._visit.fail(why)

    # -- a request ----------------------------------------------------------------------------------------------

    def _paused(self, session: CDPSession, event: dict[str, Any]) -> None:
        self._hold(self._pass(session, event), self._passing)

    @staticmethod
    def _hold(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        """The loop itself holds tasks weakly."""
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(_tell_of_mistakes)

    async def _pass(self, session: CDPSession, event: dict[str, Any]) -> None:
        with suppress(Error):  # the request, or the browser, is gone: nobody wants an answer
            asked, visit = BrowserRequest.of(event), self._visit
            if asked.url.startswith(_OWN):
                await session.send("Fetch.continueRequest", {"requestId": asked.id})
                return
            if visit is None:
                await _refuse(session, asked, "Aborted")
                return
            visit.begin()
            try:
                await self._answer(session, asked, visit)
            finally:
                visit.end()

    async def _answer(self, session: CDPSession, asked: BrowserRequest, visit: Visit) -> None:
        if asked.is_document and visit.frame in ("", asked.frame):
            await self._navigate(session, asked, visit)
            return
        visit.requests += 1
        if visit.requests > REQUESTS_MAX or not asked.is_fetchable:
            await _refuse(session, asked, "BlockedByClient")
        elif not await self._manners.allow(asked.url, visit.job, visit.keep):
            log.info("robots.txt forbids '%s', which '%s' asks for", asked.url, visit.job.url)
            await _refuse(session, asked, "BlockedByClient")
        else:
            await _give(session, asked, *await self._fetch_part(asked, visit))

    async def _fetch_part(self, asked: BrowserRequest, visit: Visit) -> Shown:
        """Whatever comes is kept, though the page may be gone by then."""
        if (known := await self._parts.get(asked)) is not None:
            return known
        job = asked.job(visit.job, delay=self._job.fetch.delay, cookies=self._job.fetch.cookies)
        future: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._parts.begin(asked, future)

        def done(fetched: Fetched) -> None:
            if asked.is_from_script and not job.method and _is_html(fetched):
                # a script has read a page, nobody has shown it: it is still to be visited for itself
                fetched = fetched._replace(job=job._replace(method="GET"))
            self._hold(self._hand_over(fetched, visit, future), self._handing)

        self._fetcher.submit(job, done, polite=False)
        return await future

    async def _hand_over(self, fetched: Fetched, visit: Visit, future: asyncio.Future[Shown]) -> None:
        """The answer is made first: whoever takes a part takes its file, too."""
        answer = None
        if not future.done():
            large = fetched.size > _LARGE
            answer = await asyncio.to_thread(answer_of, fetched) if large else answer_of(fetched)
        visit.keep(fetched._replace(part=True))
        if not future.done():
            future.set_result((fetched, answer))

    # -- the page itself ----------------------------------------------------------------------------------------

    async def _navigate(self, session: CDPSession, asked: BrowserRequest, visit: Visit) -> None:
        """The page is there already. Where it goes from there is for the crawl to decide: it is a link."""
        url = canonical(asked.url)
        if not visit.frame:
            visit.frame = asked.frame
        elif url != visit.job.url or asked.method != "GET" or visit.reloads >= _RELOADS_MAX:
            if asked.method == "GET" and url != visit.job.url:
                visit.left_for.append(url)
            await _refuse(session, asked, "Aborted")
            return
        else:
            await self._reload(asked, visit)
        await _give(session, asked, visit.page, answer_of(visit.page))

    async def _reload(self, asked: BrowserRequest, visit: Visit) -> None:
        """A page that loads itself again, with a cookie perhaps: the last answer is the page."""
        visit.reloads += 1
        job = asked.job(visit.job, delay=visit.job.delay, cookies=self._job.fetch.cookies)
        fetched = await self._fetcher.fetch(job, polite=False)
        if is_page(fetched):
            before, visit.page = visit.page, fetched._replace(job=visit.job)
            visit.keep(before._replace(job=_part_of(before.job), part=True))
        else:
            visit.keep(fetched._replace(job=_part_of(fetched.job), part=True))


def _tell_of_mistakes(task: asyncio.Task[None]) -> None:
    """One request is lost over them, not the crawl."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a request of a page failed: %r", error)


def _part_of(page: FetchJob) -> FetchJob:
    """Of a page whose other answer is the page: the URL is not settled by this one."""
    return FetchJob(page.id, page.url, page.host, hop=page.hop, depth=page.depth, via=page.via, method="GET")


def _is_html(fetched: Fetched) -> bool:
    head = parse_head(fetched.head)
    return head is not None and is_html(head)


async def _give(session: CDPSession, asked: BrowserRequest, fetched: Fetched, answer: dict[str, Any] | None) -> None:
    if answer is None:
        await _refuse(session, asked, reason_of(fetched))
        return
    try:
        await session.send("Fetch.fulfillRequest", {"requestId": asked.id, **answer})
    except Error:  # it does not like the answer
        await _refuse(session, asked, "Failed")


async def _refuse(session: CDPSession, asked: BrowserRequest, reason: str) -> None:
    await session.send("Fetch.failRequest", {"requestId": asked.id, "errorReason": reason})
