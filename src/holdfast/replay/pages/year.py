"""The timeline of all years and the grid of one: numbers for the template, which only draws."""

from __future__ import annotations

import calendar
from typing import NamedTuple

from holdfast.replay.pages.chronicle import Chronicle, Tally
from holdfast.replay.pages.display import in_words

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
GAP_YEARS_MAX = 60  # a longer timeline leaves out the years without captures
BAR = 20  # height of the highest


class Bar(NamedTuple):
    """A month on the timeline."""

    month: int  # 0 to 11
    height: int
    news: int  # height of the part that is new


class YearLink(NamedTuple):
    """A year on the timeline."""

    year: str
    captures: int
    bars: list[Bar]


class Day(NamedTuple):
    """A day of the grid; `number` 0 stands for none."""

    number: int
    date: str = ""  # eight digits
    tally: Tally | None = None


class Month(NamedTuple):
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


def _bars(chronicle: Chronicle, year: str, most: int) -> list[Bar]:
    bars = []
    for month in range(12):
        tally = chronicle.months.get(f"{year}{month + 1:02}")
        if tally is not None:
            height = max(2, round(BAR * tally.captures / most))
            news = max(2, round(height * tally.news / tally.captures)) if tally.news else 0
            bars.append(Bar(month, height, news))
    return bars


def year_grid(chronicle: Chronicle) -> list[Month]:
    """Twelve months by weeks; empty where the year is none that a calendar knows."""
    year = int(chronicle.year)
    if not 1 <= year <= 9999:
        return []
    return [_month(chronicle, year, month) for month in range(1, 13)]


def _month(chronicle: Chronicle, year: int, month: int) -> Month:
    prefix = f"{year:04}{month:02}"
    weeks = [[_day(chronicle, prefix, number) for number in week] for week in calendar.monthcalendar(year, month)]
    tally = chronicle.months.get(prefix)
    return Month(in_words(f"0000{month:02}").split()[0], tally.captures if tally else 0, weeks)


def _day(chronicle: Chronicle, prefix: str, number: int) -> Day:
    date = f"{prefix}{number:02}"
    return Day(number, date, chronicle.days.get(date)) if number else Day(0)
