"""The captures of one URL around one of them: the first, the one before, the one after, the last. A seek each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from holdfast.catalog.keys import encoded
from holdfast.catalog.query.query import exact_range
from holdfast.catalog.rows import CaptureRows
from holdfast.model import Capture

LOOK_AT = 1000  # captures that are not wanted, before one gives up
_AFTER = b"!"  # the next byte after the space that ends a timestamp


class Neighbours(NamedTuple):
    """Captures of the same URL. `first` and `last` may be the capture itself; None: there is no other."""

    first: Capture
    prev: Capture | None
    next: Capture | None
    last: Capture


class Seeker:
    """Finds captures at the ends of a stretch of time. Any thread may call it."""

    def __init__(self, rows: CaptureRows, collection: str | None, wants: Callable[[Capture], bool]) -> None:
        self._rows = rows
        self._collection = collection
        self._wants = wants

    def around(self, capture: Capture) -> Neighbours:
        """Captures at the same second count as one with the capture."""
        few = self._rows.few_of(self._collection, capture.urlkey) if self._collection is not None else None
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
        """The same if these are all captures of the URL: most have few, and one seek is less than four."""
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
