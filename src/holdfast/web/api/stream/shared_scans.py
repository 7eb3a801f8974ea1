"""Shared scans: clients of one worker that request the same captures of the same snapshot share one scan.

    client ──► options ──► is there a multicast of this snapshot? ── yes ──► join
                                                                 ── no ───► a new one, which later clients may join

Captures come in order, unless a client accepts any: then it joins a running multicast with the same options, even
of a slightly older snapshot, and gets what it missed at the end.
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

BUFFER_BYTES = 64 << 20  # pages kept for slow clients of a scan


class SharedStreams:
    """Thread-safe."""

    def __init__(self, archive: Archive, settings: ServeSettings) -> None:
        self._archive = archive
        self._settings = settings
        self._lock = threading.Lock()
        self._running: Counter[Multicast] = Counter()  # each with its consumers
        self._clients: Counter[str] = Counter()

    @property
    def clients(self) -> int:
        with self._lock:
            return self._clients.total()

    @property
    def running(self) -> int:
        with self._lock:
            return len(self._running)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """Counts a stream while it runs. Raises Throttled."""
        with self._lock:
            if self._clients.total() >= self._settings.streams_max:
                raise Throttled(
                    f"{self._settings.streams_max} streams are running, which is the limit: try again later"
                )
            if self._clients[client] >= max(1, self._settings.streams_max // 4):
                raise Throttled(
                    f"{self._clients[client]} of your streams are running, which is the limit: end one first"
                )
            self._clients[client] += 1
        try:
            yield
        finally:
            with self._lock:
                self._clients[client] -= 1
                self._clients += Counter()  # drops zeros

    def join(self, options: StreamOptions, *, any_order: bool) -> Consumer:
        """A consumer that starts after the token of the options, or at the beginning. Raises as a stream does."""
        bare = replace(options, token="")
        with self._lock:
            multicast = self._found(bare, options.token, any_order=any_order) or self._new(options, bare)
            consumer = multicast.join(options.token, in_order=not any_order)
            self._running[multicast] += 1
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Closes a consumer, and its scan if it was the last one. Idempotent."""
        was_closed, multicast = consumer.is_closed, consumer.multicast
        consumer.close()
        with self._lock:
            if not was_closed and multicast is not None:
                self._running[multicast] -= 1
                self._running += Counter()  # drops zeros

    def _found(self, bare: StreamOptions, token: str, *, any_order: bool) -> Multicast | None:
        """A running multicast that serves the request."""
        same = [each for each in self._running if each.options == bare]
        if token:
            state = decode(token)
            return next((each for each in same if each.serves(state)), None)
        return same[-1] if same and any_order else None

    def _new(self, options: StreamOptions, bare: StreamOptions) -> Multicast:
        """A multicast of the current snapshot, or the token's; a running one of the same snapshot is preferred."""
        made = self._archive.multicast(options, MulticastOptions(buffer_bytes=BUFFER_BYTES))
        if not options.token:
            for each in self._running:
                if each.options == bare and made.serves(each.state) and each.serves(made.state):
                    return each
        made.options = bare
        return made
