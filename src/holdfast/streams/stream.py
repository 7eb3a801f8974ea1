"""Streams: each capture of a snapshot once, in batches, each with a token to resume after it.

    StreamStart ──► token and order ──► Stream: pieces, read ahead ──► Feed: pages, batches, tokens

A `Feed` turns pieces of a scan into pages and batches, and always knows its position. A stream is a feed
that reads the archive itself; a consumer of a multicast shares a scan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from holdfast.env import paths
from holdfast.errors import IndexNotFound, NotFound
from holdfast.records.active_state import active_state, leased
from holdfast.streams.batch import ScanPiece, StreamBatch
from holdfast.streams.filter import CaptureFilter, find_matches
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.date import DateOrder
from holdfast.streams.order.log import LogOrder
from holdfast.streams.order.order import StreamOrder
from holdfast.streams.order.ranges import Bound, Position, Ranges, rank
from holdfast.streams.order.rank import RankOrder
from holdfast.streams.order.url import UrlOrder
from holdfast.streams.page import LARGE, Page
from holdfast.streams.page_reader import READ_PARTS, PageReader, Readied, StreamFault
from holdfast.streams.prefetch import Prefetch
from holdfast.streams.snapshot import require_listed, take_snapshot
from holdfast.streams.source import StreamSource
from holdfast.streams.token import StreamToken, decode, require_own

if TYPE_CHECKING:
    from holdfast.index.ranks.ranks import RanksHead

FAULTS_KEPT = 1000
AHEAD = 3  # batches read and not yet taken
# Threads that decode, besides the one that reads, which decodes a batch itself when it is ahead. With two cores or
# fewer, a second one would only take the interpreter's lock from the reader.
DECODERS = 1 if len(os.sched_getaffinity(0)) <= 2 else 2
BATCH_BYTES = 16 << 20  # of payloads in one batch


class Feed:
    """Iterate over it for pages, or over `batches()`; an iteration continues where the last one stopped.

    One thread and one iteration at a time: a new iteration ends the previous one.
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
        self._last: tuple[ScanPiece, Page] | None = None  # delivered last, in the middle of a piece
        self._delivered = state.delivered

    def pieces(self) -> Generator[ScanPiece, None, None]:
        """The rest, from where the last iteration stopped."""
        raise AssertionError("each kind of feed has its own")

    # -- position -----------------------------------------------------------------------------------------------

    @property
    def left(self) -> Ranges:
        if self._last is None:
            return self._left
        piece, page = self._last
        return self._left.without(piece.start, self.order.behind(page))

    @property
    def token(self) -> str:
        """Resumes after the last delivered capture."""
        return self._token_at(self.left, self._delivered)

    @property
    def delivered(self) -> int:
        """Captures delivered so far, including those before the token that the stream began with."""
        return self._delivered

    def _token_at(self, left: Ranges, delivered: int) -> str:
        snapshot, options = self.state.snapshot, self.options
        needs_all = options.is_latest or options.query  # which capture is newest depends on all batches
        if options.order == "log" and left.first and not needs_all:
            snapshot = snapshot.from_batch(str(left.first[0]))
        return replace(self.state, snapshot=snapshot, left=left, delivered=delivered).encode()

    # -- delivery -----------------------------------------------------------------------------------------------

    def batches(self, most: int | None = None) -> Iterator[StreamBatch]:
        """The rest in non-empty batches; at most `most` captures of it."""
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
        """Marks the whole piece as delivered."""
        self._left = self._left.without(piece.start, piece.end)
        self._last = None

    def _turn(self) -> Iterator[tuple[ScanPiece, list[Page]]]:
        """Pieces with their undelivered pages; pieces without any are skipped."""
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
        """The undelivered pages of a piece: all of them unless the scan is shared."""
        if (piece.start, piece.end) in self._left.within(piece.start, piece.end).parts:
            return piece.pages
        return [page for page in piece.pages if self._left.holds(self.order.behind(page))]

    def note(self, faults: Sequence[StreamFault]) -> None:
        """Counts captures that cannot be delivered; raises the first error in strict mode."""
        self.fault_count += len(faults)
        self.faults += faults[: FAULTS_KEPT - len(self.faults)]
        if faults and self.options.strict:
            raise faults[0].error

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops reading. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def removals(source: StreamSource) -> int:
    """Changes with every acknowledged removal: the size of the audit log."""
    try:
        return os.stat(source.path / paths.AUDIT).st_size
    except FileNotFoundError:
        return 0


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The start of a stream: a new snapshot or a token's position, and the order."""

    source: StreamSource
    options: StreamOptions
    reader: PageReader

    def token(self) -> StreamToken:
        """The token of the options, if it is valid here, or that of a new stream.

        Raises MalformedToken, or NotFound if the ranks that the stream depends on are gone.
        """
        source, options, archive = self.source, self.options, self.source.settings.uid
        if options.token:
            token = decode(options.token)
            require_own(token, archive, options)
            self.reader.patiently(lambda: require_listed(token.snapshot, source.catalog))
            self._require_ranks(token)
            return token
        if options.batch is not None:
            source.journal.require(options.batch)
        active = active_state(source.path, source.settings, source.env)  # first, so that the catalog covers it
        snapshot = self.reader.patiently(lambda: take_snapshot(source.catalog, options.batch))
        if active is not None:
            snapshot = snapshot.within(active.batches)
        if options.query:  # records indexed later must not appear after a resume
            snapshot = snapshot.within(dict(source.index.view().state.batches))
        token = StreamToken(archive, options.digest(), snapshot)
        if self._is_ranked() and (head := self._ranks()) is not None:
            token = replace(token, ranks=head.generation, ranks_crc32=head.crc32)
        return token

    def _is_ranked(self) -> bool:
        """Whether order or query depend on ranks."""
        query = self.options.query
        return self.options.order == "rank" or (bool(query) and self.source.queries.is_ranked(query))

    def _ranks(self) -> RanksHead | None:
        """The head of the newest ranks; None if there are none."""
        ranks = self.source.index.ranks()
        if ranks is None and self.options.order == "rank":
            raise IndexNotFound("no ranks were computed yet; compute them with 'holdfast index rank'")
        return ranks.head if ranks is not None else None

    def _require_ranks(self, token: StreamToken) -> None:
        """After a rebuild of the index, the same generation number may mean other ranks."""
        if not token.ranks_crc32 or not self._is_ranked():
            return
        found = self.source.index.ranks_of(token.ranks).head.crc32
        if found != token.ranks_crc32:
            raise NotFound(
                f"ranks of generation {token.ranks} are not those of the token's stream: the index was rebuilt since; "
                "begin a new stream"
            )

    def order(self, token: StreamToken) -> StreamOrder:
        """Raises index errors."""
        query, snapshot, reverse = self.options.query, token.snapshot, self.options.reverse
        matches = find_matches(self.source, query, snapshot, token.ranks) if query else None
        choice = CaptureFilter(self.options, snapshot, matches)
        match self.options.order:
            case "log":
                return LogOrder(self.source, choice, self.reader)
            case "url":
                return UrlOrder(self.source, choice, self.reader)
            case "date" | "modified" as order:
                is_modified = order == "modified"
                return DateOrder(self.source, choice, self.reader, is_modified=is_modified, reverse=reverse)
            case _:
                ranks = self.source.index.ranks_of(token.ranks)
                return RankOrder(self.source, choice, self.reader, ranks, reverse=reverse)


class Stream(Feed):
    """A feed that reads the archive itself, ahead of its consumer.

    The snapshot is taken when the stream is created; under the batch scheme it is the active state. Close it, or use it
    as a context manager, when you stop early.
    """

    def __init__(self, source: StreamSource, options: StreamOptions) -> None:
        """Raises UsageError, MalformedToken, and errors of catalog and index."""
        reader = PageReader(source)
        opening = StreamStart(source, options, reader)
        state = opening.token()
        super().__init__(source, options, state, opening.order(state))
        self._ahead: Prefetch[tuple[ScanPiece, Future[Readied]]] | None = None
        self._removals = -1  # size of the audit log that the catalog covers

    def part(self, index: int, count: int) -> StreamOptions:
        """The options of a stream that delivers one part of the rest of this one, from the same snapshot.

        Parts 0 to `count` - 1 are disjoint and complete, for processes that share the work.
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

    # -- read-ahead: threads decode some batches while the next one is read ----------------------------------------

    def _decoding(self) -> Generator[tuple[ScanPiece, Future[Readied]], None, None]:
        """Decodes a batch itself while the one before waits for a thread."""
        readied: Future[Readied] | None = None
        with ThreadPoolExecutor(DECODERS, "holdfast-stream-decoding") as pool:
            for start, end in self._left:
                for piece in self._range(start, end):
                    bulk = self._reader.gather(piece.pages, self.options.wanted)
                    finish = partial(self._reader.finish, piece.pages, bulk)
                    is_ahead = readied is not None and not readied.done() and not readied.running()
                    readied = _done(finish) if is_ahead else pool.submit(finish)
                    yield piece, readied

    def _range(self, position: Position, end: Bound) -> Iterator[ScanPiece]:
        """From one position to another: prepared pages, not read yet."""
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
                reached = behind if rank(behind) < rank(end) else end  # what follows may belong to another range
                yield ScanPiece(chunk, position, reached, faults, known)
                position, faults = behind, []

    def _known_removals(self) -> int:
        """The size of the audit log; the catalog is refreshed if it has grown."""
        now = removals(self._source)
        if now != self._removals:
            self._reader.patiently(self._source.catalog.refresh)
            self._removals = now
        return now

    def close(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()


def _done(work: Callable[[], Readied]) -> Future[Readied]:
    """The result of work that this thread does."""
    future: Future[Readied] = Future()
    future.set_result(work())
    return future


def _chunks(pages: list[Page]) -> Iterator[list[Page]]:
    """The pages in parts whose payloads fit into memory; one empty part if there are none."""
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
