"""The counters of the workers, in memory that all of them share.

    row of worker 0:  8-byte slots, one for each name of `SLOTS`
    row of worker 1:  ...

A worker adds only to its own row, without locks; readers sum the rows. The replacement of a dead worker keeps its row,
so counters never fall. Gauges start at zero in a new worker.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator
from typing import Self

KINDS = (
    *("replay", "raw", "banner", "calendar", "timegate", "timemap", "cdx", "record", "page", "api", "static"),
    *("operations", "collection", "warc", "stream", "stray", "missing", "refused", "other"),
)
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # and one for all that is longer
NAMES = (
    *("cache_hits", "cache_misses", "errors", "connections", "connections_refused", "timeouts", "stalls"),
    *("captures_missing", "fuzzy_matches", "writes", "queries_cut", "access_log_lost"),
)
GAUGES = ("pid", "started", "connections_open", "in_flight", "memory_bytes")
GONE = 499  # a client that disconnected before the response; nginx's code
RESTARTS = "restarts"  # counted by the parent, in the row of the worker that died

_OF_KIND = (*CLASSES, *(f"le_{bound}" for bound in BUCKETS_S), "le_inf", "microseconds", "bytes")
SLOTS = (*GAUGES, RESTARTS, *NAMES, *(f"{kind}.{what}" for kind in KINDS for what in _OF_KIND))
_AT = {name: index for index, name in enumerate(SLOTS)}
_KIND_AT = {kind: _AT[f"{kind}.{_OF_KIND[0]}"] for kind in KINDS}
_BUCKET_AT = len(CLASSES)
_MICROSECONDS_AT = _BUCKET_AT + len(BUCKETS_S) + 1
_BYTES_AT = _MICROSECONDS_AT + 1
_ROW_BYTES = len(SLOTS) * 8


class Counters:
    """One worker's view: adds to its row, reads all rows. Adding is for one thread: that of the event loop."""

    def __init__(self, descriptor: int, row: int = 0) -> None:
        """Takes the descriptor over."""
        self.descriptor = descriptor
        self.workers = os.fstat(descriptor).st_size // _ROW_BYTES
        self._map = mmap.mmap(descriptor, self.workers * _ROW_BYTES)
        self._all = memoryview(self._map).cast("q")
        self._row = self._all[row * len(SLOTS) : (row + 1) * len(SLOTS)]

    @classmethod
    def make(cls, workers: int = 1) -> Self:
        """All zero. The descriptor can be passed to other processes."""
        descriptor = os.memfd_create("holdfast-counters")
        os.ftruncate(descriptor, workers * _ROW_BYTES)
        return cls(descriptor)

    # -- adding ---------------------------------------------------------------------------------------------------

    def add(self, name: str, count: int = 1) -> None:
        """`name` is one of NAMES or GAUGES."""
        self._row[_AT[name]] += count

    def set(self, gauge: str, value: int) -> None:
        self._row[_AT[gauge]] = value

    def observe(self, kind: str, status: int, seconds: float, size: int) -> None:
        """Counts one request. A kind that is not in KINDS counts as `other`; status 0: the client disconnected."""
        row, at = self._row, _KIND_AT.get(kind) or _KIND_AT["other"]
        row[at + min(max((status or GONE) // 100, 1), 5) - 1] += 1
        row[at + _BUCKET_AT + bisect_left(BUCKETS_S, seconds)] += 1
        row[at + _MICROSECONDS_AT] += int(seconds * 1e6)
        row[at + _BYTES_AT] += size

    def begin(self, pid: int, started: int) -> None:
        """Assigns this row to a new process."""
        for gauge in GAUGES:
            self.set(gauge, 0)
        self.set("pid", pid)
        self.set("started", started)

    def add_restart(self, row: int) -> None:
        """For the parent, while the worker of that row is dead."""
        self._all[row * len(SLOTS) + _AT[RESTARTS]] += 1

    # -- reading --------------------------------------------------------------------------------------------------

    def total(self, name: str) -> int:
        """Over all workers."""
        return sum(self._all[_AT[name] :: len(SLOTS)])

    def of_worker(self, row: int, name: str) -> int:
        return self._all[row * len(SLOTS) + _AT[name]]

    def requests(self) -> Iterator[tuple[str, str, int]]:
        """Kind, status class and count of all requests."""
        for kind in KINDS:
            for name in CLASSES:
                if count := self.total(f"{kind}.{name}"):
                    yield kind, name, count

    def latencies(self, kind: str) -> list[int]:
        """How many of the kind took up to each of BUCKETS_S, and how many longer than all of them."""
        return [self.total(f"{kind}.{name}") for name in _OF_KIND[_BUCKET_AT:_MICROSECONDS_AT]]

    def close(self) -> None:
        self._row.release()
        self._all.release()
        self._map.close()
        os.close(self.descriptor)
