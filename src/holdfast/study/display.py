"""Tables of studies as people read them, in terminals and pages: the name of a column says what it holds.

Columns `x_low` and `x_high` are the bounds of `x_days`, and are shown with it: `58 (49 to 70)`. Less than a day is
shown with its unit: `5h 20m`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.env.units import rounded_duration, rounded_size

_SHARES = frozenset(("within", "previous", "earlier", "urls_previous", "urls_earlier", "share", "saved"))
_SHARES_MORE = frozenset(("exact", "near", "survival", "low", "high", "exponential"))
_TIMES = frozenset(("date", "timestamp", "first", "last"))
_ENDS = ("_low", "_high")
_UNITS = {"tb": "TB", "gb": "GB", "percent": "%"}
_DAY_S = 86_400
_TIME_UNITS = {"days": 1, "hours": 24, "minutes": 1_440, "seconds": _DAY_S}


def shown_columns(names: Sequence[str]) -> list[str]:
    """Without the bounds of others."""
    bounds = {f"{name.removesuffix('_days')}{end}" for name in names if name.endswith("_days") for end in _ENDS}
    return [name for name in names if name not in bounds]


def heading(column: str) -> str:
    """`urls_previous` is 'urls previous %', `moved_tb` is 'moved TB'."""
    words = " ".join(_UNITS.get(word, word) for word in column.split("_"))
    return f"{words} %" if is_share(column) else words


def is_share(column: str) -> bool:
    """Whether numbers of this column are shares, from 0 to 1."""
    column = column.removeprefix("paper_")
    return column in _SHARES or column in _SHARES_MORE or column.endswith("_share")


def cell(column: str, row: Mapping[str, Any]) -> str:
    """The value of a column in a row, with its bounds if it has some; nothing if it is not known."""
    value = row[column]
    stem = column.removesuffix("_days")
    low, high = (row.get(stem + end) if stem != column else None for end in _ENDS)
    if value is None:
        return "" if low is None else f"over {_days(low)}"
    text = _text(column, value)
    if low is None:
        return text
    return f"{text} (over {_days(low)})" if high is None else f"{text} ({_days(low)} to {_days(high)})"


def in_time_unit(days: Sequence[float]) -> tuple[str, list[float]]:
    """The largest unit of time in which the longest of these is at least 2, and all of them in it."""
    longest = max(days, default=0.0)
    unit, scale = next((each for each in _TIME_UNITS.items() if longest * each[1] >= 2), ("seconds", _DAY_S))
    return unit, [scale * each for each in days]


def _text(column: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        is_time = column in _TIMES and len(value) == 14
        return f"{value[:4]}-{value[4:6]}-{value[6:8]}" if is_time else value
    if is_share(column):
        return f"{100 * value:.1f}"
    if column.endswith("_days"):
        return _days(value)
    if column == "bytes" or column.endswith("_bytes"):
        return rounded_size(int(value))
    return _number(value)


def _days(value: float) -> str:
    return rounded_duration(_DAY_S * value) if 0 < value < 1 else _number(value)


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
