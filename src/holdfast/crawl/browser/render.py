"""A page from its first byte to what it has become: load, wait, scroll, wait, look."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from playwright.async_api import CDPSession, Error, Page

from holdfast.crawl.browser.chromium import VIEW
from holdfast.crawl.browser.page_facts import DOM_CHARACTERS_MAX, HARVEST, HEIGHT, LINKS_MAX, SCROLL, TO_TOP, PageFacts
from holdfast.crawl.browser.visit import Visit
from holdfast.crawl.job.job import BrowserSettings

LOOK_TIMEOUT_S = 15.0  # at most, for each look at a page that is loaded, or that the time is over for
PICTURE_HEIGHT_MAX = 16_384  # pixels
_WORLDS_MAX = 3
_STEP_S = 0.05  # between two steps down the page
_SETTLE_S = 0.3  # without a request, at the end of a page that may grow


class Stuck(Exception):
    """The page does not answer any more."""


class Rendering:
    """One page; run once."""

    def __init__(self, page: Page, session: CDPSession, visit: Visit, settings: BrowserSettings) -> None:
        self._page = page
        self._session = session
        self._visit = visit
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + settings.page_timeout_s
        self._halfway = self._loop.time() + settings.page_timeout_s / 2  # the other half is for what scrolling brings
        self._patience = min(LOOK_TIMEOUT_S, settings.page_timeout_s)
        self._world = 0

    async def run(self) -> PageFacts:
        """Raises Stuck, and Playwright's Error if the page is gone."""
        settings, visit = self._settings, self._visit
        with suppress(Error):  # it may have gone elsewhere, which it was not allowed to; the page is still there
            await self._page.goto(visit.job.url, wait_until="commit", timeout=self._left() * 1000)
        await self._complete()
        await visit.idle(settings.idle_s, self._halfway)
        await self._scroll()
        note = ""
        if not await visit.idle(settings.idle_s, self._deadline):
            note = f"the page was still loading after {settings.page_timeout_s:g} s"
        harvest = await self._look()
        if not settings.screenshots:
            return harvest._replace(note=note)
        picture, problem = await self._picture()
        return harvest._replace(picture=picture, note="; ".join(filter(None, (note, problem))))

    def _left(self) -> float:
        return max(self._deadline - self._loop.time(), 0.001)

    async def _complete(self) -> None:
        """Waits until the page says that it is, or until it is time to go on."""
        while await self._evaluate("document.readyState") != "complete" and self._loop.time() < self._halfway:
            await asyncio.sleep(_STEP_S)
        self._visit.stir()

    # -- scrolling ----------------------------------------------------------------------------------------------

    async def _scroll(self) -> None:
        """To the bottom, while the page grows."""
        deadline = min(self._loop.time() + self._settings.scroll_s, self._deadline)
        at_end = 0
        while self._loop.time() < deadline and at_end < 2:
            steps = max(int((deadline - self._loop.time()) / _STEP_S / 2), 1)
            at_end = at_end + 1 if await self._evaluate(SCROLL % steps) else 0
            if at_end:
                await self._visit.idle(_SETTLE_S, deadline)
            else:
                self._visit.stir()
                await asyncio.sleep(_STEP_S)
        await self._evaluate(TO_TOP)

    # -- looking ------------------------------------------------------------------------------------------------

    async def _look(self) -> PageFacts:
        told = await self._evaluate(HARVEST % (DOM_CHARACTERS_MAX, LINKS_MAX))
        if not isinstance(told, dict):
            return PageFacts()
        links = tuple((str(url), str(hop)) for url, hop in told["links"])
        return PageFacts(told["url"], links, told["dom"], told["text"])

    async def _picture(self) -> tuple[bytes, str]:
        """A PNG of the whole page, or of as much of it as is reasonable."""
        height = await self._evaluate(HEIGHT)
        tall = min(max(int(height or 0), VIEW["height"]), PICTURE_HEIGHT_MAX)
        clip: Any = {"x": 0, "y": 0, "width": VIEW["width"], "height": tall}
        try:
            picture = await self._page.screenshot(
                full_page=True, clip=clip, animations="disabled", timeout=self._patience * 1000
            )
        except Error as error:
            return b"", f"no screenshot: {str(error).partition(chr(10))[0]}"
        return picture, "" if tall >= int(height or 0) else f"the screenshot ends at {tall} pixels"

    async def _evaluate(self, expression: str) -> Any:
        """In a world where the page's own scripts have changed nothing."""
        try:
            async with asyncio.timeout(self._patience):
                for _ in range(_WORLDS_MAX):
                    with suppress(Error):  # the page has loaded itself again, and that world is gone
                        return await self._evaluate_once(expression)
                    self._world = 0
                return await self._evaluate_once(expression)
        except TimeoutError:
            raise Stuck("the page's scripts do not let it be looked at") from None

    async def _evaluate_once(self, expression: str) -> Any:
        if not self._world:
            tree = await self._session.send("Page.getFrameTree")
            frame = tree["frameTree"]["frame"]["id"]
            made = await self._session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "holdfast"})
            self._world = made["executionContextId"]
        answer = await self._session.send(
            "Runtime.evaluate", {"expression": expression, "contextId": self._world, "returnByValue": True}
        )
        return answer["result"].get("value")
