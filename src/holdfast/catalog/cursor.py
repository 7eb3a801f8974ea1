"""The catalog in short ranges: for walks that take long, go on after a pause, and must not hold anything open.

Each call reads a bounded range as of one moment, in key order, and nothing stays behind: the table may be changed,
compacted, or rebuilt between two calls. Whoever keeps the last key goes on behind it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.catalog.keys import (
    BATCH,
    FRAME,
    MODIFIED,
    RECORD,
    SERIAL,
    WHEN,
    after,
    area,
    frame_key,
    page_area,
    page_id_area,
    record_key,
    record_of,
)
from holdfast.catalog.rows import CaptureRows, Found
from holdfast.env.table import Table
from holdfast.model import Capture, RecordId


class CatalogCursor:
    """Any thread may call any method."""

    def __init__(self, table: Table, rows: CaptureRows) -> None:
        self._table = table
        self._rows = rows

    def batch_states(self) -> dict[str, bytes]:
        """The state of every batch, all as of one moment."""
        return {key[1:].decode(): state for key, state in self._table.range(BATCH, after(BATCH))}

    def of_batch(self, batch: str, first: int, end: int, most: int) -> list[tuple[int, bytes]]:
        """The captures of a batch from one serial number on and before another: serial, and the capture's home."""
        start, stop = record_key(RecordId(batch, first)), record_key(RecordId(batch, end))
        found: list[tuple[int, bytes]] = []
        while len(found) < most:
            pairs = self._table.range(start, stop, most - len(found))
            # Keys of a batch 'b-0000002' stand among those of 'b', and are longer.
            found += [(int(key[-10:]), home) for key, home in pairs if len(key) == len(stop)]
            if not pairs:
                break
            start = pairs[-1][0] + b"\0"
        return found

    def frames(self, batch: str, first: int, last: int) -> list[tuple[int, bytes]]:
        """First serial and place of each frame that may hold a serial of these, ascending."""
        prefix = area(FRAME, batch)
        start = self._table.last(prefix, frame_key(batch, first) + b"\0")
        begin = start[0] if start is not None else prefix
        pairs = self._table.range(begin, frame_key(batch, last) + b"\0")
        return [(SERIAL.unpack(key[len(prefix) :])[0], place) for key, place in pairs]

    def by_place(self, collection: str | None, bounds: tuple[bytes, bytes], most: int) -> list[Found]:
        """Captures of one or of all collections by URL and time, not yet unpacked."""
        names = (collection,) if collection is not None else self._rows.collections()
        found = [self._rows.some(name, bounds, most) for name in names]
        return found[0] if len(found) == 1 else list(islice(heapq.merge(*found), most))

    def newest_first(self, collection: str | None, bounds: tuple[bytes, bytes]) -> Iterator[Found]:
        """Captures by place, backwards. To be read at once: it holds the table's state of its first step."""
        return self._rows.found(collection, bounds, reverse=True)

    def by_time(self, first: bytes, end: bytes, most: int) -> list[tuple[str, RecordId]]:
        """Captures by time: timestamp and record, from one key `timestamp ␠ record` on and before another."""
        return self._timed(self._table.range(WHEN + first, WHEN + end, most))

    def by_modified(self, first: bytes, end: bytes, most: int) -> list[tuple[str, RecordId]]:
        """As `by_time`, by modified date; where that is not known, by `~` and the time, behind all others."""
        return self._timed(self._table.range(MODIFIED + first, MODIFIED + end, most))

    def latest_by_time(self, first: bytes, end: bytes, most: int) -> list[tuple[str, RecordId]]:
        """As `by_time`, from the last key on backwards."""
        return self._timed(islice(self._table.scan(WHEN + first, WHEN + end, reverse=True), most))

    def latest_by_modified(self, first: bytes, end: bytes, most: int) -> list[tuple[str, RecordId]]:
        """As `by_modified`, from the last key on backwards."""
        return self._timed(islice(self._table.scan(MODIFIED + first, MODIFIED + end, reverse=True), most))

    def _timed(self, pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, RecordId]]:
        parted = (key[1:].partition(b" ") for key, _ in pairs)
        return [(time.decode(), record_of(record)) for time, _, record in parted]

    def of_page(self, number: int) -> list[RecordId]:
        """The captures of a page, given its number."""
        prefix = page_area(number)
        return [record_of(key[len(prefix) :]) for key, _ in self._table.range(prefix, after(prefix))]

    def of_page_id(self, number: int) -> list[RecordId]:
        """The captures whose URL has this page id of WebBase's."""
        prefix = page_id_area(number)
        return [record_of(key[len(prefix) :]) for key, _ in self._table.range(prefix, after(prefix))]

    def homes(self, records: list[RecordId]) -> list[bytes | None]:
        """Of each record its capture's home: collection, a zero byte, URL key, a space, timestamp."""
        return self._table.get_many([RECORD + str(record).encode() for record in records]) if records else []

    def captures(self, records: list[RecordId]) -> list[Capture | None]:
        """The capture of each record; None if it is gone."""
        return self._rows.of_records(records) if records else []
