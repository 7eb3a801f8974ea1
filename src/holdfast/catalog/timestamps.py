"""Timestamps of 14 digits: partial ones as bounds, their distance in seconds, and as HTTP writes them."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from holdfast.errors import MalformedQuery
from holdfast.formats.dates import mail_date

_PUNCTUATION = str.maketrans("", "", "-:TZ ")
_PARTS = ((0, 4, 1, 9999), (4, 6, 1, 12), (6, 8, 1, 31), (8, 10, 0, 23), (10, 12, 0, 59), (12, 14, 0, 59))
_EPOCH = datetime(1, 1, 1)
_SECOND = timedelta(seconds=1)
_DATES_KEPT = 16_384
_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]")


@lru_cache(_DATES_KEPT)
def digits(text: str, name: str) -> str:
    """A time as users write it: 1 to 14 digits from the year on, or in ISO form."""
    bare = text.strip().translate(_PUNCTUATION)
    if not (bare.isascii() and bare.isdigit() and len(bare) <= 14):
        raise MalformedQuery(f"bad time {text!r} for {name!r}: give 1 to 14 digits, such as 2020 or 20200102030405")
    for begin, end, low, high in _PARTS[1:]:
        part = bare[begin:end]
        if len(part) == end - begin and not low <= int(part) <= high:
            raise MalformedQuery(f"bad time {text!r} for {name!r}: {part} is out of range")
    return bare


def earliest(bare: str) -> str:
    """The earliest time that begins with these digits."""
    return bare.ljust(14, "0")


def latest(bare: str) -> str:
    """The latest time that begins with these digits."""
    return bare.ljust(14, "9")


@lru_cache(1024)
def seconds(timestamp: str) -> int:
    """Since the year 1. An impossible time, which archives hold, counts as the nearest valid one before it."""
    try:
        moment = datetime.fromisoformat(f"{timestamp[:8]}T{timestamp[8:]}")
    except ValueError:
        moment = _nearest(timestamp)
    return (moment - _EPOCH) // _SECOND


@lru_cache(_DATES_KEPT)
def http_date(timestamp: str) -> str:
    """A timestamp of 14 digits as HTTP writes it; an impossible one as the nearest valid one before it."""
    try:
        if _CLOCK.fullmatch(timestamp, 8):
            return mail_date(timestamp)
    except ValueError:  # there is no such day
        pass
    return mail_date(real_time(timestamp))


def moment(timestamp: str) -> datetime:
    """An impossible time counts as the nearest valid one before it."""
    return _EPOCH.replace(tzinfo=UTC) + timedelta(seconds=seconds(timestamp))


def real_time(timestamp: str) -> str:
    """14 digits for a requested time: a partial one is padded, an impossible one becomes the nearest valid one."""
    return moment(earliest(timestamp)).strftime("%Y%m%d%H%M%S").rjust(14, "0")


def _nearest(timestamp: str) -> datetime:
    """A part out of range moves the parts after it to the same end, so that texts and times sort alike."""
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
