"""Captures in the table: by place in one collection, or merged from several."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator

from holdfast.catalog.keys import (
    CAPTURE,
    RECORD,
    SPLIT,
    TOTALS,
    Total,
    after,
    area,
    encoded,
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
    """Reads captures. Any thread may call any method."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._seen: list[tuple[str, ...]] = []  # a new list after each change: late comers fill the old one in vain
        self._few: dict[tuple[str, str], list[Capture] | None] = {}  # the same
        self._areas: dict[str, bytes] = {}

    def collections(self) -> tuple[str, ...]:
        """Those that hold a capture, in the order of their names."""
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
        for place, name, row in self._merged(CAPTURE, collection, bounds, reverse=reverse):
            yield unpack_row(name, place, row)

    def found(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Found]:
        """As `scan`, not yet unpacked: for those who need no more than places."""
        return self._merged(CAPTURE, collection, bounds, reverse=reverse)

    def splits(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Iterator[bytes]:
        """Places of the captures that begin a block, ascending."""
        for place, _, _ in self._merged(SPLIT, collection, bounds):
            yield place

    def all_of(self, collection: str | None, bounds: tuple[bytes, bytes], most: int = sys.maxsize) -> list[Capture]:
        """As `scan`, at once: for few, or at most so many of each collection."""
        found: list[Capture] = []
        names = (collection,) if collection is not None else self.collections()
        for name in names:
            prefix = self._area(name)
            skip = len(prefix)
            pairs = self._table.range(prefix + bounds[0], prefix + bounds[1], most)
            found += [unpack_row(name, key[skip:], row) for key, row in pairs]
        if len(names) > 1:
            found.sort(key=lambda capture: (encoded(capture.timestamp), encoded(str(capture.record))))
        return found

    def some(self, collection: str, bounds: tuple[bytes, bytes], most: int) -> list[Found]:
        """The first captures of a collection between two places, not yet unpacked."""
        prefix = self._area(collection)
        skip = len(prefix)
        pairs = self._table.range(prefix + bounds[0], prefix + bounds[1], most)
        return [(key[skip:], collection, row) for key, row in pairs]

    def few_of(self, collection: str, key: str) -> list[Capture] | None:
        """All captures of a URL, by time, if they are few, as of most; None if there are more.

        Who asks for one of them soon asks for those around it, so they are remembered until something changes.
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
        best: Found | None = None
        for name in (collection,) if collection is not None else self.collections():
            prefix = self._area(name)
            pair = self._table.last(prefix + bounds[0], prefix + bounds[1])
            if pair is not None and (best is None or pair[0][len(prefix) :] > best[0]):
                best = pair[0][len(prefix) :], name, pair[1]
        return unpack_row(best[1], best[0], best[2]) if best else None

    def first_of(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Capture | None:
        """The capture with the least place."""
        best: Found | None = None
        for name in (collection,) if collection is not None else self.collections():
            prefix = self._area(name)
            pairs = self._table.range(prefix + bounds[0], prefix + bounds[1], 1)
            if pairs and (best is None or pairs[0][0][len(prefix) :] < best[0]):
                best = pairs[0][0][len(prefix) :], name, pairs[0][1]
        return unpack_row(best[1], best[0], best[2]) if best else None

    def at(self, collection: str, place: bytes) -> Capture | None:
        row = self._table.get(self._area(collection) + place)
        return unpack_row(collection, place, row) if row is not None else None

    def of_records(self, records: list[RecordId]) -> list[Capture | None]:
        """The capture of each record."""
        names = [str(record).encode() for record in records]
        homes = self._table.get_many([RECORD + name for name in names])
        places = [unpack_home(home, name) if home else None for home, name in zip(homes, names, strict=True)]
        known = [place for place in places if place]
        rows = iter(
            self._table.get_many([self._area(collection) + place for collection, place in known]) if known else []
        )
        found: list[Capture | None] = []
        for place in places:
            row = next(rows) if place else None
            found.append(unpack_row(place[0], place[1], row) if place and row is not None else None)
        return found

    def _area(self, collection: str) -> bytes:
        found = self._areas.get(collection)
        if found is None:
            found = self._areas[collection] = area(CAPTURE, collection)
        return found

    def _merged(
        self, kind: bytes, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False
    ) -> Iterator[Found]:
        names = (collection,) if collection is not None else self.collections()
        scans = [self._scan(kind, name, bounds, reverse=reverse) for name in names]
        return scans[0] if len(scans) == 1 else heapq.merge(*scans, reverse=reverse)

    def _scan(self, kind: bytes, collection: str, bounds: tuple[bytes, bytes], *, reverse: bool) -> Iterator[Found]:
        prefix = area(kind, collection)
        skip = len(prefix)
        for key, row in self._table.scan(prefix + bounds[0], prefix + bounds[1], reverse=reverse):
            yield key[skip:], collection, row
