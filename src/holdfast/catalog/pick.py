"""Picks the capture of a URL for a time: the one rule of replay, Memento, API, commands and Python (H8).

    nearest      the nearest; of two equally near ones the earlier
    not-newer    the last one up to the time, or none

Without a time, the newest. A partial time means its beginning for `nearest`, its end for `not-newer`: up to 2020 is up
to the last second of 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from holdfast.catalog.keys import encoded
from holdfast.catalog.query.query import CaptureQuery, exact_range
from holdfast.catalog.rows import CaptureRows
from holdfast.catalog.timestamps import digits, earliest, latest, seconds
from holdfast.model import Capture, Pick


def ordered(query: CaptureQuery, at: str, pick: Pick) -> CaptureQuery:
    """The query with its captures in the order of preference for the time, without those that never qualify."""
    if not at:
        return replace(query, sort="reverse")
    if pick is Pick.NOT_NEWER:
        return replace(query, sort="reverse", to=at)
    return replace(query, sort="closest", closest=at)


def nearest(captures: Iterable[Capture], timestamp: str) -> Capture | None:
    """The capture nearest to 14 digits; of equally near ones the first given."""
    return min(captures, key=distance_from(timestamp), default=None)


def distance_from(timestamp: str) -> Callable[[Capture], int]:
    """The distance of a capture from a time of 14 digits, in seconds."""
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
    few = rows.few_of(collection, key)
    if few is not None:
        past = next((each for each in reversed(few) if each.timestamp < timestamp), None)
        future = next((each for each in few if each.timestamp >= timestamp), None)
    else:
        middle = start + encoded(timestamp)
        past, future = rows.last_of(collection, (start, middle)), rows.first_of(collection, (middle, end))
    if past is None or future is None or future.timestamp == timestamp:
        return future or past
    return nearest((past, future), timestamp)


LOOK_AT = 1000  # unwanted captures in a row before the search ends
_AFTER = b"!"  # the next byte after the space that ends a timestamp


class Neighbours(NamedTuple):
    """Captures of the same URL. `first` and `last` may be the capture itself; None: no other one."""

    first: Capture
    prev: Capture | None
    next: Capture | None
    last: Capture


class Seeker:
    """Finds captures at the ends of a period. Thread-safe."""

    def __init__(self, rows: CaptureRows, collection: str | None, wants: Callable[[Capture], bool]) -> None:
        self._rows = rows
        self._collection = collection
        self._wants = wants

    def around(self, capture: Capture) -> Neighbours:
        """Captures at the same second count as one with the capture."""
        few = self._rows.few_of(self._collection, capture.urlkey)
        if few is not None:
            return self._among(few, capture)
        start, end = exact_range(capture.urlkey)
        middle = start + encoded(capture.timestamp)
        before, after = (start, middle), (middle + _AFTER, end)
        previous = self.last(before)
        following = self.first(after)
        first = self.first(before) if previous is not None else None
        last = self.last(after) if following is not None else None
        return Neighbours(first or previous or capture, previous, following, last or following or capture)

    def _among(self, captures: list[Capture], capture: Capture) -> Neighbours:
        """The same for a URL with few captures, as most have: one seek instead of four."""
        wanted = list(filter(self._wants, captures))
        before = [each for each in wanted if each.timestamp < capture.timestamp]
        after = [each for each in wanted if each.timestamp > capture.timestamp]
        previous, following = (before[-1] if before else None), (after[0] if after else None)
        return Neighbours(before[0] if before else capture, previous, following, after[-1] if after else capture)

    def first(self, bounds: tuple[bytes, bytes]) -> Capture | None:
        found = self._rows.first_of(self._collection, bounds)
        return found if found is None or self._wants(found) else self._search(bounds, reverse=False)

    def last(self, bounds: tuple[bytes, bytes]) -> Capture | None:
        found = self._rows.last_of(self._collection, bounds)
        return found if found is None or self._wants(found) else self._search(bounds, reverse=True)

    def _search(self, bounds: tuple[bytes, bytes], *, reverse: bool) -> Capture | None:
        near = islice(self._rows.scan(self._collection, bounds, reverse=reverse), LOOK_AT)
        return next(filter(self._wants, near), None)
