"""Dates of the formats, as the 14 digits of the catalog: `2004-05-01T12:30:15Z` is `20040501123015`.

WARC has ISO 8601 (1.1 allows fractions and cut-off forms), Tianwang and HTTP have RFC 822, ARC has digits already.
A wrong date gives '', never an error: the rules of the format decide whether that is a fault. `partial_timestamp`
takes from a wrong date what is usable.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache

DIGITS = 14
_FIRST_MOMENT = "00000101000000"  # what is missing from a date is its earliest
_ISO = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_USUAL = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z", re.ASCII)  # as nearly all are written
_LEFT = re.compile(
    r"(?<!\d)(\d{4})(?:[-/.]?(\d\d)(?:[-/.]?(\d\d)(?:[T _-]?(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_YEARS = frozenset(str(year) for year in range(1990, 2100))  # in which somebody may have archived a page
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@lru_cache(maxsize=4096)
def warc_timestamp(date: str) -> str:
    """14 digits of a WARC-Date, UTC; '' if it is not one."""
    if (usual := _USUAL.fullmatch(date)) is not None:
        return _checked("".join(usual.groups()))
    match = _ISO.fullmatch(date.strip())
    if match is None:
        return ""
    digits = "".join(part for part in match.groups()[:6] if part)
    digits = _checked(digits + _FIRST_MOMENT[len(digits) :])
    zone = match[7]
    if not digits or zone in (None, "Z", "z"):
        return digits
    return _in_utc(f"{digits} {zone}")


@lru_cache(maxsize=4096)
def arc_timestamp(date: str) -> str:
    """14 digits of an ARC date, which may be cut short or have digits of fractions; '' if it is not one."""
    if not (date.isascii() and date.isdigit()) or len(date) < 4:
        return ""
    return _checked(date[:DIGITS] + _FIRST_MOMENT[min(len(date), DIGITS) :])


@lru_cache(maxsize=4096)
def mail_timestamp(date: str) -> str:
    """14 digits of an RFC 822 date, UTC; '' if it is not one."""
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
    return _digits(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def partial_timestamp(date: str) -> str:
    """14 digits of a damaged date: its year, and as much of the rest as is valid; '' without a year."""
    text = date.strip()
    whole = warc_timestamp(text) or mail_timestamp(text)
    if whole and whole[:4] in _YEARS:
        return whole
    for match in _LEFT.finditer(text):
        parts = [part for part in match.groups() if part]
        if parts[0] not in _YEARS:
            continue
        while parts:
            digits = "".join(parts)
            if found := _checked(digits + _FIRST_MOMENT[len(digits) :]):
                return found
            parts.pop()
    return ""


def _checked(digits: str) -> str:
    """`digits` if they are a moment of the calendar."""
    is_moment = digits[8:10] < "24" and digits[10:12] < "60" and digits[12:] <= "60"  # 60: a leap second
    return digits if is_moment and _is_day(digits[:8]) else ""


@lru_cache(maxsize=4096)
def _is_day(digits: str) -> bool:
    try:
        date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    except ValueError:
        return False
    return True


def timestamp_at(seconds: float) -> str:
    """14 digits of a moment in seconds since the epoch."""
    return _digits(datetime.fromtimestamp(seconds, UTC))


def _in_utc(text: str) -> str:
    try:
        return _digits(datetime.strptime(text, "%Y%m%d%H%M%S %z"))
    except ValueError:
        return ""


def _digits(moment: datetime) -> str:
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return ""
    return f"{moment.year:04d}{moment:%m%d%H%M%S}"


def mail_date(timestamp: str) -> str:
    """14 digits as 'Tue, 15 Apr 2003 08:13:06 GMT' (RFC 822). Raises ValueError if there is no such day."""
    return f"{_mail_day(timestamp[:8])} {timestamp[8:10]}:{timestamp[10:12]}:{timestamp[12:14]} GMT"


@lru_cache(maxsize=4096)
def _mail_day(digits: str) -> str:
    day = date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    return f"{_DAYS[day.weekday()]}, {day.day:02d} {MONTHS[day.month - 1]} {day.year:04d}"
