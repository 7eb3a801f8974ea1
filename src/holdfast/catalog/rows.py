"""Captures in the table: by place in one collection or merged from several, by record, time and page.

The methods that return lists read a bounded range as of one moment, in key order, and hold nothing open: the table may
be changed, compacted, or rebuilt between two calls. The last key is the position to continue from. Iterators show the
state of their first step, and should be read at once.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.catalog.keys import (
    BATCH,
    CAPTURE,
    FRAME,
    MODIFIED,
    SERIAL,
    SPLIT,
    TOTALS,
    WHEN,
    Total,
    after,
    area,
    encoded,
    frame_key,
    page_area,
    page_id_area,
    record_key,
    record_of,
    unpack_home,
    unpack_row,
    unpack_total,
)
from holdfast.env.table import Table
from holdfast.model import Capture, RecordId

FEW = 12  # captures of a URL that are read at once
_FEW_KEPT = 1024
Found = tuple[bytes, str, bytes]  # place, collection, row


class CaptureRows:
    """Reads captures. Thread-safe."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: list[tuple[str, ...]] = []  # replaced after each change: threads that come late fill the old one
        self._few: dict[tuple[str | None, str], list[Capture] | None] = {}  # the same
        self._areas: dict[str, bytes] = {}

    def collections(self) -> tuple[str, ...]:
        """The collections with captures, by name."""
        seen = self._seen
        if not seen:
            start = TOTALS + CAPTURE
            seen.append(tuple(key[len(start) :].decode() for key, _ in self._table.scan(start, after(start))))
        return seen[0]

    def forget(self) -> None:
        """The table has changed."""
        self._seen = []
        self._few = {}

    def totals(self) -> dict[bytes, Total]:
        return {key: unpack_total(value) for key, value in self._table.scan(TOTALS, after(TOTALS))}

    def scan(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Capture]:
        """Captures of one or of all collections, by place."""
        return map(unpacked, self._merged(CAPTURE, collection, bounds, reverse=reverse))

    def found(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Found]:
        """As `scan`, not unpacked: for callers that need only places."""
        return self._merged(CAPTURE, collection, bounds, reverse=reverse)

    def splits(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Iterator[bytes]:
        """Places of the captures that begin a block, ascending."""
        return (place for place, _, _ in self._merged(SPLIT, collection, bounds))

    def all_of(self, collection: str | None, bounds: tuple[bytes, bytes], most: int = sys.maxsize) -> list[Capture]:
        """As `scan`, as a list: for a few, or a limited number per collection."""
        found: list[Capture] = []
        names = self._names(collection)
        for name in names:
            prefix = self._area(name)
            pairs = self._table.range(prefix + bounds[0], prefix + bounds[1], most)
            found += [unpack_row(name, key[len(prefix) :], row) for key, row in pairs]
        if len(names) > 1:
            found.sort(key=lambda capture: (encoded(capture.timestamp), encoded(str(capture.record))))
        return found

    def by_place(self, collection: str | None, bounds: tuple[bytes, bytes], most: int) -> list[Found]:
        """The first captures of one or of all collections by URL and time, not unpacked."""
        found: list[list[Found]] = []
        for name in self._names(collection):
            prefix = self._area(name)
            pairs = self._table.range(prefix + bounds[0], prefix + bounds[1], most)
            found.append([(key[len(prefix) :], name, row) for key, row in pairs])
        return found[0] if len(found) == 1 else list(islice(heapq.merge(*found), most))

    def few_of(self, collection: str | None, key: str) -> list[Capture] | None:
        """All captures of a URL, in one or all collections, by time, if they are few, as usual; else None.

        They are cached until something changes: requests for neighbours usually follow.
        """
        known = self._few
        place = (collection, key)
        if place not in known:
            if len(known) >= _FEW_KEPT:
                known.clear()
            start = encoded(key) + b" "
            found = self.all_of(collection, (start, after(start)), FEW + 1)
            known[place] = found if len(found) <= FEW else None
        return known.get(place)

    def last_of(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Capture | None:
        """The capture with the greatest place."""
        found: list[Found] = []
        for name in self._names(collection):
            prefix = self._area(name)
            pair = self._table.last(prefix + bounds[0], prefix + bounds[1])
            if pair is not None:
                found.append((pair[0][len(prefix) :], name, pair[1]))
        return unpacked(max(found)) if found else None

    def first_of(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Capture | None:
        """The capture with the least place."""
        found = self.by_place(collection, bounds, 1)
        return unpacked(found[0]) if found else None

    def of_records(self, records: list[RecordId]) -> list[Capture | None]:
        """The capture of each record; None if it is gone."""
        places: list[tuple[str, bytes] | None] = [
            unpack_home(home, str(record).encode()) if home else None
            for record, home in zip(records, self.homes(records), strict=True)
        ]
        keys = [self._area(collection) + place for collection, place in filter(None, places)]
        rows = iter(self._table.get_many(keys) if keys else [])
        found: list[Capture | None] = []
        for each in places:
            row = next(rows) if each is not None else None
            found.append(unpack_row(*each, row) if each is not None and row is not None else None)
        return found

    def homes(self, records: list[RecordId]) -> list[bytes | None]:
        """The home of each record's capture: collection, a zero byte, URL key, a space, timestamp."""
        return self._table.get_many([record_key(record) for record in records]) if records else []

    def of_batch(self, batch: str, first: int, end: int, most: int) -> list[tuple[int, bytes]]:
        """The captures of a batch in a range of serials: serial, and the capture's home."""
        start, stop = record_key(RecordId(batch, first)), record_key(RecordId(batch, end))
        found: list[tuple[int, bytes]] = []
        while len(found) < most:
            pairs = self._table.range(start, stop, most - len(found))
            # Keys of a batch 'b-0000002' sort among those of 'b', and are longer.
            found += [(int(key[-10:]), home) for key, home in pairs if len(key) == len(stop)]
            if not pairs:
                break
            start = pairs[-1][0] + b"\0"
        return found

    def by_time(
        self, first: bytes, end: bytes, most: int, *, modified: bool = False, reverse: bool = False
    ) -> list[tuple[str, RecordId]]:
        """Captures by time: timestamp and record, in a range of keys `timestamp ␠ record`.

        With `modified`, by modified date; without one, by `~` and the time, after all others.
        """
        kind = MODIFIED if modified else WHEN
        pairs: Iterable[tuple[bytes, bytes]]
        if reverse:
            pairs = islice(self._table.scan(kind + first, kind + end, reverse=True), most)
        else:
            pairs = self._table.range(kind + first, kind + end, most)
        parted = (key[1:].partition(b" ") for key, _ in pairs)
        return [(time.decode(), record_of(record)) for time, _, record in parted]

    def of_page(self, number: int) -> list[RecordId]:
        return self._records_below(page_area(number))

    def of_page_id(self, number: int) -> list[RecordId]:
        return self._records_below(page_id_area(number))

    def _records_below(self, prefix: bytes) -> list[RecordId]:
        return [record_of(key[len(prefix) :]) for key, _ in self._table.range(prefix, after(prefix))]

    def frames(self, batch: str, first: int, last: int) -> list[tuple[int, bytes]]:
        """First serial and place of each frame that may hold one of these serials, ascending."""
        prefix = area(FRAME, batch)
        start = self._table.last(prefix, frame_key(batch, first) + b"\0")
        pairs = self._table.range(start[0] if start else prefix, frame_key(batch, last) + b"\0")
        return [(SERIAL.unpack(key[len(prefix) :])[0], place) for key, place in pairs]

    def batch_states(self) -> dict[str, bytes]:
        """The state of every batch, as of one moment."""
        return {key[1:].decode(): state for key, state in self._table.range(BATCH, after(BATCH))}

    def _names(self, collection: str | None) -> tuple[str, ...]:
        return (collection,) if collection is not None else self.collections()

    def _area(self, collection: str) -> bytes:
        found = self._areas.get(collection)
        if found is None:
            found = self._areas[collection] = area(CAPTURE, collection)
        return found

    def _merged(
        self, kind: bytes, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False
    ) -> Iterator[Found]:
        scans = [self._scan(kind, name, bounds, reverse=reverse) for name in self._names(collection)]
        return scans[0] if len(scans) == 1 else heapq.merge(*scans, reverse=reverse)

    def _scan(self, kind: bytes, collection: str, bounds: tuple[bytes, bytes], *, reverse: bool) -> Iterator[Found]:
        prefix = area(kind, collection)
        skip = len(prefix)
        for key, row in self._table.scan(prefix + bounds[0], prefix + bounds[1], reverse=reverse):
            yield key[skip:], collection, row


def unpacked(found: Found) -> Capture:
    place, collection, row = found
    return unpack_row(collection, place, row)
