"""URLs and dates as they stand in `Link` headers, TimeMaps and redirects."""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache

from holdfast.catalog.times import earliest, seconds

_DATES_KEPT = 16_384
_LINKS_KEPT = 4096
_FIRST_DAY = datetime(1, 1, 1, tzinfo=UTC)
_UNFIT = re.compile(rb'[^!-~]|[<>"]')  # would end the angle brackets, the line, or the header
_CLOCK = re.compile(r"(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIT = re.compile(r"[!#-;=?-~]*")


def uri(url: str) -> str:
    """The URL in ASCII, with nothing in it that ends a link or a line. What is fit stays as it is, byte for byte."""
    if _FIT.fullmatch(url):
        return url
    return _UNFIT.sub(_escaped, url.encode("utf-8", "surrogateescape")).decode("ascii")


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


@lru_cache(_DATES_KEPT)
def http_date(timestamp: str) -> str:
    """A timestamp of 14 digits as HTTP writes it: `Thu, 31 May 2007 20:35:00 GMT`."""
    try:
        day = date(int(timestamp[:4]), int(timestamp[4:6]), int(timestamp[6:8]))
    except ValueError:
        return format_datetime(moment(timestamp), usegmt=True)
    if not _CLOCK.fullmatch(timestamp, 8):
        return format_datetime(moment(timestamp), usegmt=True)
    clock = f"{timestamp[8:10]}:{timestamp[10:12]}:{timestamp[12:14]}"
    return f"{_WEEKDAYS[day.weekday()]}, {day.day:02d} {_MONTHS[day.month - 1]} {day.year:04d} {clock} GMT"


def moment(timestamp: str) -> datetime:
    """Archives hold times that never were: these count as the nearest before that was."""
    return _FIRST_DAY + timedelta(seconds=seconds(timestamp))


def real_time(timestamp: str) -> str:
    """14 digits for a time as people ask for it: partial ones are padded, what never was is the nearest that was."""
    return moment(earliest(timestamp)).strftime("%Y%m%d%H%M%S").rjust(14, "0")


class LinkCache:
    """`Link` headers that were made, as long as the catalog stays as it is. For the thread of the event loop."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._kept: dict[Hashable, bytes] = {}

    def get(self, key: Hashable, state: Hashable) -> bytes | None:
        if state != self._state:
            self._kept.clear()
            self._state = state
        return self._kept.get(key)

    def put(self, key: Hashable, links: bytes) -> None:
        if len(self._kept) >= _LINKS_KEPT:
            self._kept.clear()
        self._kept[key] = links
