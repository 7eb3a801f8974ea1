"""A stream: each capture of a snapshot once, in batches, each with a token to go on behind it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from holdfast.records.leases import leased
from holdfast.streams.ahead import Ahead
from holdfast.streams.feed import Feed, removals
from holdfast.streams.opening import Opening
from holdfast.streams.options import StreamOptions
from holdfast.streams.page import LARGE, Page
from holdfast.streams.piece import Piece
from holdfast.streams.ranges import Bound, Position, rank
from holdfast.streams.reading import READ_PARTS, PageReader, Readied
from holdfast.streams.source import Source

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

    def __init__(self, source: Source, options: StreamOptions) -> None:
        """Raises UsageError, MalformedToken, or what the catalog and the index may."""
        reader = PageReader(source)
        opening = Opening(source, options, reader)
        state = opening.token()
        super().__init__(source, options, state, opening.order(state))
        self._ahead: Ahead[tuple[Piece, Future[Readied]]] | None = None
        self._removals = -1  # that the catalog was seen to know of

    def part(self, index: int, count: int) -> StreamOptions:
        """The options of a stream that delivers a part of what this one has left, of the same snapshot.

        Parts from 0 to `count` - 1 do not overlap, and together are all of it: for processes that share the work.
        """
        options = replace(self.options, shard=(index, count), token="")
        own = replace(self.state, options=options.digest(), left=self.left, delivered=0)
        return replace(options, token=own.encode())

    def pieces(self) -> Generator[Piece, None, None]:
        self.close()
        ahead = self._ahead = Ahead(self._decoding(), AHEAD, "holdfast-stream")
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

    def _decoding(self) -> Generator[tuple[Piece, Future[Readied]], None, None]:
        with ThreadPoolExecutor(DECODERS, "holdfast-stream-decoding") as pool:
            for start, end in self._left:
                for piece in self._range(start, end):
                    bulk = self._reader.gather(piece.pages, self.options.wanted)
                    yield piece, pool.submit(self._reader.finish, piece.pages, bulk)

    def _range(self, position: Position, end: Bound) -> Iterator[Piece]:
        """From one position to another: pages that are prepared, and not read yet."""
        while rank(position) < rank(end):
            known = self._known_removals()
            step = self.order.step(position, self.options.batch_size)
            if step is None:
                if end is not None:
                    yield Piece([], position, end, [], known)
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
                yield Piece(chunk, position, reached, faults, known)
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
