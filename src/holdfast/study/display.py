"""Tables of studies as people read them, in terminals and pages: the name of a column says what it holds.

Times and sizes are shown with their units: `41.5d`, `5h 20m`, `2.3 GiB`. Columns `x_low` and `x_high` are the bounds of
`x_days`, and are shown with it: `58d (49d to 70d)`. A column `unit` says what the figures of a row are; those in bytes
are shown as sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.env.units import rounded_duration, rounded_size

_SHARES = frozenset(("within", "previous", "earlier", "urls_previous", "urls_earlier", "share", "saved"))
_SHARES_MORE = frozenset(("exact", "near", "survival", "low", "high", "exponential"))
_TIMES = frozenset(("date", "timestamp", "first", "last"))
_ENDS = ("_low", "_high")
_WORDS = {"percent": "%", "url": "URL", "urls": "URLs", "tld": "TLD"}
_FIGURES = frozenset(("value", "value_low", "value_high", "calculated"))  # in the unit of their row
_SIZE_UNITS = {"bytes": "", "bytes/day": "/day"}  # and what stands behind the size
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")
_DAY_S = 86_400
_TIME_UNITS = {"days": 1, "hours": 24, "minutes": 1_440, "seconds": _DAY_S}


def shown_columns(names: Sequence[str]) -> list[str]:
    """Without the bounds of others."""
    bounds = {f"{name.removesuffix('_days')}{end}" for name in names if name.endswith("_days") for end in _ENDS}
    return [name for name in names if name not in bounds]


def heading(column: str) -> str:
    """`urls_previous` is 'URLs previous %'; `half_life_days` is 'half life', as each of its values has a unit."""
    words = " ".join(_WORDS.get(word, word) for word in column.removesuffix("_days").split("_"))
    return f"{words} %" if is_share(column) else words


def is_share(column: str) -> bool:
    """Whether numbers of this column are shares, from 0 to 1."""
    column = column.removeprefix("paper_")
    return column in _SHARES or column in _SHARES_MORE or column.endswith("_share")


def cell(column: str, row: Mapping[str, Any]) -> str:
    """The value of a column in a row, with its bounds if it has some; nothing if it is not known."""
    value = row[column]
    if (unit := row.get("unit")) in _SIZE_UNITS:
        if column == "unit":
            return ""
        if column in _FIGURES and value is not None:
            return f"{rounded_size(value)}{_SIZE_UNITS[unit]}"
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


def in_size_unit(sizes: Sequence[float], largest: float | None = None) -> tuple[str, list[float]]:
    """The largest unit of size in which the largest of these, or another, is at least 1, and all of them in it."""
    most = max(sizes, default=0.0) if largest is None else largest
    power = max((each for each in range(len(_SIZES)) if most >= 1024**each), default=0)
    return _SIZES[power], [each / 1024**power for each in sizes]


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
    return rounded_duration(_DAY_S * value) if 0 < value < 1 else f"{_number(value)}d"


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
