"""Renders a page: load, wait, scroll, wait; then extract links, screenshot, markup and text.

Our scripts run in an isolated JavaScript world that the page's scripts cannot reach.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, NamedTuple

from playwright.async_api import CDPSession, Error, Page

from holdfast.crawl.browser.chromium import VIEWPORT
from holdfast.crawl.browser.visit import Visit
from holdfast.crawl.job.job import BrowserSettings
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome
from holdfast.formats.html.links.document import Document, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.formats.record import Headers
from holdfast.urls import canonical, parse

LOOK_TIMEOUT_S = 15.0  # at most, for each question to a page
PICTURE_HEIGHT_MAX = 16_384  # pixels
_WORLDS_MAX = 3
_STEP_S = 0.05  # between two steps down the page
_SETTLE_S = 0.3  # without a request, at the end of a page that may grow
DOM_CHARACTERS_MAX = 16 << 20
LINKS_MAX = 20_000
PICTURE_BYTES_MAX = 32 << 20
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PNG = "image/png"

VIEW = "urn:view:"
DOM = "urn:dom:"
TEXT = "urn:text:"

SCROLL = """((steps) => {
  const page = document.scrollingElement || document.documentElement;
  if (!page) return true;
  const left = page.scrollHeight - innerHeight - page.scrollTop;
  const step = Math.max(innerHeight * 0.9, left / steps, 100);
  scrollTo({top: page.scrollTop + step, behavior: 'instant'});
  return left <= 2;
})(%d)"""  # true at the end of the page; reaches it in the given number of steps

TO_TOP = "scrollTo({top: 0, behavior: 'instant'})"

HEIGHT = """(() => {
  const page = document.scrollingElement || document.documentElement;
  return page ? Math.ceil(Math.max(page.scrollHeight, innerHeight)) : innerHeight;
})()"""

FACTS = """((bytes, count) => {
  const links = [], seen = new Set();
  const add = (url, hop) => {
    if (typeof url === 'string' && /^https?:/.test(url) && links.length < count && !seen.has(url)) {
      seen.add(url);
      links.push([url, hop]);
    }
  };
  const walk = (root, depth) => {
    for (const each of root.querySelectorAll('a[href], area[href]')) add(each.href, 'L');
    for (const each of root.querySelectorAll('iframe[src], frame[src]')) add(each.src, 'E');
    if (depth < 20)
      for (const each of root.querySelectorAll('*')) if (each.shadowRoot) walk(each.shadowRoot, depth + 1);
  };
  walk(document, 0);
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) + '\\n' : '';
  const dom = document.documentElement ? type + document.documentElement.outerHTML : '';
  const text = document.body ? document.body.innerText || '' : '';
  return {url: location.href, links, dom: dom.slice(0, bytes), text: text.slice(0, bytes)};
})(%d, %d)"""


class Stuck(Exception):
    """The page does not respond any more."""


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
        with suppress(Error):  # it tried to go elsewhere, which the gate refused; the page is still there
            await self._page.goto(visit.job.url, wait_until="commit", timeout=self._left() * 1000)
        await self._complete()
        await visit.idle(settings.idle_s, self._halfway)
        await self._scroll()
        note = ""
        if not await visit.idle(settings.idle_s, self._deadline):
            note = f"the page was still loading after {settings.page_timeout_s:g} s"
        facts = await self._look()
        if not settings.screenshots:
            return facts._replace(note=note)
        picture, problem = await self._picture()
        return facts._replace(picture=picture, note="; ".join(filter(None, (note, problem))))

    def _left(self) -> float:
        return max(self._deadline - self._loop.time(), 0.001)

    async def _complete(self) -> None:
        """Waits until the page is loaded, or half of the time is over."""
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
        found = await self._evaluate(FACTS % (DOM_CHARACTERS_MAX, LINKS_MAX))
        if not isinstance(found, dict):
            return PageFacts()
        links = tuple((str(url), str(hop)) for url, hop in found["links"])
        return PageFacts(found["url"], links, found["dom"], found["text"])

    async def _picture(self) -> tuple[bytes, str]:
        """A PNG of the whole page, or of as much of it as is reasonable."""
        height = await self._evaluate(HEIGHT)
        tall = min(max(int(height or 0), VIEWPORT["height"]), PICTURE_HEIGHT_MAX)
        clip: Any = {"x": 0, "y": 0, "width": VIEWPORT["width"], "height": tall}
        try:
            picture = await self._page.screenshot(
                full_page=True, clip=clip, animations="disabled", timeout=self._patience * 1000
            )
        except Error as error:
            return b"", f"no screenshot: {str(error).partition(chr(10))[0]}"
        return picture, "" if tall >= int(height or 0) else f"the screenshot ends at {tall} pixels"

    async def _evaluate(self, expression: str) -> Any:
        """In a world that the page's scripts cannot reach."""
        try:
            async with asyncio.timeout(self._patience):
                for _ in range(_WORLDS_MAX):
                    with suppress(Error):  # the page has loaded itself again, and that world is gone
                        return await self._evaluate_once(expression)
                    self._world = 0
                return await self._evaluate_once(expression)
        except TimeoutError:
            raise Stuck("the page's scripts do not let it respond") from None

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


# -- what was found ----------------------------------------------------------------------------------------------------


class PageFacts(NamedTuple):
    """Of one page."""

    url: str = ""  # what the browser shows as its address; scripts may change it
    links: tuple[tuple[str, str], ...] = ()
    dom: str = ""
    text: str = ""
    picture: bytes = b""
    note: str = ""  # what is missing, and why


def resources(job: FetchJob, facts: PageFacts) -> list[Fetched]:
    """The records that are made of a page."""
    made = [
        (VIEW, _PNG, facts.picture if len(facts.picture) <= PICTURE_BYTES_MAX else b""),
        (DOM, _HTML, facts.dom.encode("utf-8", "replace")),
        (TEXT, _TEXT, facts.text.encode("utf-8", "replace")),
    ]
    return [_resource(job, prefix + job.url, kind, body) for prefix, kind, body in made if body]


def _resource(job: FetchJob, url: str, kind: str, body: bytes) -> Fetched:
    made_of = FetchJob(job.id, url, job.host)
    return Fetched(made_of, FetchOutcome.OK, started=time.time(), body=body, size=len(body), part=True, resource=kind)


def all_links(job: FetchJob, facts: PageFacts, left_for: list[str]) -> tuple[tuple[str, str], ...]:
    """Where the page wanted to go, what its scripts made, and what the markup says in the end; each URL once."""
    found: dict[str, str] = {}
    for url in left_for:
        _add(found, url, Hop.REDIRECT)
    if facts.url:
        _add(found, facts.url, Hop.LINK)
    for url, hop in facts.links:
        _add(found, url, hop)
    for url, hop in links_of(document_of(job, facts, Headers([]))):
        _add(found, url, hop)
    found.pop(job.url, None)
    return tuple(found.items())


def document_of(job: FetchJob, facts: PageFacts, headers: Headers) -> Document:
    """The page as it was in the end."""
    return Document(job.url, facts.dom.encode("utf-8", "replace"), _HTML, headers, 200)


def _add(found: dict[str, str], url: str, hop: str) -> None:
    parsed = parse(url)
    if parsed is not None and parsed.scheme in ("http", "https"):
        found.setdefault(canonical(parsed.href), hop)
