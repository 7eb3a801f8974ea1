"""Revisit intervals, learned for each page from the changes that earlier visits found.

A visit shows only whether a page changed since the one before, not how often. The estimator of Cho and Garcia-Molina
("Estimating frequency of change", 2003, section 4) makes up for the changes that were missed: of n comparisons, I apart
on average, x of which found a change,

    rate = -ln((n - x + 0.5) / (n + 0.5)) / I           interval = 1 / rate

A page that changed at every visit is visited sooner than the last time, one that never did later and later. The
interval keeps to the bounds of the settings, and is never longer than the page has been watched. Comparisons beyond the
last 32 or so fade, beyond the last 4 while all find a change: so a page that changes its habits is followed.

Lifetimes say how long a page may stay that is not seen any more, and when it is visited for that (B4):

    seen ──lifetime──▶ end ──▶ visited ──▶ found         seen again: another lifetime
                                       ──▶ gone          the page is removed
                                       ──▶ unknown       visited again after `grace`, as often as it takes

Only a visit after the end counts, and only a server that says so makes a page gone. An unreachable host, an error, and
a robots.txt that forbids the visit say nothing about the page.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from holdfast.crawl.frontier import UrlRow
from holdfast.crawl.job.job import RevisitSettings
from holdfast.env.units import interval_words

_MEMORY: Final = 32.0  # comparisons
_MEMORY_IN_A_ROW: Final = 4.0  # while every visit finds a change
_ENCODED = "%d,%d" + ",%.14g" * 6


class History(NamedTuple):
    """What the visits of one page found; plain values. Times are seconds since the epoch."""

    visits: int = 0
    changes: int = 0
    first: float = 0.0  # visit
    last: float = 0.0  # visit
    changed: float = 0.0  # time of the last visit that found a change; 0: none did
    compared: float = 0.0  # comparisons that count, faded: n
    differed: float = 0.0  # of them: x
    spanned: float = 0.0  # seconds between the visits that they compare: n * I

    def after(self, changed: bool, at: float) -> History:
        """With one more visit. At the first there is nothing to compare with, so `changed` does not matter."""
        if not self.visits:
            return History(1, 0, at, at)
        at = max(at, self.last)  # clocks may be set back
        in_a_row = changed and self.changed == self.last
        memory = _MEMORY_IN_A_ROW if in_a_row else _MEMORY
        fading = min(1.0, (memory - 1) / self.compared) if self.compared else 1.0
        return History(
            self.visits + 1,
            self.changes + changed,
            self.first,
            at,
            at if changed else self.changed,
            self.compared * fading + 1,
            self.differed * fading + changed,
            self.spanned * fading + (at - self.last),
        )

    def changes_every_s(self) -> float:
        """The estimated time between two changes; infinite if none was seen."""
        if not self.differed:
            return math.inf
        rate = -math.log((self.compared - self.differed + 0.5) / (self.compared + 0.5))
        return self.spanned / self.compared / rate if rate > 0 else math.inf

    def interval_s(self, settings: RevisitSettings) -> float:
        """How long after the last visit the page is due again."""
        wanted = self.changes_every_s() if self.compared else settings.interval_first_s
        watched = max(settings.interval_first_s, self.last - self.first)
        return max(settings.interval_min_s, min(wanted, watched, settings.interval_max_s))

    def due(self, settings: RevisitSettings) -> float:
        """When the page is due; 0 if it was never visited."""
        return self.last + self.interval_s(settings) if self.visits else 0.0

    def explain(self, settings: RevisitSettings) -> str:
        """The interval and its reasons, for people."""
        again = f"due {interval_words(self.interval_s(settings))} after the last visit"
        if not self.visits:
            return "not visited yet"
        if not self.compared:
            return f"visited once, so nothing is known about its changes: {again}"
        watched = interval_words(self.last - self.first)
        seen = f"changed at {self.changes} of {self.visits - 1} visits after the first, in {watched}"
        every = self.changes_every_s()
        estimate = "no change is expected" if math.isinf(every) else f"it seems to change every {interval_words(every)}"
        return f"{seen}: {estimate}, {again}{self._bound(settings)}"

    def _bound(self, settings: RevisitSettings) -> str:
        """Which bound made the interval other than the estimate."""
        interval, wanted = self.interval_s(settings), self.changes_every_s()
        if interval == wanted:
            return ""
        if interval == settings.interval_max_s:
            return ", the longest that the settings allow"
        if interval == settings.interval_min_s:
            return ", the shortest that the settings allow"
        return ", as it has not been watched for longer"

    def encode(self) -> str:
        """What `decode` makes the same history of, to a thousandth of a second."""
        return _ENCODED % self

    @classmethod
    def decode(cls, text: str) -> History:
        """An empty history if `text` is empty or not a history."""
        if not text:
            return cls()
        try:
            visits, changes, *rest = map(float, text.split(","))
            history = cls(int(visits), int(changes), *rest)
        except (ValueError, TypeError, OverflowError):
            return cls()
        return history if history._is_sound() else cls()

    def _is_sound(self) -> bool:
        return (
            math.isfinite(sum(self)) and min(self) >= 0 and self.differed <= self.compared and self.first <= self.last
        )


def due_after(row: UrlRow, settings: RevisitSettings) -> int:
    """When a page is due after its last visit: by its history, or soon if that visit could not tell if it is there."""
    interval_s = History.decode(row.history).interval_s(settings)
    return int(row.visited + (min(interval_s, settings.grace_s) if row.is_unverified else interval_s))


class Lifetimes:
    """Of the pages of a crawl. Times are seconds since the epoch; infinite where a page may stay for ever."""

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
        """When a page is visited because of its lifetime, whether it is due or not."""
        end = self.end(row)
        return end if row.visited <= end else row.visited + self._grace_s

    def is_expired(self, row: UrlRow) -> bool:
        """Whether a page was visited after its end, and was gone. Rows have whole seconds: equal is not after."""
        return row.is_gone and row.visited > self.end(row)
