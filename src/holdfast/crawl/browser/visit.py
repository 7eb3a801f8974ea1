"""A page while a browser shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.crawl.messages import Fetched, Job

REQUESTS_MAX = 2000  # of one page; whatever it wants beyond is refused
_LOOK_S = 0.02


class Visit:
    """What the page waits for, and what it has led to. Belongs to the event loop's thread."""

    def __init__(self, page: Fetched, deliver: Callable[[Fetched], None]) -> None:
        self.page = page  # replaced if the page loads itself again
        self.deliver = deliver
        self.frame = ""  # the main one, by Chromium's name for it
        self.requests = 0
        self.reloads = 0
        self.left_for: list[str] = []  # where the page wanted to go
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting = 0
        self._quiet_since = self._now()

    @property
    def job(self) -> Job:
        return self.page.job

    def begin(self) -> None:
        self._waiting += 1

    def end(self) -> None:
        self._waiting -= 1
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
