"""The calendar of a URL: all years as a timeline, one year by its days, and the captures of a year, month, day or hour.

    /<coll>/*/<url>         the newest year
    /<coll>/2024*/<url>     a year; 202402* a month, 20240229* a day, 2024022912* an hour of it

The history is streamed once; only counts, listed captures and the digests of contents are kept. So a URL with ten
thousand captures needs little more memory than one with ten. Every capture can be reached: instead of a list that is
too long, the page offers smaller units of time.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.web.context import WebContext
from holdfast.web.request import RequestTargetPath
from holdfast.web.ui.display import in_words, path_to
from holdfast.web.ui.history import ChangeMark, Seen, captures, history
from holdfast.web.ui.pages.explore import listing
from holdfast.web.ui.pages.not_found import not_archived
from holdfast.web.ui.render import render

LISTED_MAX = 120  # captures on one page
_FINER = {4: 6, 6: 8, 8: 10, 10: 12, 12: 14}  # a period's next unit of time, in digits
_GAP_YEARS_MAX = 60  # a longer timeline leaves out the years without captures
_BAR = 20  # height of the highest


@dataclass(slots=True)
class PeriodTally:
    """Captures of a month, day or hour."""

    captures: int = 0
    news: int = 0  # captures that are the first of the page or a change of it
    redirects: int = 0
    errors: int = 0
    only: str = ""  # timestamp, if there is just one

    def take(self, seen: Seen) -> None:
        self.captures += 1
        self.news += seen.mark in (ChangeMark.FIRST, ChangeMark.CHANGED)
        self.redirects += seen.mark is ChangeMark.REDIRECT
        self.errors += seen.mark is ChangeMark.ERROR
        self.only = seen.capture.timestamp if self.captures == 1 else ""

    @property
    def mark(self) -> ChangeMark:
        """The one that says most."""
        if self.news:
            return ChangeMark.CHANGED
        if self.redirects + self.errors < self.captures:
            return ChangeMark.SAME
        return ChangeMark.ERROR if self.errors else ChangeMark.REDIRECT


@dataclass(slots=True)
class Chronicle:
    """Counts of a URL's captures, and those of one period. Filled by `take`, in the order of time."""

    period: str  # digits of the time that is looked at
    total: PeriodTally = field(default_factory=PeriodTally)
    first: str = ""
    last: str = ""
    months: dict[str, PeriodTally] = field(default_factory=dict)  # of all years, by six digits
    days: dict[str, PeriodTally] = field(default_factory=dict)  # of the year that is looked at, by eight digits
    parts: dict[str, PeriodTally] = field(default_factory=dict)  # of the period, by the next unit of time
    within: int = 0  # captures of the period
    listed: list[Seen] = field(default_factory=list)  # the first of them
    contents: set[str] = field(default_factory=set)  # digests: one that comes back is no new version

    def take(self, seen: Seen) -> None:
        timestamp = seen.capture.timestamp
        self.first = self.first or timestamp
        self.last = timestamp
        self.total.take(seen)
        if seen.mark in (ChangeMark.FIRST, ChangeMark.CHANGED):
            self.contents.add(seen.capture.digest)
        self.months.setdefault(timestamp[:6], PeriodTally()).take(seen)
        if timestamp.startswith(self.year):
            self.days.setdefault(timestamp[:8], PeriodTally()).take(seen)
        if timestamp.startswith(self.period):
            self.within += 1
            if (digits := _FINER.get(len(self.period))) is not None:
                self.parts.setdefault(timestamp[:digits], PeriodTally()).take(seen)
            if len(self.listed) < LISTED_MAX:
                self.listed.append(seen)

    @property
    def year(self) -> str:
        return self.period[:4]


class TimelineBar(NamedTuple):
    """A month of a year."""

    month: int  # 0 to 11
    height: int
    news: int = 0  # height of the part that is new


class TimelinePeriod(NamedTuple):
    """A year on the timeline; on that of a search also a month."""

    label: str
    name: str  # in words
    captures: int
    bars: list[TimelineBar]
    address: str


def timeline_years(
    months: Mapping[str, int],
    address: Callable[[str], str],
    *,
    news: Mapping[str, int] | None = None,
    gap_years_max: int = _GAP_YEARS_MAX,
) -> list[TimelinePeriod]:
    """Every year from the first to the last. `months`, and of these `news`, are counts by six digits."""
    years = sorted({month[:4] for month in months})
    if int(years[-1]) - int(years[0]) < gap_years_max:
        years = [f"{year:04}" for year in range(int(years[0]), int(years[-1]) + 1)]
    most = max(months.values())
    found = []
    for year in years:
        counts = {number: months.get(f"{year}{number + 1:02}", 0) for number in range(12)}
        bars = []
        for number, count in counts.items():
            if count:
                height = bar_height(count, most)
                new = (news or {}).get(f"{year}{number + 1:02}", 0)
                bars.append(TimelineBar(number, height, max(2, round(height * new / count)) if new else 0))
        found.append(TimelinePeriod(year, year, sum(counts.values()), bars, address(year)))
    return found


def bar_height(count: int, most: int) -> int:
    return max(2, round(_BAR * count / most))


def year_grid(chronicle: Chronicle) -> list[tuple[str, str, list[list[int]]]]:
    """Six digits, name and weeks of twelve months; empty where the year is none that a calendar knows."""
    year = int(chronicle.year)
    if not 1 <= year <= 9999:
        return []
    months = [(f"{year:04}{month:02}", month) for month in range(1, 13)]
    return [(digits, in_words(digits).split()[0], calendar.monthcalendar(year, month)) for digits, month in months]


def is_pattern(url: str) -> bool:
    """Whether the URL of a calendar has a star: it stands for all URLs that match."""
    return url.endswith("*") or url.removeprefix("http://").startswith("*.")


async def calendar_page(site: WebContext, request: Request, target: RequestTargetPath) -> Response:
    """The page for a target of kind `calendar`; a star in the URL asks for all that begin so."""
    if is_pattern(target.url):
        return await listing(site, request, target.collection, target.url.removeprefix("http://"))
    chronicle = await run_in_threadpool(read_chronicle, site, target)
    if not chronicle.total.captures:
        return not_archived(site, request, target)
    years = timeline_years(
        {month: tally.captures for month, tally in chronicle.months.items()},
        lambda year: path_to(target.collection, f"{year}*", target.url),
        news={month: tally.news for month, tally in chronicle.months.items()},
    )
    values: dict[str, Any] = {"target": target, "chronicle": chronicle, "years": years, "months": year_grid(chronicle)}
    return render(site, request, "calendar.html", q=target.url, **values)


def read_chronicle(site: WebContext, target: RequestTargetPath) -> Chronicle:
    """Everything that the page shows; the period is the newest year if none was asked for."""
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
