"""A piece of a scan: pages that were read together, and from where to where they reach."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.streams.page import Page
from holdfast.streams.ranges import Bound, Position
from holdfast.streams.reading import StreamFault

_PAGE_BYTES = 2048  # that a page takes besides its payload
_PIECE_BYTES = 1024


class Piece(NamedTuple):
    """Each piece of a range begins where the one before it ended. There may be no pages in it."""

    pages: list[Page]
    start: Position
    end: Bound
    faults: list[StreamFault]
    removals: int  # what was known of removals before the pages were read

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return _PIECE_BYTES + _PAGE_BYTES * len(self.pages) + sum([page.size for page in self.pages])
