"""Streams: each capture of a snapshot once, in batches, each with a token to go on behind it.

    StreamStart ──► token and order ──► Stream: pieces, read ahead ──► Feed: pages, batches, tokens

A `Feed` turns pieces of a scan into pages and batches, and knows at any moment where it stopped. A stream is a feed
that reads the archive itself; a consumer of a multicast is one that shares a scan.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from holdfast.env import paths
from holdfast.errors import IndexNotFound, NotFound
from holdfast.records.active_state import active_state
from holdfast.records.leases import leased
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
AHEAD = 3  # batches that are read and not yet taken
# Threads that decode. Reading a batch takes as long as decoding it: with two cores or fewer, a second decoder would
# only take the interpreter's lock from the reader.
DECODERS = 1 if len(os.sched_getaffinity(0)) <= 2 else 2
BATCH_BYTES = 16 << 20  # of payloads in one batch


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
        """Ends reading. Idempotent."""

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


@dataclass(frozen=True, slots=True)
class StreamStart:
    """How a stream begins: with a snapshot of now or where a token says, and in which order it goes on."""

    source: StreamSource
    options: StreamOptions
    reader: PageReader

    def token(self) -> StreamToken:
        """That of the options, if it is good here, else that of a new stream.

        Raises MalformedToken, or NotFound if the ranks that the stream goes by are gone.
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
        active = active_state(source.path, source.settings, source.env)  # first: the catalog knows all in it then
        snapshot = self.reader.patiently(lambda: take_snapshot(source.catalog, options.batch))
        if active is not None:
            snapshot = snapshot.within(active.batches)
        if options.query:  # what comes to the index later must not come to light when the stream goes on
            snapshot = snapshot.within(dict(source.index.view().state.batches))
        token = StreamToken(archive, options.digest(), snapshot)
        if self._is_ranked() and (head := self._ranks()) is not None:
            token = replace(token, ranks=head.generation, ranks_crc32=head.crc32)
        return token

    def _is_ranked(self) -> bool:
        """Whether order or query go by ranks."""
        query = self.options.query
        return self.options.order == "rank" or (bool(query) and self.source.queries.is_ranked(query))

    def _ranks(self) -> RanksHead | None:
        """What the newest ranks say of themselves; None: there are none, which the query will say if it matters."""
        ranks = self.source.index.ranks()
        if ranks is None and self.options.order == "rank":
            raise IndexNotFound("no ranks were computed yet; compute them with 'holdfast index rank'")
        return ranks.head if ranks is not None else None

    def _require_ranks(self, token: StreamToken) -> None:
        """A generation of the same number may be another one, if the index was rebuilt."""
        if not token.ranks_crc32 or not self._is_ranked():
            return
        found = self.source.index.ranks_of(token.ranks).head.crc32
        if found != token.ranks_crc32:
            raise NotFound(
                f"ranks of generation {token.ranks} are not those of the token's stream: the index was rebuilt since; "
                "begin a new stream"
            )

    def order(self, token: StreamToken) -> StreamOrder:
        """Raises what the index may."""
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
