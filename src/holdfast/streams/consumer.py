"""A consumer: one of those who share the scans of a multicast. To whoever uses it, it is as a stream."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from holdfast.streams.feed import Feed
from holdfast.streams.options import StreamOptions
from holdfast.streams.order import Order
from holdfast.streams.piece import Piece
from holdfast.streams.source import Source
from holdfast.streams.token import Token

if TYPE_CHECKING:
    from holdfast.streams.multicast import Multicast
    from holdfast.streams.shared_scan import SharedScan


class Consumer(Feed):
    """Made by `Multicast.join`. Its pages are those of the other consumers: to be looked at, not to be changed.

    Its token is its own, and any stream or multicast of the same snapshot goes on with it. Close it when you stop
    before its end, so that nobody waits for it; any thread may.
    """

    def __init__(self, source: Source, options: StreamOptions, state: Token, order: Order) -> None:
        super().__init__(source, options, state, order)
        self.is_closed = False
        self.in_order = False  # never gets anything before what comes before it
        # The multicast's, under its lock:
        self.multicast: Multicast | None = None
        self.scan: SharedScan | None = None
        self.number = 0  # of the piece that it takes next
        self.taken: Piece | None = None  # the last one
        self.patience_s = 0.0  # for which it is still waited for

    def pieces(self) -> Generator[Piece, None, None]:
        assert self.multicast is not None
        self.multicast.go_on(self)
        while (piece := self.multicast.take(self)) is not None:
            yield piece

    def close(self) -> None:
        self.is_closed = True
        if self.multicast is not None:
            self.multicast.leave(self)
