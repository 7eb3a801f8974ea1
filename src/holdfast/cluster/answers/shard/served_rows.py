"""The captures of this node in some partitions, under the ids of their origins: the same on every holder (H8).

A copy has an id of its own in the archive of each holder. Answers of a cluster name a record by its origin, the id on
the node that recorded it; where several nodes have recorded it, by the least of these. So a place in the catalog means
the same at any node: it can be merged with those of other nodes, and resumed elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import groupby

from holdfast.catalog.keys import place_of
from holdfast.catalog.outline import key_bounds
from holdfast.catalog.rows import CaptureRows, Found, unpacked
from holdfast.cluster.copies.origins import KIND, OriginTable
from holdfast.env.table import Table
from holdfast.model import Capture, RecordId
from holdfast.records.draft import origin_of
from holdfast.streams.snapshot import Snapshot

_CACHE_BYTES = 16 << 20
_LOOK_S = 0.2  # between two looks at what the node's process has written
_NO_PARTITION = -1


class OriginReader(OriginTable):
    """The table of origins, which the node's process writes, as other processes of the machine read it."""

    _looked_s = 0.0

    def _opened(self) -> Table:
        return Table(self._path, KIND, cache_bytes=_CACHE_BYTES, follow=True)

    def refresh(self) -> None:
        """Follows the node's process, unless it did so just now."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._looked_s >= _LOOK_S:
                self._table.catch_up()
                self._looked_s = now_s

    def close(self) -> None:
        with self._lock:
            self._table.abandon()

    def first_origins(self, records: Sequence[RecordId]) -> list[RecordId]:
        """The least origin of each record here. One that the table does not know yet is read from its batch."""
        return [min(self.origins_of(record), default=None) or self._from_batch(record) for record in records]

    def _from_batch(self, record: RecordId) -> RecordId:
        entry = self._archive.records.entry(record)
        return origin_of(entry, record.batch) if entry is not None else record

    def partition_of(self, record: RecordId) -> int:
        """The partition of a record here, by the table."""
        found = self.find_all(self.origins_of(record))
        return next((row.partition for row in found if row is not None), _NO_PARTITION)


class ServedRows(CaptureRows):
    """Captures in some partitions, by place. Any thread may call."""

    def __init__(
        self, rows: CaptureRows, origins: OriginReader, partitions: frozenset[int], batch: str | None = None
    ) -> None:
        """With a `batch`, only captures that have an origin in it, under that id."""
        self._rows = rows
        self._origins = origins
        self._partitions = partitions
        self._batch = batch

    def scan(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Capture]:
        low, high = bounds
        found = self._rows.scan(collection, (group_start(low), group_end(high)), reverse=reverse)
        served = filter(self.holds, found)
        for _, group in groupby(served, key=lambda capture: (capture.urlkey, capture.timestamp)):
            named = self.named(list(group))
            if len(named) > 1:
                named.sort(key=place_of, reverse=reverse)
            yield from [capture for capture in named if low <= place_of(capture) < high]

    def found(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Found]:
        """Places and rows as they are here, with the ids of this node."""
        host, partition = b"", None
        for each in self._rows.found(collection, bounds, reverse=reverse):
            start = each[0].partition(b")")[0]
            if start != host:
                host, partition = start, self._origins.rule.of_host(unpacked(each).url)
            if self.holds(unpacked(each)) if partition is None else partition in self._partitions:
                yield each

    def first_of(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Capture | None:
        """Leaps over hosts that are in other partitions."""
        low, high = bounds
        while low < high and (capture := self._rows.first_of(collection, (low, high))) is not None:
            if self.holds(capture):
                return self.named([capture])[0]
            is_elsewhere = self._origins.rule.of_host(capture.url) is not None
            low = key_bounds(capture.urlkey)[1] if is_elsewhere else place_of(capture) + b"\0"
        return None

    def splits(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Iterator[bytes]:
        """By URL and time: the places of copies end in ids of their own."""
        for place in self._rows.splits(collection, bounds):
            urlkey, _, _ = place.rsplit(b" ", 2)
            if any(self.holds(each) for each in self._rows.all_of(collection, (urlkey + b" ", urlkey + b"!"), 1)):
                yield group_start(place)

    def holds(self, capture: Capture) -> bool:
        """Whether a capture is in one of the partitions."""
        partition = self._origins.rule.of_url(capture.url)
        return (self._origins.partition_of(capture.record) if partition is None else partition) in self._partitions

    def origin_of(self, record: RecordId) -> RecordId:
        """The id of a record of this node in the whole cluster."""
        return self._origins.first_origins([record])[0]

    def name_in(self, snapshot: Snapshot, record: RecordId) -> RecordId | None:
        """The least id of a record of this node that is in a snapshot of the cluster; None if it came later."""
        return min((each for each in self._origins.origins_of(record) if each in snapshot), default=None)

    def named(self, captures: Sequence[Capture]) -> list[Capture]:
        """The captures under the ids of their origins."""
        if self._batch is not None:
            return [capture for each in captures if (capture := self._of_batch(each)) is not None]
        origins = self._origins.first_origins([capture.record for capture in captures])
        return [capture._replace(record=origin) for capture, origin in zip(captures, origins, strict=True)]

    def _of_batch(self, capture: Capture) -> Capture | None:
        origins = self._origins.origins_of(capture.record) or self._origins.first_origins([capture.record])
        origin = min((each for each in origins if each.batch == self._batch), default=None)
        return capture._replace(record=origin) if origin is not None else None


def group_start(place: bytes) -> bytes:
    """The least place of the same URL and time."""
    return place.rsplit(b" ", 1)[0] + b" " if place.count(b" ") >= 2 else place


def group_end(place: bytes) -> bytes:
    """Above all places of the same URL and time."""
    return place.rsplit(b" ", 1)[0] + b"!" if place.count(b" ") >= 2 else place
