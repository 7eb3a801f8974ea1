"""Periods of time: days, weeks, months and years, with names that sort by time.

day     2002-11-02
week    2002-W44      of ISO 8601: it begins on a Monday
month   2002-11
year    2002
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import lru_cache

from holdfast.errors import UnknownName

AUTO = "auto"
_PERIODS_MAX = 150  # of a unit that is chosen automatically
_DAYS_KEPT = 65_536
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_WEEK_LENGTH = len("2002-W44")
_REST = {4: "-01-01", 7: "-01", _WEEK_LENGTH: "-1", 10: ""}  # what the name of a period lacks to that of a day


class PeriodUnit(StrEnum):
    """How long a period is."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    @property
    def days(self) -> int:
        """About how many."""
        return _UNIT_DAYS[self.value]

    @classmethod
    def parse(cls, text: str) -> tuple[PeriodUnit, ...]:
        """The unit, or all of them for `auto`. Raises UnknownName."""
        try:
            return tuple(cls) if text == AUTO else (cls(text),)
        except ValueError:
            raise UnknownName(f"cannot count by {text!r}: one of {AUTO}, {', '.join(cls)}") from None


@lru_cache(_DAYS_KEPT)
def periods_of(day: str) -> tuple[str, str, str, str]:
    """Day, week, month and year of a day of 8 digits. An impossible one counts as the last day of its month."""
    year, month = int(day[:4]), int(day[4:6])
    try:
        found = date(year, month, int(day[6:8]))
    except ValueError:
        found = _end_of_month(min(max(year, 1), 9998), min(max(month, 1), 12))
    week = found.isocalendar()
    return found.isoformat(), f"{week.year:04}-W{week.week:02}", found.isoformat()[:7], found.isoformat()[:4]


def first_day(period: str) -> date:
    """The first day of a period, by its name."""
    return date.fromisoformat(period + _REST[len(period)])


def last_day(period: str) -> date:
    """The last day of a period, by its name."""
    begin = first_day(period)
    match len(period):
        case 4:
            return date(begin.year, 12, 31)
        case 7:
            return _end_of_month(begin.year, begin.month)
        case 8:
            return date.fromordinal(min(begin.toordinal() + 6, date.max.toordinal()))
        case _:
            return begin


def _end_of_month(year: int, month: int) -> date:
    if (year, month) == (9999, 12):
        return date.max
    return date.fromordinal(date(year + month // 12, month % 12 + 1, 1).toordinal() - 1)


def best_unit(known: Mapping[PeriodUnit, Sequence[str]]) -> PeriodUnit:
    """The shortest unit whose periods have captures mostly, and are not too many; `known` are those with captures."""
    for unit, periods in known.items():
        if periods:
            days = (first_day(max(periods)) - first_day(min(periods))).days
            span = days // unit.days + 1
            if span <= _PERIODS_MAX and 2 * len(periods) >= span:
                return unit
    return PeriodUnit.YEAR
