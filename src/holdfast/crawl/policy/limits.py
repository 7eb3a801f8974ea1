"""The limits of a crawl: URLs, time, bytes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.report.crawls import CrawlState
from holdfast.crawl.share import CrawlShare

GRACE_S = 5.0  # for requests that are under way when a crawl ends; longer ones are cancelled
_OVER = 0.05  # share of the time that these requests may exceed it by
_EARLY = 0.1  # share of it that is reserved at most for storing what was fetched
_PACE_S = 5.0  # over which the speed of storing is measured


class CrawlLimits:
    """URLs and bytes count over all runs of a visit, time from the given moment. One thread."""

    def __init__(
        self,
        job: CrawlJob,
        frontier: Frontier,
        started: float,
        clock: Callable[[], float] = time.monotonic,
        share: CrawlShare | None = None,
    ) -> None:
        """With a `share`, that decides how many URLs and bytes this node may fetch, and when the crawl ends."""
        self._job = job
        self._share = share
        self._frontier = frontier
        self._clock = clock
        self._started = started  # by that clock
        self._settled: deque[tuple[float, int]] = deque()  # when, and how many in all until then

    def renew(self) -> None:
        """A limit that an earlier run reached starts again."""
        if self._share is not None:
            return
        totals = self._frontier.totals
        if self.allowance == 0:
            totals.allowance_from = totals.tally.fetched
        if self._is_over_quota():
            totals.quota_from = totals.tally.transferred_bytes

    @property
    def allowance(self) -> int | None:
        """URLs that may still be fetched."""
        if self._share is not None:
            return self._share.allowance
        if self._job.limit is None:
            return None
        totals = self._frontier.totals
        return max(0, self._job.limit - (totals.tally.fetched - totals.allowance_from))

    def settled(self, count: int) -> None:
        """So many more fetches are settled, now."""
        now = self._clock()
        total = self._settled[-1][1] if self._settled else 0
        self._settled.append((now, total + count))
        while self._settled[0][0] < now - _PACE_S:
            self._settled.popleft()

    def reached(self, unsettled: int = 0) -> tuple[CrawlState, str] | None:
        """How the crawl ends, and why, if it does. The time includes what storing `unsettled` fetches will take."""
        job = self._job
        if self._share is not None:
            return None
        if self.allowance == 0:
            return CrawlState.LIMIT, f"{job.limit} URLs are fetched"
        if job.time_s is not None:
            early = min(self._settling_s(unsettled), _EARLY * job.time_s)
            if self._clock() - self._started >= job.time_s - early:
                return CrawlState.LIMIT, "the time is over"
        if self._is_over_quota():
            return CrawlState.LIMIT, "the bytes allowed are transferred"
        return None

    @property
    def grace_s(self) -> float:
        """How long requests under way may take if the crawl ends now."""
        if self._job.time_s is None:
            return GRACE_S
        over = self._started + (1 + _OVER) * self._job.time_s
        return max(0.0, min(GRACE_S, over - self._clock()))

    def _settling_s(self, unsettled: int) -> float:
        """Estimated by the last seconds."""
        if len(self._settled) < 2:
            return 0.0
        (first, before), (last, total) = self._settled[0], self._settled[-1]
        return unsettled * (last - first) / max(total - before, 1)

    def _is_over_quota(self) -> bool:
        totals, most = self._frontier.totals, self._job.bytes_max
        return most is not None and totals.tally.transferred_bytes - totals.quota_from >= most
