"""Which captures a stream delivers: those of its snapshot, by URL, time, filters and query; or the newest of each URL.

Cheap tests come first: a catalog key has URL, time and record, its row has the rest. Only the contents of
delivered captures are read. The matches of a query are one bit for each record of the snapshot (`Matches`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.catalog import Catalog, Row
from holdfast.catalog.keys import encoded, record_of, unpack_row
from holdfast.catalog.query.filters import parse_filter
from holdfast.catalog.query.query import exact_range
from holdfast.catalog.rows import Found
from holdfast.env.lru import LruCache
from holdfast.errors import IndexNotFound
from holdfast.index.state import IndexState
from holdfast.model import Capture, RecordId
from holdfast.records.active_state import ABOUT
from holdfast.streams.options import StreamOptions
from holdfast.streams.snapshot import Snapshot

if TYPE_CHECKING:
    from holdfast.streams.source import StreamSource


SHARD_SERIALS = 64  # neighbours in a batch share a shard: about a frame, so that one reader reads it
_NEWEST_KEPT = 65_536
_EVERYWHERE = [(b"", b"\xff" * 16)]
_ANY_TIME = (b"", b"9" * 15)

Selects = Callable[[RecordId], bool]  # whether a query finds a record


class CaptureFilter:
    """One thread at a time."""

    def __init__(self, options: StreamOptions, snapshot: Snapshot, selects: Selects | None = None) -> None:
        asked = options.captures
        self.snapshot = snapshot
        self.collection = options.of_collection
        self.is_latest = options.is_latest
        self.ranges = asked.ranges() if asked is not None else _EVERYWHERE
        self.first, self.last = _ANY_TIME
        if asked is not None and (times := asked.times()) is not None:
            self.first, self.last = times[0].encode(), times[1].encode()
        if options.until:
            self.last = min(self.last, options.until.encode())
        self.filters = [parse_filter(text) for text in (asked.filters if asked is not None else ())]
        self._selects = selects
        self._shard = options.shard
        self._newest: LruCache[bytes, tuple[RecordId | None]] = LruCache(_NEWEST_KEPT)

    @property
    def is_plain(self) -> bool:
        """Whether everything in the snapshot is taken."""
        asks = self.collection, self._selects, self._shard, self.filters, self.is_latest
        return not any(asks) and self.ranges == _EVERYWHERE and (self.first, self.last) == _ANY_TIME

    # -- by catalog key -----------------------------------------------------------------------------------------

    def holds(self, record: RecordId) -> bool:
        """Whether the record is in the snapshot, and found by the query."""
        return record in self.snapshot and (self._selects is None or self._selects(record))

    def in_time(self, timestamp: bytes) -> bool:
        return self.first <= timestamp <= self.last

    def in_place(self, place: bytes) -> bool:
        """Whether a place, with or without its record, is in one of the ranges."""
        return any(start <= place < end for start, end in self.ranges)

    def in_shard(self, record: RecordId) -> bool:
        return self._shard is None or shard_of(record, self._shard[1]) == self._shard[0]

    def has_home(self, home: bytes) -> bool:
        """Whether collection, URL and time fit."""
        collection, _, place = home.partition(b"\0")
        if self.collection is not None and collection != self.collection.encode():
            return False
        return self.in_place(place) and self.in_time(place[-14:])

    # -- by catalog row -----------------------------------------------------------------------------------------

    def passes(self, capture: Capture) -> bool:
        """Whether the filters accept it."""
        row = Row(capture)
        return all(each(row) for each in self.filters)

    def takes(self, capture: Capture) -> bool:
        """Whether collection, URL, time and filters accept it."""
        if self.collection not in (None, capture.collection) or not self.in_time(capture.timestamp.encode()):
            return False
        return self.in_place(encoded(f"{capture.urlkey} {capture.timestamp}")) and self.passes(capture)

    def captures(self, found: Iterable[Found]) -> list[Capture]:
        """The selected captures among catalog rows, of any shard."""
        selected = []
        for place, collection, row in found:
            _, timestamp, record = place.rsplit(b" ", 2)
            if not self.in_time(timestamp) or not self.holds(record_of(record)):
                continue
            capture = unpack_row(collection, place, row)
            if not self.filters or self.passes(capture):
                selected.append(capture)
        return selected

    # -- the newest of a URL ------------------------------------------------------------------------------------

    def newest_of(self, captures: list[Capture]) -> Capture:
        """The newest of all selected captures of a URL; records about a page count only if there is nothing else."""
        return next((each for each in reversed(captures) if each.type not in ABOUT), captures[-1])

    def newest(self, catalog: Catalog, urlkey: str) -> Capture | None:
        """The newest selected capture of a URL, searched from the end."""
        about: Capture | None = None
        for found in catalog.rows.found(self.collection, exact_range(urlkey), reverse=True):
            for capture in self.captures([found]):
                if capture.type not in ABOUT:
                    return capture
                about = about or capture
        return about

    def is_newest(self, catalog: Catalog, record: RecordId, urlkey: str) -> bool:
        """Whether a selected capture is the newest of its URL. Cached."""
        key = encoded(urlkey)
        known = self._newest.get(key)
        if known is None:
            newest = self.newest(catalog, urlkey)
            known = (newest.record if newest is not None else None,)
            self._newest.put(key, known)
        return known[0] == record


def shard_of(record: RecordId, count: int) -> int:
    """The shard of a record. It never changes."""
    return (_batch_number(record.batch) + record.serial // SHARD_SERIALS) % count


@lru_cache(4096)
def _batch_number(batch: str) -> int:
    return zlib.crc32(batch.encode())


_SERIAL_BITS = 32


class Matches:
    """Thread-safe. A hundred million records take 12 megabytes."""

    def __init__(self, bits: Mapping[str, bytes]) -> None:
        self._bits = bits

    def __call__(self, record: RecordId) -> bool:
        bits = self._bits.get(record.batch, b"")
        place = record.serial >> 3
        return place < len(bits) and bool(bits[place] >> (record.serial & 7) & 1)


def find_matches(source: StreamSource, query: str, snapshot: Snapshot, ranks: int) -> Matches:
    """The matches of the query in the snapshot: always the same, except for records removed since.

    Raises MalformedQuery, or IndexNotFound, also if the index does not cover the snapshot because it was
    deleted since the stream began, or is being rebuilt.
    """
    import numpy

    while True:
        state = source.index.state()
        _require_indexed(snapshot, state)
        numbers = source.queries.records_matching(query, snapshot.ends, ranks or None)
        if source.index.state().generation == state.generation:  # otherwise batches may have new numbers
            break
    names = [name for name, _ in source.index.state().batches]
    batches, serials = numbers >> _SERIAL_BITS, numbers & ((1 << _SERIAL_BITS) - 1)
    bits: dict[str, bytes] = {}
    for number in numpy.unique(batches).tolist():
        found = serials[batches == number]
        marked = numpy.zeros(int(found.max()) + 1, numpy.bool_)
        marked[found.astype(numpy.int64)] = True
        bits[names[number]] = numpy.packbits(marked, bitorder="little").tobytes()
    return Matches(bits)


def _require_indexed(snapshot: Snapshot, state: IndexState) -> None:
    """Records that are not indexed would count as non-matches."""
    ends = dict(state.batches)
    for batch, end in snapshot.ends.items():
        if (indexed := ends.get(batch, 1)) < end:
            raise IndexNotFound(
                f"the index reaches less far than the token's stream: batch {batch!r} up to {indexed - 1}, the stream "
                f"up to {end - 1}; run 'holdfast index update'"
            )
