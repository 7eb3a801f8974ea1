"""Pages fetched without a browser, because there is none: each says so in the log."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.processes.messages import Fetched, FetchJob


class WithoutBrowser:
    """Stands in for a Browser."""

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
    """With one thing more to say about it."""
    return fetched._replace(detail=f"{fetched.detail}; {note}" if fetched.detail else note) if note else fetched
