"""Orders `date` and `modified`: by the time of capture, or by the modified date, then by record; both ways.

Captures without a modified date come last in both directions, by the time of their capture. Captures of one second come
in the order of their records, in both directions.

A position is the least `time ␠ record` not yet visited. Backwards it is two values: the distance of the time from
the last possible one, so that positions ascend, and the least record of that time not yet visited.

    order      position of 2026-05-01 08:00:00
    forwards   "20260501080000 202611-0000000042\\0"
    backwards  79739498919999, "202611-0000000042\\0"
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from holdfast.catalog.keys import NOT_MODIFIED, encoded
from holdfast.model import Capture, RecordId
from holdfast.streams.filter import CaptureFilter
from holdfast.streams.order.order import OrderStep, StreamOrder
from holdfast.streams.order.ranges import Position
from holdfast.streams.page import Page
from holdfast.streams.page_reader import PageReader
from holdfast.streams.source import StreamSource
from holdfast.streams.token import expect

_NEXT = "\0"  # appended to a key: the next possible key
_ALL = b"!"  # appended to a time: after all its records, which begin with a space
_DIGITS = 14
_TIMES = 10**_DIGITS  # number of timestamps
_UNKNOWN = NOT_MODIFIED.decode()

Timed = tuple[str, RecordId]


class _Looked(NamedTuple):
    """Keys in the order of the stream, and the position after them."""

    found: list[Timed]
    position: Position


class DateOrder(StreamOrder):
    """One thread at a time."""

    def __init__(
        self,
        source: StreamSource,
        choice: CaptureFilter,
        reader: PageReader,
        *,
        is_modified: bool = False,
        reverse: bool = False,
    ) -> None:
        super().__init__(source, choice, reader)
        self._is_modified = is_modified
        self._reverse = reverse

    def behind(self, page: Page) -> Position:
        return self._behind(self._time_of(page.capture) if self._is_modified else page.timestamp, page.record)

    def step(self, position: Position, most: int) -> OrderStep | None:
        looked = max(most, self._looked)
        some = self._backwards(position, looked) if self._reverse else self._forwards(position, looked)
        if some is None:
            return None
        wanted = [record for _, record in some.found if self._choice.in_shard(record) and self._choice.holds(record)]
        captures = self._reader.patiently(lambda: self._source.catalog.rows.of_records(wanted))
        chosen = [capture for capture in captures if capture is not None and self._takes(capture)]
        pages = [Page.of_capture(capture, self._reader) for capture in chosen[:most]]
        if len(chosen) > most:
            return OrderStep(pages, self.behind(pages[-1]), [])
        return OrderStep(pages, some.position, [])

    # -- keys ---------------------------------------------------------------------------------------------------

    def _bounds(self) -> tuple[bytes, bytes]:
        """The range of keys that can be part of the stream; a time range applies to capture times only."""
        return (b"", b"\x7f") if self._is_modified else (self._choice.first, self._choice.last + _ALL)

    def _timed(self, start: bytes, end: bytes, most: int, *, reverse: bool = False) -> list[Timed]:
        catalog, modified = self._source.catalog, self._is_modified
        return self._reader.patiently(
            lambda: catalog.rows.by_time(start, end, most, modified=modified, reverse=reverse)
        )

    def _behind(self, time: str, record: RecordId) -> Position:
        if self._reverse:
            return _distance(time), f"{record}{_NEXT}"
        return (f"{time} {record}{_NEXT}",)

    def _forwards(self, position: Position, most: int) -> _Looked | None:
        first, end = self._bounds()
        start = max(first, encoded(expect(position, str)[0]) if position else b"")
        if start >= end:
            return None
        found = self._timed(start, end, most)
        return _Looked(found, self._behind(*found[-1]) if len(found) == most else (end.decode(),))

    def _backwards(self, position: Position, most: int) -> _Looked | None:
        distance, record = expect(position, int, str) if position else (0, "")
        if not 0 <= distance < (2 * _TIMES if self._is_modified else _TIMES):
            return None
        time = _time_at(distance)
        if record:
            return self._rest_of(time, record, most)
        kind = time[:-_DIGITS]  # '' or '~', never mixed
        first, last = self._bounds()
        found = self._timed(max(first, kind.encode()), min(last, time.encode() + _ALL), most, reverse=True)
        groups = [(each, list(some)[::-1]) for each, some in groupby(found, key=lambda timed: timed[0])]
        if len(found) < most:
            return _Looked([timed for _, some in groups for timed in some], ((distance // _TIMES + 1) * _TIMES, ""))
        *whole, (last_time, _) = groups
        if not whole:  # one second has more than fit into a step
            return self._rest_of(last_time, "", most)
        return _Looked([timed for _, some in whole for timed in some], (_distance(whole[-1][0]) + 1, ""))

    def _rest_of(self, time: str, record: str, most: int) -> _Looked:
        """Captures of one time, from a record on."""
        found = self._timed(encoded(f"{time} {record}"), time.encode() + _ALL, most)
        return _Looked(found, self._behind(*found[-1]) if len(found) == most else (_distance(time) + 1, ""))

    # -- captures -----------------------------------------------------------------------------------------------

    def _time_of(self, capture: Capture) -> str:
        return capture.modified if capture.modified != "-" else f"{_UNKNOWN}{capture.timestamp}"

    def _takes(self, capture: Capture) -> bool:
        if not self._choice.takes(capture):
            return False
        return not self._choice.is_latest or self._is_newest(capture.record, capture.urlkey)


def _distance(time: str) -> int:
    """Distance from the last time; unknown times come after all known ones."""
    known = time.removeprefix(_UNKNOWN)
    before: int = _TIMES - 1 - int(known)
    return before if known == time else before + _TIMES


def _time_at(distance: int) -> str:
    """Inverse of `_distance`."""
    kind, before = divmod(distance, _TIMES)
    return f"{_UNKNOWN if kind else ''}{_TIMES - 1 - before:014d}"
