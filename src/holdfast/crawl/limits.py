"""When a crawl has done what it may: URLs, time, bytes."""

from __future__ import annotations

import time

from holdfast.crawl.crawls import CrawlState
from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job import CrawlJob


class Limits:
    """Those of URLs and bytes count over all runs of a visit, that of time from now on. One thread."""

    def __init__(self, job: CrawlJob, frontier: Frontier) -> None:
        self._job = job
        self._frontier = frontier
        self._started = time.monotonic()

    def renew(self) -> None:
        """What was reached at the end of an earlier run counts anew."""
        totals = self._frontier.totals
        if self.allowance == 0:
            totals.allowance_from = totals.tally.fetched
        if self._is_over_quota():
            totals.quota_from = totals.tally.transferred_bytes

    @property
    def allowance(self) -> int | None:
        """URLs that may still be fetched."""
        if self._job.limit is None:
            return None
        totals = self._frontier.totals
        return max(0, self._job.limit - (totals.tally.fetched - totals.allowance_from))

    def reached(self) -> tuple[CrawlState, str] | None:
        """How the crawl ends, and why, if it does."""
        job = self._job
        if self.allowance == 0:
            return CrawlState.LIMIT, f"{job.limit} URLs are fetched"
        if job.time_s is not None and time.monotonic() - self._started >= job.time_s:
            return CrawlState.LIMIT, "the time is over"
        if self._is_over_quota():
            return CrawlState.LIMIT, "the bytes allowed are transferred"
        return None

    def _is_over_quota(self) -> bool:
        totals, most = self._frontier.totals, self._job.bytes_max
        return most is not None and totals.tally.transferred_bytes - totals.quota_from >= most
