"""Multicast: several consumers of one snapshot share one scan (B10, N5).

                         ┌──► consumer, at the newest piece: reads the next one, for all
    archive ──► scan ────┼──► consumer, a little behind: takes what is kept
                │        └──► consumer, too far behind: misses a part, and gets it later
                └──── second scan of what late and slow ones have missed, shared as well

Each consumer gets each capture of the snapshot once, whoever else comes, goes, dies or is slow:

- There is no thread for it. Whoever needs the next piece first reads it; the others wait for that, and all get it.
- What was read is kept, up to `buffer_bytes` in all, for those who are behind. One that is further behind than that is
  waited for, up to `patience_s` in its life, and then no more: the scan goes on without it.
- What a consumer has missed is among its ranges. One that takes any order goes on with the scan that is under way, and
  gets what it has missed when that has ended; so does one that joins late. One in order reads on from where it was, by
  a scan that it shares with those who are at the same place.

A shared scan is one reading of a stream, and what of it is kept for those who are a little behind.

                  kept for those who are behind
    ─────────────┼────────┬────────┬────────┬────────┼─────────────────►
       gone      │ oldest │        │        │ newest │ to be read next

Pieces are numbered from 0 on, in the order in which they are read. Only the multicast locks. A consumer is used like a
stream.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Self
from weakref import WeakSet

from holdfast.arguments import check_fields
from holdfast.errors import MalformedToken
from holdfast.streams.batch import ScanPiece
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.order import StreamOrder
from holdfast.streams.order.ranges import Bound, Position, Ranges, rank
from holdfast.streams.source import StreamSource
from holdfast.streams.stream import Feed, Stream
from holdfast.streams.token import StreamToken, decode


class SharedScan:
    """One scan under way, for the consumers that are at it."""

    def __init__(self, stream: Stream) -> None:
        self.position: Bound = stream.left.first  # of what is read next; None: all has been read
        self.is_led = False  # somebody is reading the next piece
        self.consumers: WeakSet[Consumer] = WeakSet()  # one that was forgotten does not keep the scan alive
        self._pieces = stream.pieces()
        self._kept: deque[tuple[ScanPiece, int]] = deque()  # each with its size
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

    def piece(self, number: int) -> ScanPiece:
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

    def read(self) -> ScanPiece:
        """The next piece; the last one reaches to the end. For whoever leads, without the lock."""
        assert self.position is not None
        piece = next(self._pieces, None)
        if piece is None:
            return ScanPiece([], self.position, None, [], 0)
        for page in piece.pages:
            page.begun()  # before several threads look at it
        return piece

    def keep(self, piece: ScanPiece) -> None:
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


class Consumer(Feed):
    """Made by `Multicast.join`. Its pages are those of the other consumers: to be looked at, not to be changed.

    Its token is its own, and any stream or multicast of the same snapshot goes on with it. Close it when you stop
    before its end, so that nobody waits for it; any thread may.
    """

    def __init__(self, source: StreamSource, options: StreamOptions, state: StreamToken, order: StreamOrder) -> None:
        super().__init__(source, options, state, order)
        self.is_closed = False
        self.in_order = False  # never gets anything before what comes before it
        # The multicast's, under its lock:
        self.multicast: Multicast | None = None
        self.scan: SharedScan | None = None
        self.number = 0  # of the piece that it takes next
        self.taken: ScanPiece | None = None  # the last one
        self.patience_s = 0.0  # for which it is still waited for

    def pieces(self) -> Generator[ScanPiece, None, None]:
        assert self.multicast is not None
        self.multicast.go_on(self)
        while (piece := self.multicast.take(self)) is not None:
            yield piece

    def close(self) -> None:
        self.is_closed = True
        if self.multicast is not None:
            self.multicast.leave(self)


RANGES_MAX = 16  # of a consumer: with so many, it begins nothing in the middle any more


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastOptions:
    """How far consumers may be apart."""

    buffer_bytes: int = 64 << 20  # of pages that are kept for those who are behind
    patience_s: float = 1.0  # for which one that is further behind is waited for, in all

    def __post_init__(self) -> None:
        check_fields(self)


class Multicast:
    """One snapshot for many. Any thread may join, and use the consumer that it gets.

    The snapshot is taken when the multicast is made, or is that of the token in its options.
    """

    def __init__(
        self,
        source: StreamSource,
        options: StreamOptions = StreamOptions(),  # noqa: B008
        multicast: MulticastOptions = MulticastOptions(),
    ) -> None:
        """Raises as a stream does."""
        self.options = options
        self._source = source
        self._limits = multicast
        self.state = Stream(source, options).state  # of one who joins without a token
        self._changed = threading.Condition(threading.Lock())
        self._scans: list[SharedScan] = []

    def join(self, token: str = "", *, in_order: bool = False) -> Consumer:
        """A consumer of the whole snapshot, or of what the one that gave out the token had not got.

        What it comes too late for, it gets at the end, unless it wants everything in the order of the stream; in any
        other order than `log` it always does. Raises MalformedToken, also for a token of another snapshot.
        """
        state = self._state_of(token) if token else self.state
        stream = self._stream(state)
        consumer = Consumer(self._source, self.options, state, stream.order)
        consumer.multicast = self
        consumer.in_order = in_order or self.options.order != "log"
        consumer.patience_s = self._limits.patience_s
        with self._changed:
            if consumer.left:
                self._attach(consumer)  # from here on it is waited for, as far as anybody is
        return consumer

    def serves(self, state: StreamToken) -> bool:
        """Whether a token is of this snapshot, or of a part of it."""
        own = self.state
        same = (own.archive, own.options) == (state.archive, state.options)
        same_ranks = (own.ranks, own.ranks_crc32) == (state.ranks, state.ranks_crc32)
        return same and same_ranks and state.snapshot.ends.items() <= own.snapshot.ends.items()

    def _state_of(self, token: str) -> StreamToken:
        state = decode(token)
        if not self.serves(state):
            raise MalformedToken("the token is of another snapshot: begin a stream or a multicast with it")
        return replace(state, snapshot=self.state.snapshot)

    def _stream(self, state: StreamToken) -> Stream:
        return Stream(self._source, replace(self.options, token=state.encode()))

    @property
    def scans(self) -> int:
        """How many are under way."""
        with self._changed:
            return len(self._scans)

    # -- for consumers ------------------------------------------------------------------------------------------

    def go_on(self, consumer: Consumer) -> None:
        """With the rest of the piece that it took last, if it stopped in the middle of it."""
        with self._changed:
            last, scan = consumer.taken, consumer.scan
            if last is None or scan is None or not consumer.left.within(last.start, last.end):
                return
            if consumer.number > scan.oldest:
                consumer.number -= 1
            else:
                self._detach(consumer)

    def leave(self, consumer: Consumer) -> None:
        with self._changed:
            self._detach(consumer)

    def take(self, consumer: Consumer) -> ScanPiece | None:
        """The next piece that the consumer lacks something of; None when it has everything, or was closed.

        Raises what reading does; the others go on.
        """
        with self._changed:
            while consumer.left and not consumer.is_closed:
                scan = consumer.scan or self._attach(consumer)
                if consumer.number < scan.oldest:
                    self._detach(consumer)  # too far behind
                elif consumer.number < scan.next:
                    piece = scan.piece(consumer.number)
                    consumer.number += 1
                    consumer.taken = piece
                    self._changed.notify_all()  # for whoever waits until it is taken
                    if consumer.left.within(piece.start, piece.end):
                        return piece
                elif scan.position is None or scan.position not in consumer.left:
                    self._detach(consumer)
                elif scan.is_led:
                    self._changed.wait()
                else:
                    self._lead(scan)
            self._detach(consumer)
        return None

    # -- scans, under the lock ----------------------------------------------------------------------------------

    def _attach(self, consumer: Consumer) -> SharedScan:
        """To the scan that has what it lacks first; else to one that is in the middle of that; else to a new one."""
        first = consumer.left.first
        for scan in self._scans:
            number = scan.number_at(first)
            if number is not None:
                return self._attached(consumer, scan, number)
        if not consumer.in_order and len(consumer.left) < RANGES_MAX:
            under_way = [each for each in self._scans if each.position is not None and each.position in consumer.left]
            if under_way:
                scan = max(under_way, key=lambda each: len(each.consumers))
                return self._attached(consumer, scan, scan.next)
        scan = SharedScan(self._stream(replace(self.state, left=Ranges.behind(first))))
        self._scans.append(scan)
        return self._attached(consumer, scan, scan.next)

    def _attached(self, consumer: Consumer, scan: SharedScan, number: int) -> SharedScan:
        consumer.scan, consumer.number = scan, number
        scan.consumers.add(consumer)
        return scan

    def _detach(self, consumer: Consumer) -> None:
        scan, consumer.scan = consumer.scan, None
        if scan is not None:
            scan.consumers.discard(consumer)
            self._end_if_idle(scan)
            self._changed.notify_all()

    def _end_if_idle(self, scan: SharedScan) -> None:
        if not scan.consumers and not scan.is_led and scan in self._scans:
            self._scans.remove(scan)
            scan.close()

    @property
    def _buffer_bytes(self) -> int:
        """Of each scan, so that all together keep no more than they may."""
        return self._limits.buffer_bytes // max(1, len(self._scans))

    def _lead(self, scan: SharedScan) -> None:
        """Reads the next piece, for all. The lock is given back meanwhile."""
        scan.is_led = True
        try:
            self._make_room(scan)
            self._changed.release()
            try:
                piece = scan.read()
            finally:
                self._changed.acquire()
            scan.keep(piece)
        except BaseException:
            for each in list(scan.consumers):  # the scan is of no use any more: each begins another, and sees
                each.scan = None
                scan.consumers.discard(each)
            raise
        finally:
            scan.is_led = False
            self._end_if_idle(scan)
            self._changed.notify_all()

    def _make_room(self, scan: SharedScan) -> None:
        """Lets go of the oldest pieces, when all have taken them, or those who have not were waited for long enough."""
        monotonic = self._source.env.monotonic
        while scan.bytes >= self._buffer_bytes and scan.bytes:
            slow = [each for each in scan.behind() if each.patience_s > 0]
            if not slow:
                scan.forget_oldest()
                continue
            began_s = monotonic()
            self._changed.wait(min(each.patience_s for each in slow))
            waited_s = monotonic() - began_s
            for each in slow:
                each.patience_s -= waited_s

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends all scans; consumers get nothing more. Idempotent."""
        with self._changed:
            consumers = [each for scan in self._scans for each in scan.consumers]
        for each in consumers:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
