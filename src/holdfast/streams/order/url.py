"""Order `url`: by URL key, then time, then record; captures of a host come together.

A position is the least place not yet visited. If only the newest captures are wanted, it lies between two URLs.
"""

from __future__ import annotations

from itertools import groupby

from holdfast.catalog.keys import encoded, place_of
from holdfast.model import Capture
from holdfast.streams.order.order import OrderStep, StreamOrder
from holdfast.streams.order.ranges import Position
from holdfast.streams.page import Page
from holdfast.streams.token import expect

_NEXT = "\0"  # appended to a place: the next possible place
_NEXT_URL = "!"  # appended to a URL key: after all its places, which begin with a space


class UrlOrder(StreamOrder):
    """One thread at a time."""

    def behind(self, page: Page) -> Position:
        capture = page.capture
        if self._choice.is_latest:
            return (capture.urlkey + _NEXT_URL,)
        return (_text(place_of(capture)) + _NEXT,)

    def step(self, position: Position, most: int) -> OrderStep | None:
        start = encoded(expect(position, str)[0]) if position else b""
        bounds = next(((max(low, start), high) for low, high in self._choice.ranges if start < high), None)
        if bounds is None:
            return None
        looked = max(most, self._looked)
        collection = self._choice.collection
        found = self._reader.patiently(lambda: self._source.catalog.rows.by_place(collection, bounds, looked))
        if len(found) < looked:
            behind = _text(bounds[1])
        else:
            behind = _text(found[-1][0]) + _NEXT
        if self._choice.is_latest and len(found) == looked:
            urlkey = _text(found[-1][0]).rsplit(" ", 2)[0]  # it may have more captures than this step visited
            found = [each for each in found if not each[0].startswith(encoded(urlkey + " "))]
            behind = urlkey + _NEXT_URL
            captures = [*self._newest(self._choice.captures(found)), *self._newest_of(urlkey)]
        else:
            captures = self._choice.captures(found)
            if self._choice.is_latest:
                captures = self._newest(captures)
        pages = [Page.of_capture(each, self._reader) for each in captures if self._choice.in_shard(each.record)]
        if len(pages) > most:
            return OrderStep(pages[:most], self.behind(pages[most - 1]), [])
        return OrderStep(pages, (behind,), [])

    def _newest(self, captures: list[Capture]) -> list[Capture]:
        """The newest capture of each URL whose captures were all visited."""
        return [self._choice.newest_of(list(each)) for _, each in groupby(captures, key=lambda each: each.urlkey)]

    def _newest_of(self, urlkey: str) -> list[Capture]:
        newest = self._reader.patiently(lambda: self._choice.newest(self._source.catalog, urlkey))
        return [newest] if newest is not None else []


def _text(place: bytes) -> str:
    return place.decode("utf-8", "surrogateescape")
