"""Tables of studies as people read them, in terminals and pages: the name of a column says what it holds.

Columns `x_low` and `x_high` are the bounds of `x_days`, and are shown with it: `58 (49 to 70)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.env.units import rounded_size

_SHARES = frozenset(("within", "previous", "earlier", "urls_previous", "urls_earlier", "share", "saved"))
_SHARES_MORE = frozenset(("exact", "near", "survival", "low", "high", "exponential"))
_TIMES = frozenset(("date", "timestamp", "first", "last"))
_ENDS = ("_low", "_high")


def shown_columns(names: Sequence[str]) -> list[str]:
    """Without the bounds of others."""
    bounds = {f"{name.removesuffix('_days')}{end}" for name in names if name.endswith("_days") for end in _ENDS}
    return [name for name in names if name not in bounds]


def heading(column: str) -> str:
    """`urls_previous` is 'urls previous %'."""
    words = column.replace("_", " ")
    return f"{words} %" if is_share(column) else words


def is_share(column: str) -> bool:
    """Whether numbers of this column are shares, from 0 to 1."""
    return column in _SHARES or column in _SHARES_MORE or column.endswith("_share")


def cell(column: str, row: Mapping[str, Any]) -> str:
    """The value of a column in a row, with its bounds if it has some; nothing if it is not known."""
    value = row[column]
    stem = column.removesuffix("_days")
    low, high = (row.get(stem + end) if stem != column else None for end in _ENDS)
    if value is None:
        return "" if low is None else f"over {_number(low)}"
    text = _text(column, value)
    if low is None:
        return text
    return f"{text} (over {_number(low)})" if high is None else f"{text} ({_number(low)} to {_number(high)})"


def _text(column: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        is_time = column in _TIMES and len(value) == 14
        return f"{value[:4]}-{value[4:6]}-{value[6:8]}" if is_time else value
    if is_share(column):
        return f"{100 * value:.1f}"
    if column == "bytes" or column.endswith("_bytes"):
        return rounded_size(int(value))
    return _number(value)


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
