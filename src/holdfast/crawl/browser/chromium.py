"""One Chromium: started, shown a page, closed."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

from playwright.async_api import Browser as Process
from playwright.async_api import BrowserContext, CDPSession, Error, Page, Playwright

from holdfast.crawl.browser.door import Door
from holdfast.crawl.browser.flags import UNWANTED, flags
from holdfast.crawl.browser.installed import executable_of
from holdfast.crawl.job import CrawlJob

START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 3.0
VIEW = {"width": 1280, "height": 800}


class CannotStart(Exception):
    """No Chromium came up."""


class Chromium:
    """A process with one page at a time. All that it asks for passes the door."""

    def __init__(self, process: Process, session: CDPSession, dead: socket.socket, door: Door, job: CrawlJob) -> None:
        self._process = process
        self._session = session
        self._dead = dead
        self._door = door
        self._job = job
        self.pages = 0  # that it has shown
        process.on("disconnected", lambda _: door.broken("the browser ended"))

    @classmethod
    async def start(cls, playwright: Playwright, door: Door, job: CrawlJob) -> Chromium:
        dead = socket.socket()
        try:
            dead.bind(("127.0.0.1", 0))  # bound and not listening: the port refuses, and nobody else can have it
            process = await playwright.chromium.launch(
                executable_path=executable_of(job.browser),
                args=flags(dead.getsockname()[1]),
                ignore_default_args=list(UNWANTED),
                chromium_sandbox=os.geteuid() != 0,  # for root there is none
                timeout=START_TIMEOUT_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except (Error, OSError) as error:
            dead.close()
            first = str(error).strip().partition("\n")[0]
            raise CannotStart(f"the browser does not start: {first}; try it with '--headless' by hand") from error
        session = await process.new_browser_cdp_session()
        await door.guard(session)
        return cls(process, session, dead, door, job)

    @property
    def alive(self) -> bool:
        return self._process.is_connected()

    async def open_page(self) -> tuple[BrowserContext, Page]:
        """A page that knows nothing of those before it."""
        self.pages += 1
        options: dict[str, Any] = {"service_workers": "block", "accept_downloads": False, "viewport": VIEW}
        if self._job.fetch.user_agent:
            options["user_agent"] = self._job.fetch.user_agent
        context = await self._process.new_context(**options)
        page = await context.new_page()
        page.on("crash", lambda _: self._door.broken("the page crashed"))
        context.on("page", _close_popup)
        return context, page

    async def close(self) -> None:
        with suppress(Error, TimeoutError):
            await asyncio.wait_for(self._process.close(), CLOSE_TIMEOUT_S)
        self._dead.close()


_closing: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


def _close_popup(page: Page) -> None:
    task = asyncio.ensure_future(_close(page))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(page: Page) -> None:
    with suppress(Error):
        await page.close()
