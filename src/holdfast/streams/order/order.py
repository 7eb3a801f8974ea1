"""What every order of a stream can do: go on from a position, step by step."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.streams.page import Page
from holdfast.streams.page_reader import StreamFault
from holdfast.streams.ranges import Position

LOOKED = 2048  # captures that one step looks at where not all are taken


class OrderStep(NamedTuple):
    """Captures in their order, not read yet, and where to go on; also where there are none."""

    pages: list[Page]
    position: Position
    faults: list[StreamFault]


class StreamOrder(Protocol):
    """One thread at a time. Nothing is held open between two steps."""

    def step(self, position: Position, most: int) -> OrderStep | None:
        """The next captures from a position on, at most so many; None at the end. Raises MalformedToken."""

    def behind(self, page: Page) -> Position:
        """Where to go on behind a page that a step gave."""
