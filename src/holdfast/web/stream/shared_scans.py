"""Streams of one worker, shared: clients who ask for the same captures of the same snapshot take from one scan.

    client ──► options ──► is there a multicast of this snapshot? ── yes ──► join
                                                                 ── no ───► a new one, for those who come after

In order, unless a client says that it takes any: then it joins whatever of the same options is under way, also if its
snapshot is a little older, and gets what it comes too late for at the end.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from holdfast.archive import Archive
from holdfast.config import ServeSettings
from holdfast.errors import Throttled
from holdfast.streams import Consumer, Multicast, MulticastOptions, StreamOptions
from holdfast.streams.token import decode


class SharedStreams:
    """Any thread may call."""

    def __init__(self, archive: Archive, settings: ServeSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._lock = threading.Lock()
        self._running: Counter[Multicast] = Counter()  # each with its consumers
        self._clients: Counter[str] = Counter()

    @property
    def clients(self) -> int:
        """Streams that run."""
        with self._lock:
            return self._clients.total()

    @property
    def running(self) -> int:
        """Snapshots that somebody reads."""
        with self._lock:
            return len(self._running)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """While one more stream runs. Raises Throttled."""
        with self._lock:
            if self._clients.total() >= self._settings.streams_max:
                raise Throttled(f"{self._settings.streams_max} streams are running, and no more may: come back later")
            if self._clients[client] >= self._settings.streams_per_client_max:
                raise Throttled(f"{self._clients[client]} streams of yours are running, and no more may: end one first")
            self._clients[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._clients[client] -= 1
                self._clients += Counter()  # forgets who has none

    def join(self, options: StreamOptions, *, any_order: bool) -> Consumer:
        """A consumer behind the token in the options, or of all. Raises as a stream does."""
        bare = replace(options, token="")
        with self._lock:
            multicast = self._found(bare, options.token, any_order=any_order) or self._new(options, bare)
            consumer = multicast.join(options.token, in_order=not any_order)
            self._running[multicast] += 1
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Ends a consumer, and its scans if it was the last of them. Twice does no harm."""
        was_closed, multicast = consumer.is_closed, consumer.multicast
        consumer.close()
        with self._lock:
            if not was_closed and multicast is not None:
                self._running[multicast] -= 1
                self._running += Counter()  # forgets what nobody reads

    def _found(self, bare: StreamOptions, token: str, *, any_order: bool) -> Multicast | None:
        """One that is running, if it has what is asked for."""
        same = [each for each in self._running if each.options == bare]
        if token:
            state = decode(token)
            return next((each for each in same if each.serves(state)), None)
        return same[-1] if same and any_order else None

    def _new(self, options: StreamOptions, bare: StreamOptions) -> Multicast:
        """Of the snapshot of this moment or of the token; if it is that of another one, that."""
        limits = MulticastOptions(buffer_bytes=self._settings.stream_buffer_bytes)
        made = self._archive.multicast(options, limits)
        if not options.token:
            for each in self._running:
                if each.options == bare and made.serves(each.state) and each.serves(made.state):
                    return each
        made.options = bare
        return made
