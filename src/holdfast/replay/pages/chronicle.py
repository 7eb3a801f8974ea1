"""What the calendar knows of a URL: counts by month and day, and the captures of one period."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.replay.pages.history import Mark, Seen

LISTED_MAX = 120  # captures on one page
_FINER = {4: 6, 6: 8, 8: 10, 10: 12, 12: 14}  # a period's next unit of time, in digits
_NEWS = (Mark.FIRST, Mark.CHANGED)


@dataclass(slots=True)
class Tally:
    """Captures of a month, day or hour."""

    captures: int = 0
    news: int = 0  # that are the first of the page or a change of it
    redirects: int = 0
    errors: int = 0
    only: str = ""  # timestamp, if there is just one

    def take(self, seen: Seen) -> None:
        self.captures += 1
        self.news += seen.mark in _NEWS
        self.redirects += seen.mark is Mark.REDIRECT
        self.errors += seen.mark is Mark.ERROR
        self.only = seen.capture.timestamp if self.captures == 1 else ""

    @property
    def mark(self) -> Mark:
        """The most telling of all."""
        if self.news:
            return Mark.CHANGED
        if self.redirects + self.errors < self.captures:
            return Mark.SAME
        return Mark.ERROR if self.errors else Mark.REDIRECT


@dataclass(slots=True)
class Chronicle:
    """Filled by `take`, in the order of time."""

    period: str  # digits of the time that is looked at
    total: Tally = field(default_factory=Tally)
    first: str = ""
    last: str = ""
    months: dict[str, Tally] = field(default_factory=dict)  # of all years, by six digits
    days: dict[str, Tally] = field(default_factory=dict)  # of the year that is looked at, by eight digits
    parts: dict[str, Tally] = field(default_factory=dict)  # of the period, by the next unit of time
    within: int = 0  # captures of the period
    listed: list[Seen] = field(default_factory=list)  # of these the first

    def take(self, seen: Seen) -> None:
        timestamp = seen.capture.timestamp
        self.first = self.first or timestamp
        self.last = timestamp
        self.total.take(seen)
        _count(self.months, timestamp[:6], seen)
        if timestamp.startswith(self.year):
            _count(self.days, timestamp[:8], seen)
        if timestamp.startswith(self.period):
            self._take_listed(timestamp, seen)

    def _take_listed(self, timestamp: str, seen: Seen) -> None:
        self.within += 1
        if (digits := _FINER.get(len(self.period))) is not None:
            _count(self.parts, timestamp[:digits], seen)
        if len(self.listed) < LISTED_MAX:
            self.listed.append(seen)

    @property
    def year(self) -> str:
        return self.period[:4]

    @property
    def is_cut(self) -> bool:
        """Whether more captures fall into the period than are listed."""
        return self.within > len(self.listed)


def _count(tallies: dict[str, Tally], key: str, seen: Seen) -> None:
    tally = tallies.get(key)
    if tally is None:
        tally = tallies[key] = Tally()
    tally.take(seen)
