"""Order `date`: by time, then by record. A position is the least `timestamp ␠ record` that was not looked at."""

from __future__ import annotations

from holdfast.catalog.keys import encoded
from holdfast.model import Capture, RecordId
from holdfast.streams.choice import Choice
from holdfast.streams.order import LOOKED, Step
from holdfast.streams.page import Page
from holdfast.streams.ranges import Position
from holdfast.streams.reading import PageReader
from holdfast.streams.source import Source
from holdfast.streams.token import expect

_NEXT = "\0"  # added to a key: the least one after it


class DateOrder:
    """One thread at a time."""

    def __init__(self, source: Source, choice: Choice, reader: PageReader) -> None:
        self._source = source
        self._choice = choice
        self._reader = reader
        self._looked = 0 if choice.is_plain else LOOKED

    def behind(self, page: Page) -> Position:
        return (f"{page.timestamp} {page.record}{_NEXT}",)

    def step(self, position: Position, most: int) -> Step | None:
        start = max(self._choice.first, encoded(expect(position, str)[0]) if position else b"")
        end = self._choice.last + b"!"  # beyond all records of the last time, which go on with a space
        if start >= end:
            return None
        looked = max(most, self._looked)
        found = self._reader.patiently(lambda: self._source.catalog.steps().by_time(start, end, looked))
        wanted = [record for _, record in found if self._choice.in_shard(record) and self._choice.holds(record)]
        captures = self._reader.patiently(lambda: self._source.catalog.steps().captures(wanted))
        chosen = [capture for capture in captures if capture is not None and self._takes(capture)]
        pages = [Page.of_capture(capture, self._reader) for capture in chosen[:most]]
        if len(chosen) > most:
            return Step(pages, self.behind(pages[-1]), [])
        if len(found) < looked:
            return Step(pages, (end.decode(),), [])
        timestamp, record = found[-1]
        return Step(pages, (f"{timestamp} {record}{_NEXT}",), [])

    def _takes(self, capture: Capture) -> bool:
        if not self._choice.takes(capture):
            return False
        return not self._choice.is_latest or self._is_newest(capture.record, capture.urlkey)

    def _is_newest(self, record: RecordId, urlkey: str) -> bool:
        return self._reader.patiently(lambda: self._choice.is_newest(self._source.catalog, record, urlkey))
