"""Multicast: several consumers of one snapshot share one scan (B10, N5).

                         ┌──► consumer at the newest piece: reads the next one for all
    archive ──► scan ────┼──► consumer a little behind: takes what is kept
                │        └──► consumer too far behind: misses a part and gets it later
                └──── second scan of what late and slow consumers missed, shared as well

Each consumer gets each capture of the snapshot once, whether others come, go, die or are slow:

- There is no extra thread. The first consumer to need the next piece reads it for all; the others wait.
- Pieces are kept, up to `buffer_bytes` in all, for consumers that are behind. A consumer further behind than that is
  waited for, up to `patience_s` in total; then the scan continues without it.
- A consumer keeps what it missed as ranges. One that accepts any order continues with the running scan, and
  gets what it missed at the end; so does one that joins late. One that needs the order continues from its position, by
  a scan shared with others at the same position.

A shared scan is one pass over a stream, with the pieces kept for consumers that are a little behind.

                  kept for slower consumers
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
    def __init__(self, stream: Stream) -> None:
        self.position: Bound = stream.left.first  # where the next piece begins; None: all is read
        self.is_led = False  # a consumer is reading the next piece
        self.consumers: WeakSet[Consumer] = WeakSet()  # a consumer dropped without close does not keep the scan alive
        self._pieces = stream.pieces()
        self._kept: deque[tuple[ScanPiece, int]] = deque()  # each with its size
        self._oldest = 0
        self.bytes = 0  # of what is kept

    @property
    def oldest(self) -> int:
        return self._oldest

    @property
    def next(self) -> int:
        return self._oldest + len(self._kept)

    def piece(self, number: int) -> ScanPiece:
        return self._kept[number - self._oldest][0]

    def number_at(self, position: Position) -> int | None:
        """The number of the piece that holds a position, if it is kept or comes next."""
        if position == self.position:
            return self.next
        at = rank(position)
        for number, (piece, _) in enumerate(self._kept, self._oldest):
            if rank(piece.start) <= at < rank(piece.end):
                return number
        return None

    def behind(self) -> list[Consumer]:
        """Consumers that have not taken the oldest piece."""
        return [each for each in self.consumers if each.number == self._oldest]

    def read(self) -> ScanPiece:
        """The next piece; the last one reaches to the end. Called by the reading consumer, without the lock."""
        assert self.position is not None
        piece = next(self._pieces, None)
        if piece is None:
            return ScanPiece([], self.position, None, [], 0)
        for page in piece.pages:
            page.begun()  # before several threads look at it
        return piece

    def keep(self, piece: ScanPiece) -> None:
        """Adds a piece that was read."""
        size = piece.size
        self._kept.append((piece, size))
        self.bytes += size
        self.position = piece.end

    def forget_oldest(self) -> None:
        self.bytes -= self._kept.popleft()[1]
        self._oldest += 1

    def close(self) -> None:
        """Call it when no consumer is reading."""
        self._kept.clear()
        self._pieces.close()


class Consumer(Feed):
    """Made by `Multicast.join`. Its pages are shared with other consumers: do not change them.

    Its token is its own; any stream or multicast of the same snapshot resumes from it. Close it when you stop
    early, so that nobody waits for it; any thread may do so.
    """

    def __init__(self, source: StreamSource, options: StreamOptions, state: StreamToken, order: StreamOrder) -> None:
        super().__init__(source, options, state, order)
        self.is_closed = False
        self.in_order = False  # receives everything in the order of the stream
        # The multicast's, under its lock:
        self.multicast: Multicast | None = None
        self.scan: SharedScan | None = None
        self.number = 0  # of the next piece to take
        self.taken: ScanPiece | None = None  # the last one
        self.patience_s = 0.0  # how much longer the scan waits for it, in all

    def pieces(self) -> Generator[ScanPiece, None, None]:
        assert self.multicast is not None
        self.multicast.go_on(self)
        while (piece := self.multicast.take(self)) is not None:
            yield piece

    def close(self) -> None:
        self.is_closed = True
        if self.multicast is not None:
            self.multicast.leave(self)


RANGES_MAX = 16  # of a consumer; with more, it no longer joins scans in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastOptions:
    """How far consumers may be apart."""

    buffer_bytes: int = 64 << 20  # of pages that are kept for slower consumers
    patience_s: float = 1.0  # how long a consumer further behind is waited for, in all

    def __post_init__(self) -> None:
        check_fields(self)


class Multicast:
    """One snapshot for many consumers. Any thread may join, and use the consumer it gets.

    The snapshot is taken when the multicast is created, unless its options have a token.
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
        self.state = Stream(source, options).state  # of a consumer that joins without a token
        self._changed = threading.Condition(threading.Lock())
        self._scans: list[SharedScan] = []

    def join(self, token: str = "", *, in_order: bool = False) -> Consumer:
        """A consumer of the whole snapshot, or of the rest after a token.

        What it missed by joining late, it receives at the end, unless it wants the order of the stream; in any
        order but `log` it always does. Raises MalformedToken, also for a token of another snapshot.
        """
        state = self._state_of(token) if token else self.state
        stream = self._stream(state)
        consumer = Consumer(self._source, self.options, state, stream.order)
        consumer.multicast = self
        consumer.in_order = in_order or self.options.order != "log"
        consumer.patience_s = self._limits.patience_s
        with self._changed:
            if consumer.left:
                self._attach(consumer)  # from here on, scans wait for it
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
        with self._changed:
            return len(self._scans)

    # -- for consumers ------------------------------------------------------------------------------------------

    def go_on(self, consumer: Consumer) -> None:
        """Begins with the rest of its last piece, if it stopped in the middle of it."""
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
        """The next piece of which the consumer lacks pages; None when it has everything or is closed.

        Raises read errors; other consumers continue.
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
                    self._changed.notify_all()  # wakes those who wait for it to be taken
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
        """To the scan that has what it lacks first; else to one in the middle of that; else to a new one."""
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
        """The share of each scan in `buffer_bytes`."""
        return self._limits.buffer_bytes // max(1, len(self._scans))

    def _lead(self, scan: SharedScan) -> None:
        """Reads the next piece for all. The lock is released meanwhile."""
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
            for each in list(scan.consumers):  # the scan is broken: each begins another
                each.scan = None
                scan.consumers.discard(each)
            raise
        finally:
            scan.is_led = False
            self._end_if_idle(scan)
            self._changed.notify_all()

    def _make_room(self, scan: SharedScan) -> None:
        """Drops the oldest pieces once all have taken them, or the rest were waited for long enough."""
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
