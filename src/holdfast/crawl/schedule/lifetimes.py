"""Lifetimes: how long a page may stay that is not seen any more, and when it is looked for (B4).

    seen ──lifetime──▶ end ──▶ looked for ──▶ found         seen again: another lifetime
                                          ──▶ gone          the page is removed
                                          ──▶ neither       looked for again after `grace`, as often as it takes

Only a look after the end counts, and only a server that says so makes a page gone. A host that cannot be reached, an
error, and a robots.txt that forbids the look say nothing about the page.
"""

from __future__ import annotations

import math
import re

from holdfast.crawl.frontier import UrlRow
from holdfast.crawl.job.job import RevisitSettings


class Lifetimes:
    """Those of the pages of a crawl. Times are seconds since the epoch; infinite where a page may stay for ever."""

    def __init__(self, settings: RevisitSettings) -> None:
        self._rules = [(re.compile(pattern), seconds) for pattern, seconds in settings.lifetimes]
        self._otherwise = settings.lifetime_s
        self._grace_s = settings.grace_s
        self.are_used = bool(self._otherwise) or any(seconds for _, seconds in settings.lifetimes)

    def of(self, url: str) -> float:
        """The allowed lifetime in seconds: that of the first rule that matches, or else that of all pages."""
        chosen = next((seconds for pattern, seconds in self._rules if pattern.search(url)), self._otherwise)
        return chosen or math.inf

    def end(self, row: UrlRow) -> float:
        """When the lifetime of a page is over unless it is seen again. A page that was never seen has none."""
        return row.reached + self.of(row.url) if row.reached else math.inf

    def look(self, row: UrlRow) -> float:
        """When a page is looked for because of its lifetime, whether it is due or not."""
        end = self.end(row)
        return end if row.visited <= end else row.visited + self._grace_s

    def is_expired(self, row: UrlRow) -> bool:
        """Whether a page was looked for after its end, and was gone. Rows have whole seconds: equal is not after."""
        return row.is_gone and row.visited > self.end(row)
