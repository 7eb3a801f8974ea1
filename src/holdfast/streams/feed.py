"""A feed: pieces in, pages and batches out, and a token at any moment. What a stream and a consumer have in common."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

from holdfast.storage import layout
from holdfast.streams.batch import StreamBatch
from holdfast.streams.options import StreamOptions
from holdfast.streams.order import Order
from holdfast.streams.page import Page
from holdfast.streams.piece import Piece
from holdfast.streams.ranges import Ranges
from holdfast.streams.reading import PageReader, StreamFault
from holdfast.streams.source import Source
from holdfast.streams.token import Token

FAULTS_KEPT = 1000


class Feed:
    """Iterate over it for pages, or over `batches()`; an iteration goes on where the last one was left.

    One thread at a time, and one iteration: a new one ends those before.
    """

    def __init__(self, source: Source, options: StreamOptions, state: Token, order: Order) -> None:
        self.options = options
        self.faults: list[StreamFault] = []  # the first of them
        self.fault_count = 0
        self._source = source
        self._reader = PageReader(source)
        self.state = state  # with which it began
        self.order = order
        self._left = state.left
        self._last: tuple[Piece, Page] | None = None  # handed out last, in the middle of a piece
        self._delivered = state.delivered

    def pieces(self) -> Generator[Piece, None, None]:
        """What is left, from where the last iteration stopped."""
        raise AssertionError("each kind of feed has its own")

    # -- how far it came ----------------------------------------------------------------------------------------

    @property
    def left(self) -> Ranges:
        """What has not been handed out."""
        if self._last is None:
            return self._left
        piece, page = self._last
        return self._left.without(piece.start, self.order.behind(page))

    @property
    def token(self) -> str:
        """Under which a stream goes on behind what was handed out last."""
        return self._token_at(self.left, self._delivered)

    @property
    def delivered(self) -> int:
        """Captures handed out so far, also before the token that the stream began with."""
        return self._delivered

    def _token_at(self, left: Ranges, delivered: int) -> str:
        snapshot, options = self.state.snapshot, self.options
        needs_all = options.is_latest or options.query  # which is the newest, and who links where, all batches tell
        if options.order == "log" and left.first and not needs_all:
            snapshot = snapshot.from_batch(str(left.first[0]))
        return replace(self.state, snapshot=snapshot, left=left, delivered=delivered).encode()

    # -- handing out --------------------------------------------------------------------------------------------

    def batches(self, most: int | None = None) -> Iterator[StreamBatch]:
        """The rest in batches, none of them empty; or so many captures of it."""
        wanted = most
        if wanted is not None and wanted <= 0:
            return
        for piece, lacking in self._turn():
            pages = lacking[:wanted]
            if len(pages) < len(lacking):
                self._last = piece, pages[-1]
            else:
                self._pass(piece)
            self._delivered += len(pages)
            yield StreamBatch(pages, partial(self._token_at, self.left, self._delivered))
            if wanted is not None:
                wanted -= len(pages)
                if wanted <= 0:
                    return

    def __iter__(self) -> Iterator[Page]:
        for piece, pages in self._turn():
            last = pages[-1]
            for page in pages:
                if page is last:
                    self._pass(piece)
                else:
                    self._last = piece, page
                self._delivered += 1
                yield page

    def _pass(self, piece: Piece) -> None:
        """The whole piece is handed out."""
        self._left = self._left.without(piece.start, piece.end)
        self._last = None

    def _turn(self) -> Iterator[tuple[Piece, list[Page]]]:
        """Pieces, and what of them is left and still there; none without."""
        self._left, self._last = self.left, None
        for piece in self.pieces():
            self.note(piece.faults)
            pages = self._lacking(piece)
            if pages and piece.removals != removals(self._source):
                pages = self._reader.without_removed(pages)
            if pages:
                yield piece, pages
            else:
                self._pass(piece)

    def _lacking(self, piece: Piece) -> list[Page]:
        """The pages of a piece that have not been handed out: all of them, where a scan is not shared."""
        if (piece.start, piece.end) in self._left.within(piece.start, piece.end).parts:
            return piece.pages
        return [page for page in piece.pages if self._left.holds(self.order.behind(page))]

    def note(self, faults: Sequence[StreamFault]) -> None:
        """Counts captures that cannot be delivered; in strict mode raises why."""
        self.fault_count += len(faults)
        self.faults += faults[: FAULTS_KEPT - len(self.faults)]
        if faults and self.options.strict:
            raise faults[0].error

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends reading. Twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def removals(source: Source) -> int:
    """A number that has changed when a removal was acknowledged: the size of the log that lists them."""
    try:
        return os.stat(source.path / layout.AUDIT).st_size
    except FileNotFoundError:
        return 0
