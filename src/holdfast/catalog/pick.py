"""Which capture of a URL stands for a time: the one rule of replay, Memento, API, commands and Python (H8).

    nearest      the nearest to it; of two equally near ones the earlier
    not-newer    the last up to it, or none

Without a time it is the newest. A partial time is its beginning for `nearest`, and its end for `not-newer`: up to 2020
is up to the last second of 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from holdfast.catalog.keys import encoded
from holdfast.catalog.query.query import CaptureQuery, exact_range
from holdfast.catalog.rows import CaptureRows
from holdfast.catalog.timestamps import digits, earliest, latest, seconds
from holdfast.model import Capture, Pick


def ordered(query: CaptureQuery, at: str, pick: Pick) -> CaptureQuery:
    """The query in the order in which its captures stand for the time; those that never do are left out."""
    if not at:
        return replace(query, sort="reverse")
    if pick is Pick.NOT_NEWER:
        return replace(query, sort="reverse", to=at)
    return replace(query, sort="closest", closest=at)


def nearest(captures: Iterable[Capture], timestamp: str) -> Capture | None:
    """The capture nearest to 14 digits; of equally near ones the first given."""
    return min(captures, key=distance_from(timestamp), default=None)


def distance_from(timestamp: str) -> Callable[[Capture], int]:
    """How many seconds a capture lies from a time of 14 digits, before or after it."""
    moment = seconds(timestamp)
    return lambda capture: abs(seconds(capture.timestamp) - moment)


def picked_of(captures: Iterable[Capture], at: str, pick: Pick) -> Capture | None:
    """Of a few captures, which need not be of one URL."""
    found = sorted(captures, key=lambda each: each.timestamp)
    if not at:
        return found[-1] if found else None
    if pick is Pick.NOT_NEWER:
        last = latest(digits(at, "at"))
        return next((each for each in reversed(found) if each.timestamp <= last), None)
    return nearest(found, earliest(digits(at, "at")))


def picked(rows: CaptureRows, key: str, at: str, collection: str | None, pick: Pick) -> Capture | None:
    """Of all captures of one URL. A seek or two."""
    start, end = exact_range(key)
    if not at:
        return rows.last_of(collection, (start, end))
    if pick is Pick.NOT_NEWER:
        return rows.last_of(collection, exact_range(key, "", latest(digits(at, "at"))))
    timestamp = earliest(digits(at, "at"))
    few = rows.few_of(collection, key) if collection is not None else None
    if few is not None:
        past = next((each for each in reversed(few) if each.timestamp < timestamp), None)
        future = next((each for each in few if each.timestamp >= timestamp), None)
    else:
        middle = start + encoded(timestamp)
        past, future = rows.last_of(collection, (start, middle)), rows.first_of(collection, (middle, end))
    if past is None or future is None or future.timestamp == timestamp:
        return future or past
    return nearest((past, future), timestamp)
