"""robots.txt for what pages in a browser ask for: those are fetched without the conductor, which keeps the gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.frontier import host_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.robots import ROBOTS_BYTES_MAX, Robots, answer
from holdfast.crawl.policy.robots_gate import agent_of, origin_of
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchKind, FetchOutcome
from holdfast.env.lru import LruCache
from holdfast.errors import TooLarge
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import decoded_content, parse_head
from holdfast.urls import canonical, parse

Deliver = Callable[[Fetched], None]
_ORIGINS_HELD = 1024
_REDIRECTS_MAX = 5  # as RFC 9309 says
_DECODED_BYTES_MAX = 16 << 20


class BrowserRobots:
    """Rules of origins, asked for when they are first needed. Belongs to the event loop's thread."""

    def __init__(self, fetcher: Fetcher, job: CrawlJob, clock: Callable[[], float] = time.time) -> None:
        self._fetcher = fetcher
        self._obeys = job.fetch.robots
        self._delay = job.fetch.delay
        self._agent = agent_of(job)
        self._clock = clock
        self._rules: LruCache[str, asyncio.Task[tuple[float, Robots]]] = LruCache(_ORIGINS_HELD)

    async def allow(self, url: str, page: FetchJob, deliver: Deliver) -> bool:
        """Whether the page may ask for the URL. What was fetched to find out is delivered as a part of the page."""
        origin = origin_of(url)
        if not self._obeys or url == f"{origin}/robots.txt":
            return True
        _, rules = await asyncio.shield(self._known(origin, page, deliver))
        return rules.allows(url, self._agent)

    def _known(self, origin: str, page: FetchJob, deliver: Deliver) -> asyncio.Task[tuple[float, Robots]]:
        known = self._rules.get(origin)
        if known is not None and (not known.done() or known.result()[0] > self._clock()):
            return known
        asked = asyncio.get_running_loop().create_task(self._ask(origin, page, deliver))
        self._rules.put(origin, asked)
        return asked

    async def _ask(self, origin: str, page: FetchJob, deliver: Deliver) -> tuple[float, Robots]:
        url = f"{origin}/robots.txt"
        fetched = Fetched(page, FetchOutcome.INVALID)
        for _ in range(_REDIRECTS_MAX + 1):
            job = FetchJob(
                page.id, url, host_of(url), FetchKind.ROBOTS, Hop.PREREQUISITE, delay=self._delay, method="GET"
            )
            fetched = await self._fetcher.fetch(job, polite=False)
            told = _read(fetched)
            deliver(fetched._replace(part=True))
            if not told.location:
                break
            url = told.location
        rules = answer(fetched.outcome, told.status, told.body, f"{origin}/robots.txt")
        return self._clock() + rules.lifetime_s, rules.rules

    def close(self) -> None:
        for asked in self._rules.values():
            asked.cancel()


class _Told:
    """A robots.txt as far as it matters."""

    def __init__(self, status: int = 0, body: bytes = b"", location: str = "") -> None:
        self.status = status
        self.body = body
        self.location = location


def _read(fetched: Fetched) -> _Told:
    head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK else None
    if head is None:
        return _Told()
    if 300 <= head.status < 400:
        target = parse((head.headers.get("Location") or "").strip(), fetched.job.url)
        if target is not None and target.scheme in ("http", "https"):
            return _Told(head.status, location=canonical(target.href))
        return _Told(head.status)
    body = fetched.body
    if fetched.spool:
        with Path(fetched.spool).open("rb") as file:
            body = file.read(ROBOTS_BYTES_MAX + 1)
    try:
        return _Told(head.status, decoded_content(body, head.headers, _DECODED_BYTES_MAX)[: ROBOTS_BYTES_MAX + 1])
    except TooLarge:
        return _Told(head.status)
