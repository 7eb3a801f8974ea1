"""A stream: each capture of a snapshot once, in batches, each with a token to go on behind it.

A feed: pieces in, pages and batches out, and a token at any moment. What a stream and a consumer have in common.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Self

from holdfast.env import paths
from holdfast.records.leases import leased
from holdfast.streams.batch import ScanPiece, StreamBatch
from holdfast.streams.open import StreamStart
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.order import StreamOrder
from holdfast.streams.page import LARGE, Page
from holdfast.streams.page_reader import READ_PARTS, PageReader, Readied, StreamFault
from holdfast.streams.prefetch import Prefetch
from holdfast.streams.ranges import Bound, Position, Ranges, rank
from holdfast.streams.source import StreamSource
from holdfast.streams.token import StreamToken

FAULTS_KEPT = 1000


class Feed:
    """Iterate over it for pages, or over `batches()`; an iteration goes on where the last one was left.

    One thread at a time, and one iteration: a new one ends those before.
    """

    def __init__(self, source: StreamSource, options: StreamOptions, state: StreamToken, order: StreamOrder) -> None:
        self.options = options
        self.faults: list[StreamFault] = []  # the first of them
        self.fault_count = 0
        self._source = source
        self._reader = PageReader(source)
        self.state = state  # with which it began
        self.order = order
        self._left = state.left
        self._last: tuple[ScanPiece, Page] | None = None  # handed out last, in the middle of a piece
        self._delivered = state.delivered

    def pieces(self) -> Generator[ScanPiece, None, None]:
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

    def _pass(self, piece: ScanPiece) -> None:
        """The whole piece is handed out."""
        self._left = self._left.without(piece.start, piece.end)
        self._last = None

    def _turn(self) -> Iterator[tuple[ScanPiece, list[Page]]]:
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

    def _lacking(self, piece: ScanPiece) -> list[Page]:
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


def removals(source: StreamSource) -> int:
    """A number that has changed when a removal was acknowledged: the size of the log that lists them."""
    try:
        return os.stat(source.path / paths.AUDIT).st_size
    except FileNotFoundError:
        return 0


AHEAD = 3  # batches in store, or on their way there
# Threads. What reads takes as long for a batch as one of them; a second one has only the reader's core to run on, where
# there are no more than two, and takes the interpreter's lock from it.
DECODERS = 1 if len(os.sched_getaffinity(0)) <= 2 else 2
BATCH_BYTES = 16 << 20  # of payloads in one batch


class Stream(Feed):
    """A feed that reads the archive by itself, ahead of whoever takes.

    The snapshot is taken when the stream is made; under the batch scheme it is the active state. Close it, or use it as
    a context, when you stop before its end.
    """

    def __init__(self, source: StreamSource, options: StreamOptions) -> None:
        """Raises UsageError, MalformedToken, or what the catalog and the index may."""
        reader = PageReader(source)
        opening = StreamStart(source, options, reader)
        state = opening.token()
        super().__init__(source, options, state, opening.order(state))
        self._ahead: Prefetch[tuple[ScanPiece, Future[Readied]]] | None = None
        self._removals = -1  # that the catalog was seen to know of

    def part(self, index: int, count: int) -> StreamOptions:
        """The options of a stream that delivers a part of what this one has left, of the same snapshot.

        Parts from 0 to `count` - 1 do not overlap, and together are all of it: for processes that share the work.
        """
        options = replace(self.options, shard=(index, count), token="")
        own = replace(self.state, options=options.digest(), left=self.left, delivered=0)
        return replace(options, token=own.encode())

    def pieces(self) -> Generator[ScanPiece, None, None]:
        self.close()
        ahead = self._ahead = Prefetch(self._decoding(), AHEAD, "holdfast-stream")
        with leased(self._source.path, self._source.settings, self._source.env):
            try:
                for piece, readied in ahead:
                    pages, faults = readied.result()
                    yield piece._replace(pages=pages, faults=piece.faults + faults)
                    if self._ahead is not ahead:  # closed, or another iteration has begun
                        return
            finally:
                ahead.close()

    # -- reading ahead: while some batches are decoded, in threads of their own, the next one is read --------------

    def _decoding(self) -> Generator[tuple[ScanPiece, Future[Readied]], None, None]:
        with ThreadPoolExecutor(DECODERS, "holdfast-stream-decoding") as pool:
            for start, end in self._left:
                for piece in self._range(start, end):
                    bulk = self._reader.gather(piece.pages, self.options.wanted)
                    yield piece, pool.submit(self._reader.finish, piece.pages, bulk)

    def _range(self, position: Position, end: Bound) -> Iterator[ScanPiece]:
        """From one position to another: pages that are prepared, and not read yet."""
        while rank(position) < rank(end):
            known = self._known_removals()
            step = self.order.step(position, self.options.batch_size)
            if step is None:
                if end is not None:
                    yield ScanPiece([], position, end, [], known)
                return
            pages, faults = step.pages, step.faults
            if end is not None:
                pages = [page for page in pages if rank(self.order.behind(page)) <= rank(end)]
            if self.options.wanted & READ_PARTS:
                pages, more = self._reader.prepare(pages, self.options.wanted)
                faults = faults + more
            chunks = list(_chunks(pages))
            for index, chunk in enumerate(chunks, 1):
                behind = step.position if index == len(chunks) else self.order.behind(chunk[-1])
                reached = behind if rank(behind) < rank(end) else end  # what lies beyond may be of another range
                yield ScanPiece(chunk, position, reached, faults, known)
                position, faults = behind, []

    def _known_removals(self) -> int:
        """Of all removals up to now, the catalog knows in what is read from here on."""
        now = removals(self._source)
        if now != self._removals:
            self._reader.patiently(self._source.catalog.refresh)
            self._removals = now
        return now

    def close(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()


def _chunks(pages: list[Page]) -> Iterator[list[Page]]:
    """The pages in parts of which the payloads fit into memory; one part if there are none."""
    if sum([page.size for page in pages]) <= BATCH_BYTES:
        yield pages
        return
    begin = size = 0
    for index, page in enumerate(pages):
        page_bytes = page.size if page.size <= LARGE else 0
        if size and size + page_bytes > BATCH_BYTES:
            yield pages[begin:index]
            begin, size = index, 0
        size += page_bytes
    yield pages[begin:]
