"""Timestamps of 14 digits: partial ones as bounds, and their distance in seconds."""

from __future__ import annotations

import calendar
from datetime import datetime, timedelta
from functools import lru_cache

from holdfast.errors import MalformedQuery

_PUNCTUATION = str.maketrans("", "", "-:TZ ")
_PARTS = ((0, 4, 1, 9999), (4, 6, 1, 12), (6, 8, 1, 31), (8, 10, 0, 23), (10, 12, 0, 59), (12, 14, 0, 59))
_EPOCH = datetime(1, 1, 1)
_SECOND = timedelta(seconds=1)


def digits(text: str, name: str) -> str:
    """A time as a person or a script gives it: 1 to 14 digits from the year on, or the ISO form of such."""
    bare = text.strip().translate(_PUNCTUATION)
    if not (bare.isascii() and bare.isdigit() and len(bare) <= 14):
        raise MalformedQuery(f"bad time {text!r} for {name!r}: give 1 to 14 digits, such as 2020 or 20200102030405")
    for begin, end, low, high in _PARTS[1:]:
        part = bare[begin:end]
        if len(part) == end - begin and not low <= int(part) <= high:
            raise MalformedQuery(f"bad time {text!r} for {name!r}: {part} is out of range")
    return bare


def earliest(bare: str) -> str:
    """The bound below everything that begins with these digits."""
    return bare.ljust(14, "0")


def latest(bare: str) -> str:
    """The bound above everything that begins with these digits."""
    return bare.ljust(14, "9")


@lru_cache(1024)
def seconds(timestamp: str) -> int:
    """Since the year 1. Archives hold times that never were: these count as the nearest before that was."""
    try:
        moment = datetime.fromisoformat(f"{timestamp[:8]}T{timestamp[8:]}")
    except ValueError:
        moment = _nearest(timestamp)
    return (moment - _EPOCH) // _SECOND


def _nearest(timestamp: str) -> datetime:
    """A part out of its range draws those after it to the same end, so that the order of texts stays that of times."""
    values: list[int] = []
    drawn = 0
    for begin, end, low, most in _PARTS:
        high = calendar.monthrange(values[0], values[1])[1] if begin == 6 else most
        text = timestamp[begin:end]
        value = int(text) if text.isascii() and text.isdigit() else low
        if drawn == 0 and not low <= value <= high:
            drawn = -1 if value < low else 1
        if drawn:
            value = low if drawn < 0 else high
        values.append(value)
    return datetime(*values)  # type: ignore[arg-type]
