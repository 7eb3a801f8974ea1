"""A page while a browser shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.crawl.processes.messages import Fetched, FetchJob

REQUESTS_MAX = 2000  # of one page; more are refused
PARTS_BYTES_MAX = 64 << 20  # that wait for their page
_LOOK_S = 0.02


class Visit:
    """The pending requests of a page, and their results. Belongs to the event loop's thread."""

    def __init__(self, page: Fetched, deliver: Callable[[Fetched], None]) -> None:
        self.page = page  # replaced if the page loads itself again
        self._deliver = deliver
        self._parts: list[Fetched] | None = []  # until the page is done
        self._parts_bytes = 0
        self.frame = ""  # the main one, by Chromium's name for it
        self.requests = 0
        self.reloads = 0
        self.left_for: list[str] = []  # where the page wanted to go
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting = 0
        self._quiet_since = self._now()

    @property
    def job(self) -> FetchJob:
        return self.page.job

    def keep(self, part: Fetched) -> None:
        """Parts go out together, so that the crawl does not fetch what the page is about to request."""
        if self._parts is None:
            self._deliver(part)
            return
        self._parts.append(part)
        self._parts_bytes += len(part.body)
        if self._parts_bytes > PARTS_BYTES_MAX:
            self._flush()
            self._parts = []

    def finish(self, page: Fetched) -> None:
        """All parts are out, then the page is. What still comes goes out as it comes."""
        self._flush()
        self._deliver(page)

    def _flush(self) -> None:
        parts, self._parts, self._parts_bytes = self._parts or [], None, 0
        for part in parts:
            self._deliver(part)

    def begin(self) -> None:
        self._waiting += 1

    def end(self) -> None:
        self._waiting -= 1
        self._quiet_since = self._now()

    def stir(self) -> None:
        """Something was done to the page that may lead to requests."""
        self._quiet_since = self._now()

    def fail(self, why: str) -> None:
        """The browser, or the page in it, is gone."""
        if not self.failed.done():
            self.failed.set_result(why)

    async def idle(self, seconds: float, deadline: float) -> bool:
        """Waits until the page has waited for nothing for so long. False if the deadline came first."""
        while self._waiting or self._now() - self._quiet_since < seconds:
            if self._now() >= deadline:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
