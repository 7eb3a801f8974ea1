"""A shared scan: one reading of a stream, and what of it is kept for those who are a little behind.

                  kept for those who are behind
    ─────────────┼────────┬────────┬────────┬────────┼─────────────────►
       gone      │ oldest │        │        │ newest │ to be read next

Pieces are numbered from 0 on, in the order in which they are read. Nothing here locks: the multicast does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import WeakSet

from holdfast.streams.piece import Piece
from holdfast.streams.ranges import Bound, Position, rank

if TYPE_CHECKING:
    from holdfast.streams.consumer import Consumer
    from holdfast.streams.stream import Stream


class SharedScan:
    """One scan under way, for the consumers that are at it."""

    def __init__(self, stream: Stream) -> None:
        self.position: Bound = stream.left.first  # of what is read next; None: all has been read
        self.is_led = False  # somebody is reading the next piece
        self.consumers: WeakSet[Consumer] = WeakSet()  # one that was forgotten does not keep the scan alive
        self._pieces = stream.pieces()
        self._kept: deque[tuple[Piece, int]] = deque()  # each with its size
        self._oldest = 0
        self.bytes = 0  # of what is kept

    @property
    def oldest(self) -> int:
        """The number of the first piece that is kept."""
        return self._oldest

    @property
    def next(self) -> int:
        """The number of the piece that is read next."""
        return self._oldest + len(self._kept)

    def piece(self, number: int) -> Piece:
        return self._kept[number - self._oldest][0]

    def number_at(self, position: Position) -> int | None:
        """Of the piece that begins at a position or that it lies in, if it is kept or comes next."""
        if position == self.position:
            return self.next
        at = rank(position)
        for number, (piece, _) in enumerate(self._kept, self._oldest):
            if rank(piece.start) <= at < rank(piece.end):
                return number
        return None

    def behind(self) -> list[Consumer]:
        """Those who have not taken the oldest piece."""
        return [each for each in self.consumers if each.number == self._oldest]

    def read(self) -> Piece:
        """The next piece; the last one reaches to the end. For whoever leads, without the lock."""
        assert self.position is not None
        piece = next(self._pieces, None)
        if piece is None:
            return Piece([], self.position, None, [], 0)
        for page in piece.pages:
            page.begun()  # before several threads look at it
        return piece

    def keep(self, piece: Piece) -> None:
        """What was read, for all."""
        size = piece.size
        self._kept.append((piece, size))
        self.bytes += size
        self.position = piece.end

    def forget_oldest(self) -> None:
        self.bytes -= self._kept.popleft()[1]
        self._oldest += 1

    def close(self) -> None:
        """When nobody leads."""
        self._kept.clear()
        self._pieces.close()
