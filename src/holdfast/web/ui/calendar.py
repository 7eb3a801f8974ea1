"""The calendar of a URL: all years as a timeline, one year by its days, and the captures of a year, month, day or hour.

    /<coll>/*/<url>         the newest year
    /<coll>/2024*/<url>     a year; 202402* a month, 20240229* a day, 2024022912* an hour of it

The history is read once, streaming; only counts and the captures that are listed are kept. So a URL with ten thousand
captures costs no more memory than one with ten, and every one of them can be reached: what is too long to be listed is
parted by the next unit of time.

What the calendar knows of a URL: counts by month and day, and the captures of one period.

The timeline of all years and the grid of one: numbers for the template, which only draws.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath
from holdfast.web.ui.display import in_words
from holdfast.web.ui.explore import listing
from holdfast.web.ui.history import ChangeMark, Seen, captures, history
from holdfast.web.ui.not_found import not_archived
from holdfast.web.ui.render import render

LISTED_MAX = 120  # captures on one page
_FINER = {4: 6, 6: 8, 8: 10, 10: 12, 12: 14}  # a period's next unit of time, in digits
_NEWS = (ChangeMark.FIRST, ChangeMark.CHANGED)


@dataclass(slots=True)
class PeriodTally:
    """Captures of a month, day or hour."""

    captures: int = 0
    news: int = 0  # that are the first of the page or a change of it
    redirects: int = 0
    errors: int = 0
    only: str = ""  # timestamp, if there is just one

    def take(self, seen: Seen) -> None:
        self.captures += 1
        self.news += seen.mark in _NEWS
        self.redirects += seen.mark is ChangeMark.REDIRECT
        self.errors += seen.mark is ChangeMark.ERROR
        self.only = seen.capture.timestamp if self.captures == 1 else ""

    @property
    def mark(self) -> ChangeMark:
        """The most telling of all."""
        if self.news:
            return ChangeMark.CHANGED
        if self.redirects + self.errors < self.captures:
            return ChangeMark.SAME
        return ChangeMark.ERROR if self.errors else ChangeMark.REDIRECT


@dataclass(slots=True)
class Chronicle:
    """Filled by `take`, in the order of time."""

    period: str  # digits of the time that is looked at
    total: PeriodTally = field(default_factory=PeriodTally)
    first: str = ""
    last: str = ""
    months: dict[str, PeriodTally] = field(default_factory=dict)  # of all years, by six digits
    days: dict[str, PeriodTally] = field(default_factory=dict)  # of the year that is looked at, by eight digits
    parts: dict[str, PeriodTally] = field(default_factory=dict)  # of the period, by the next unit of time
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


def _count(tallies: dict[str, PeriodTally], key: str, seen: Seen) -> None:
    tally = tallies.get(key)
    if tally is None:
        tally = tallies[key] = PeriodTally()
    tally.take(seen)


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
GAP_YEARS_MAX = 60  # a longer timeline leaves out the years without captures
BAR = 20  # height of the highest


class YearBar(NamedTuple):
    """A month on the timeline."""

    month: int  # 0 to 11
    height: int
    news: int  # height of the part that is new


class YearLink(NamedTuple):
    """A year on the timeline."""

    year: str
    captures: int
    bars: list[YearBar]


class Day(NamedTuple):
    """A day of the grid; `number` 0 stands for none."""

    number: int
    date: str = ""  # eight digits
    tally: PeriodTally | None = None


class CalendarMonth(NamedTuple):
    """A month of the grid."""

    name: str
    captures: int
    weeks: list[list[Day]]


def year_links(chronicle: Chronicle) -> list[YearLink]:
    """Every year from the first to the last, with a bar for each month that has captures."""
    counts: dict[str, int] = {}
    for month, tally in chronicle.months.items():
        counts[month[:4]] = counts.get(month[:4], 0) + tally.captures
    first, last = min(counts), max(counts)
    years = sorted(counts)
    if int(last) - int(first) < GAP_YEARS_MAX:
        years = [f"{year:04}" for year in range(int(first), int(last) + 1)]
    most = max(tally.captures for tally in chronicle.months.values())
    return [YearLink(year, counts.get(year, 0), _bars(chronicle, year, most)) for year in years]


def _bars(chronicle: Chronicle, year: str, most: int) -> list[YearBar]:
    bars = []
    for month in range(12):
        tally = chronicle.months.get(f"{year}{month + 1:02}")
        if tally is not None:
            height = max(2, round(BAR * tally.captures / most))
            news = max(2, round(height * tally.news / tally.captures)) if tally.news else 0
            bars.append(YearBar(month, height, news))
    return bars


def year_grid(chronicle: Chronicle) -> list[CalendarMonth]:
    """Twelve months by weeks; empty where the year is none that a calendar knows."""
    year = int(chronicle.year)
    if not 1 <= year <= 9999:
        return []
    return [_month(chronicle, year, month) for month in range(1, 13)]


def _month(chronicle: Chronicle, year: int, month: int) -> CalendarMonth:
    prefix = f"{year:04}{month:02}"
    weeks = [[_day(chronicle, prefix, number) for number in week] for week in calendar.monthcalendar(year, month)]
    tally = chronicle.months.get(prefix)
    return CalendarMonth(in_words(f"0000{month:02}").split()[0], tally.captures if tally else 0, weeks)


def _day(chronicle: Chronicle, prefix: str, number: int) -> Day:
    date = f"{prefix}{number:02}"
    return Day(number, date, chronicle.days.get(date)) if number else Day(0)


async def calendar_page(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """The page for a target of kind `calendar`; a star in the URL asks for all that begin so."""
    if target.url.endswith("*") or target.url.removeprefix("http://").startswith("*."):
        return await listing(site, request, target.collection, target.url.removeprefix("http://"))
    chronicle = await run_in_threadpool(read_chronicle, site, target)
    if not chronicle.total.captures:
        return not_archived(site, request, target)
    return render(
        site,
        request,
        "calendar.html",
        target=target,
        chronicle=chronicle,
        years=year_links(chronicle),
        months=year_grid(chronicle),
        q=target.url,
    )


def read_chronicle(site: WebContext, target: RequestTargetPath) -> Chronicle:
    """Everything the page tells; the period is the newest year if none was asked for."""
    collection = site.collection(target.collection)
    period = target.timestamp
    if len(period) < 4:
        backwards = captures(site, CaptureQuery(url=target.url, match="exact", collection=collection, sort="reverse"))
        newest = next((each.timestamp for each in backwards if each.timestamp.startswith(period)), "")
        period = newest[:4] or period
    chronicle = Chronicle(period)
    for seen in history(site, collection, target.url):
        chronicle.take(seen)
    return chronicle
