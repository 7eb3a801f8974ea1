"""An order of a stream: advances from a position, step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from holdfast.model import RecordId
from holdfast.streams.filter import CaptureFilter
from holdfast.streams.order.ranges import Position
from holdfast.streams.page import Page
from holdfast.streams.page_reader import PageReader, StreamFault
from holdfast.streams.source import StreamSource

LOOKED = 2048  # captures examined per step when some may be filtered out


class OrderStep(NamedTuple):
    """Captures in order, not read yet, and the next position; there may be no captures."""

    pages: list[Page]
    position: Position
    faults: list[StreamFault]


class StreamOrder(ABC):
    """One thread at a time. Nothing is held open between two steps."""

    def __init__(self, source: StreamSource, choice: CaptureFilter, reader: PageReader) -> None:
        self._source = source
        self._choice = choice
        self._reader = reader
        self._looked = 0 if choice.is_plain else LOOKED

    @abstractmethod
    def step(self, position: Position, most: int) -> OrderStep | None:
        """At most `most` captures from a position on; None at the end. Raises MalformedToken."""

    @abstractmethod
    def behind(self, page: Page) -> Position:
        """The position after a page that a step returned."""

    def _is_newest(self, record: RecordId, urlkey: str) -> bool:
        return self._reader.patiently(lambda: self._choice.is_newest(self._source.catalog, record, urlkey))
