"""Pages in a real browser (`--browser`): Chromium through Playwright, with one door to the network.

    Browser      takes pages, a few at a time, and gives their parts and then themselves            browser
      Tab        one Chromium, which shows one page after the other                                 tab, chromium, flags
                 and where it keeps its files                                                       workspace
        Door     every request of that Chromium passes here, and is made by our own Fetcher         door, asked
          Manners  robots.txt, for what pages ask for                                               manners
        Visit    a page while it is loaded: what it waits for, what it has asked for                visit
      rendering  load, wait, scroll, wait; then links, screenshot, rendered page and text           rendering, harvest

Chromium has no network of its own: its only proxy is a port at which nobody answers, and names lead nowhere. What it
asks for is fetched as everything else is, so that limits, cookies and the policy on addresses hold, and what is kept is
what the servers sent. Each tab is a process of its own: so everything that it asks for belongs to the page it shows.

A page itself is fetched first, when it is its host's turn. Only if it turns out to be a page is it shown: downloads,
redirects and errors need no browser, and a browser that fails costs nothing but what it would have found.

What is delivered. First what the page asked for (`part`), then what was made of it (`part`, and `resource` says what),
last the page: the only one that is neither, and that ends the job. Parts that come too late come after it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.crawl.browser.executable import available, executable_of

if TYPE_CHECKING:
    from holdfast.crawl.browser.browser import Browser
    from holdfast.crawl.browser.no_browser import WithoutBrowser
    from holdfast.crawl.fetch.fetcher import Fetcher
    from holdfast.crawl.job.job import CrawlJob

log = logging.getLogger("holdfast.crawl")

__all__ = ["available", "executable_of", "open_browser"]


async def open_browser(fetcher: Fetcher, job: CrawlJob, directory: Path) -> Browser | WithoutBrowser:
    """What shows pages to a crawl; where there is no browser, what fetches them without, and says so.

    `directory` is the crawl's."""
    from holdfast.crawl.browser.no_browser import WithoutBrowser

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
