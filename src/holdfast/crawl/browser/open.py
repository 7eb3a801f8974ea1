"""The browser of this machine: where it is, whether it works, and a substitute if not.

Imports nothing of Playwright.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.crawl.job.job import BrowserSettings

if TYPE_CHECKING:
    from holdfast.crawl.browser.browser import Browser
    from holdfast.crawl.fetch.fetcher import Fetcher
    from holdfast.crawl.job.job import CrawlJob
    from holdfast.crawl.processes.messages import Fetched, FetchJob

log = logging.getLogger("holdfast.crawl")

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable_of(settings: BrowserSettings) -> str:
    """The browser's path; empty if there is none."""
    for name in (settings.executable,) if settings.executable else _NAMES:
        found = shutil.which(name)
        if found:
            return found
    return ""


def available(settings: BrowserSettings) -> str:
    """Empty if pages can be shown in a browser; else why not, and what to do about it."""
    if find_spec("playwright") is None:
        return "Playwright is not installed: run 'pip install holdfast[browser]'"
    if executable_of(settings):
        return ""
    if settings.executable:
        return f"there is no browser '{settings.executable}': correct 'executable' of [browser], or leave it out"
    return "there is no Chromium on this machine: install one ('apt install chromium'), or name one in [browser]"


async def open_browser(fetcher: Fetcher, job: CrawlJob, directory: Path) -> Browser | WithoutBrowser:
    """A browser for the crawl in that directory; where there is none, what fetches pages without, and says so."""
    reason = available(job.browser)
    if reason:
        return WithoutBrowser(fetcher, reason)
    from holdfast.crawl.browser.browser import Browser
    from holdfast.crawl.browser.chromium import CannotStart

    browser = Browser(fetcher, job, directory)
    try:
        await browser.start()
    except CannotStart as error:
        await browser.close()
        log.warning("pages are fetched without a browser: %s", error)
        return WithoutBrowser(fetcher, str(error))
    return browser


class WithoutBrowser:
    """Stands in for a Browser: each page says in the log that it was fetched without one."""

    active = 0

    def __init__(self, fetcher: Fetcher, reason: str) -> None:
        self._fetcher = fetcher
        self.reason = reason

    def submit(self, job: FetchJob, deliver: Callable[[Fetched], None]) -> None:
        note = f"fetched without a browser: {self.reason}"
        self._fetcher.submit(job, lambda fetched: deliver(noted(fetched, note)), recallable=True)

    def recall(self, _host: str, _recalled: list[FetchJob]) -> list[FetchJob]:
        """Nothing waits here."""
        return []

    def stop(self) -> None:
        """Nothing waits here."""

    async def close(self) -> None:
        """There is nothing to close."""


def noted(fetched: Fetched, note: str) -> Fetched:
    """With one more note."""
    return fetched._replace(detail=f"{fetched.detail}; {note}" if fetched.detail else note) if note else fetched
