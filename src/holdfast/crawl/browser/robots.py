"""robots.txt for requests of pages in a browser, which bypass the gate in the crawl process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.frontier import host_of
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy.robots import ROBOTS_BYTES_MAX, Robots, answer
from holdfast.crawl.policy.robots_gate import REDIRECTS_MAX, agent_of, origin_of
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchKind, FetchOutcome
from holdfast.env.lru import LruCache
from holdfast.errors import TooLarge
from holdfast.formats.html.links.references import Hop
from holdfast.formats.http import HttpHead, decoded_content, parse_head
from holdfast.urls import canonical, parse

Deliver = Callable[[Fetched], None]
_ORIGINS_HELD = 1024
_DECODED_BYTES_MAX = 16 << 20


class BrowserRobots:
    """Rules of origins, fetched when they are first needed. Belongs to the event loop's thread."""

    def __init__(self, fetcher: Fetcher, job: CrawlJob) -> None:
        self._fetcher = fetcher
        self._obeys = job.fetch.robots
        self._delay = job.fetch.delay
        self._agent = agent_of(job)
        self._rules: LruCache[str, asyncio.Task[tuple[float, Robots]]] = LruCache(_ORIGINS_HELD)

    async def allow(self, url: str, page: FetchJob, deliver: Deliver) -> bool:
        """Whether the page may request the URL. What was fetched to find out is delivered as a part of the page."""
        origin = origin_of(url)
        if not self._obeys or url == f"{origin}/robots.txt":
            return True
        known = self._rules.get(origin)
        if known is None or (known.done() and known.result()[0] <= time.time()):
            known = asyncio.get_running_loop().create_task(self._fetch(origin, page, deliver))
            self._rules.put(origin, known)
        _, rules = await asyncio.shield(known)
        return rules.allows(url, self._agent)

    async def _fetch(self, origin: str, page: FetchJob, deliver: Deliver) -> tuple[float, Robots]:
        """Until when the rules hold, and the rules."""
        url = f"{origin}/robots.txt"
        for _ in range(REDIRECTS_MAX + 1):
            job = FetchJob(
                page.id, url, host_of(url), FetchKind.ROBOTS, Hop.PREREQUISITE, delay=self._delay, method="GET"
            )
            fetched = await self._fetcher.fetch(job, polite=False)
            head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK else None
            body = _body(fetched, head)
            deliver(fetched._replace(part=True))
            if not (url := _location(fetched, head)):
                break
        read = answer(fetched.outcome, head.status if head else 0, body, f"{origin}/robots.txt")
        return time.time() + read.lifetime_s, read.rules

    def close(self) -> None:
        for task in self._rules.values():
            task.cancel()


def _location(fetched: Fetched, head: HttpHead | None) -> str:
    """Where a redirect leads; empty if there is none."""
    if head is None or not 300 <= head.status < 400:
        return ""
    target = parse((head.headers.get("Location") or "").strip(), fetched.job.url)
    return canonical(target.href) if target is not None and target.scheme in ("http", "https") else ""


def _body(fetched: Fetched, head: HttpHead | None) -> bytes:
    if head is None or 300 <= head.status < 400:
        return b""
    body = fetched.body
    if fetched.spool:
        with Path(fetched.spool).open("rb") as file:
            body = file.read(ROBOTS_BYTES_MAX + 1)
    try:
        return decoded_content(body, head.headers, _DECODED_BYTES_MAX)[: ROBOTS_BYTES_MAX + 1]
    except TooLarge:
        return b""
