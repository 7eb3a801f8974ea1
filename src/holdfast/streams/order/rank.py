"""Order `rank`: pages by descending rank, of one generation of ranks, then pages without a rank.

Of equal ranks the smaller page number comes first; captures of a page come by time. Pages without a rank, added
after the computation, follow in the order of their URLs. A position is `0`, the place in the order of ranks and the
least place of a capture there not yet visited; then `1` and a position of order `url`.

Backwards, pages without a rank come first, then pages by ascending rank; of equal ranks the larger page number.
Captures of a page still come by time. A position is `0` and a position of order `url`; then `1`, the place in
the order of ranks counted from its end, and the least place of a capture there.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.catalog.keys import encoded, page_number, place_of
from holdfast.model import Capture
from holdfast.streams.filter import CaptureFilter
from holdfast.streams.order.order import LOOKED, OrderStep, StreamOrder
from holdfast.streams.order.ranges import Position
from holdfast.streams.order.url import UrlOrder
from holdfast.streams.page import Page
from holdfast.streams.page_reader import PageReader
from holdfast.streams.source import StreamSource
from holdfast.streams.token import expect

if TYPE_CHECKING:
    from holdfast.index.ranks.ranks import Ranks

_NEXT = "\0"  # appended to a place: the next possible place


class RankOrder(StreamOrder):
    """One thread at a time."""

    def __init__(
        self, source: StreamSource, choice: CaptureFilter, reader: PageReader, ranks: Ranks, *, reverse: bool = False
    ) -> None:
        super().__init__(source, choice, reader)
        self._ranks = ranks
        self._reverse = reverse
        self._ranked_part, self._other_part = (1, 0) if reverse else (0, 1)
        self._others = UrlOrder(source, choice, reader)

    def behind(self, page: Page) -> Position:
        if page.rank_place is None:
            return (self._other_part, *self._others.behind(page))
        if self._choice.is_latest:
            return self._ranked_part, page.rank_place + 1, ""
        return self._ranked_part, page.rank_place, place_of(page.capture).decode("utf-8", "surrogateescape") + _NEXT

    def step(self, position: Position, most: int) -> OrderStep | None:
        if (position or (0,))[0] == self._other_part:
            return self._step_others(position[1:], most)
        _, place, inner = expect(position, int, int, str) if position else (self._ranked_part, 0, "")
        if place < 0 or place >= len(self._ranks):
            return None if self._reverse else self._step_others((), most)
        pages: list[Page] = []
        numbers = self._numbers(place, max(most, LOOKED))
        for index, number in enumerate(numbers, place):
            for capture in self._captures(number, encoded(inner)):
                page = Page.of_capture(capture, self._reader)
                page.rank_place = index
                pages.append(page)
            inner = ""
            if len(pages) > most:
                return OrderStep(pages[:most], self.behind(pages[most - 1]), [])
        return OrderStep(pages, (self._ranked_part, place + len(numbers), ""), [])

    def _numbers(self, place: int, most: int) -> list[int]:
        """Pages in the order of the stream, from a place on."""
        if not self._reverse:
            return list(map(int, self._ranks.by_rank(place, most)))
        end = len(self._ranks) - place
        start = max(0, end - most)
        return list(map(int, self._ranks.by_rank(start, end - start)[::-1]))

    def _captures(self, number: int, least: bytes) -> list[Capture]:
        """The selected captures of a page from a place on, by URL and time."""
        catalog = self._source.catalog
        records = self._reader.patiently(lambda: catalog.rows.of_page(number))
        records = [record for record in records if self._choice.holds(record)]
        if not records:
            return []
        found = [each for each in self._reader.patiently(lambda: catalog.rows.of_records(records)) if each is not None]
        chosen = sorted(filter(self._choice.takes, found), key=place_of)
        if self._choice.is_latest:
            by_url = groupby(chosen, key=lambda each: each.urlkey)  # one URL, unless page numbers collide
            chosen = [self._choice.newest_of(list(each)) for _, each in by_url]
        return [each for each in chosen if self._choice.in_shard(each.record) and place_of(each) >= least]

    def _step_others(self, position: Position, most: int) -> OrderStep | None:
        step = self._others.step(position, most)
        if step is None:
            return OrderStep([], (self._ranked_part, 0, ""), []) if self._reverse else None
        import numpy

        keys = [page_number(encoded(page.urlkey)) for page in step.pages]
        ranked = self._ranks.of(numpy.array(keys, numpy.uint64)).rank.tolist()
        pages = [page for page, rank in zip(step.pages, ranked, strict=True) if not rank]
        return OrderStep(pages, (self._other_part, *step.position), step.faults)
