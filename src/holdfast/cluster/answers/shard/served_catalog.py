"""The catalog of a node as streams of a cluster read it: some partitions, one snapshot, ids of origins (B9, B11).

A record has the least of its origins that is in the snapshot. So it is delivered once, whichever nodes have recorded it
and whichever holder is asked, and positions mean the same at every holder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from holdfast.archive import Archive
from holdfast.catalog.keys import encoded
from holdfast.catalog.rows import CaptureRows, Found, unpacked
from holdfast.cluster.answers.shard.served_rows import OriginReader, group_end, group_start
from holdfast.cluster.copies.origins import OriginRow
from holdfast.model import Capture, RecordId
from holdfast.streams.snapshot import Snapshot

_LOOKED = 2048  # keys read at a time


class SnapshotRows:
    """Takes the place of `CaptureRows` in orders of streams. Any thread may call."""

    def __init__(
        self, rows: CaptureRows, origins: OriginReader, partitions: frozenset[int], snapshot: Snapshot
    ) -> None:
        self._rows = rows
        self._origins = origins
        self._partitions = partitions
        self._snapshot = snapshot
        self._local: dict[RecordId, RecordId] = {}  # ids here, by the ids in the stream, as far as they are known

    def name_of(self, record: RecordId) -> RecordId | None:
        """The id of a record of this node in the stream; None if it is not part of it."""
        found = self._origins.find_all(self._origins.origins_of(record))
        names = [row.origin for row in found if row is not None and row.partition in self._partitions]
        name = min((each for each in names if each in self._snapshot), default=None)
        if name is not None:
            self._local[name] = record
        return name

    def local(self, name: RecordId) -> RecordId | None:
        """The id of a record here."""
        if (known := self._local.get(name)) is not None:
            return known
        found = self._origins.find(name)
        return found.record if found is not None and found.partition in self._partitions else None

    # -- as `CaptureRows` ---------------------------------------------------------------------------------------

    def by_place(self, collection: str | None, bounds: tuple[bytes, bytes], most: int) -> list[Found]:
        return list(islice(self.found(collection, bounds), most))

    def found(self, collection: str | None, bounds: tuple[bytes, bytes], *, reverse: bool = False) -> Iterator[Found]:
        low, high = bounds
        every = self._rows.found(collection, (group_start(low), group_end(high)), reverse=reverse)
        for start, group in groupby(every, key=lambda each: group_start(each[0])):
            named = []
            for each in group:
                name = self.name_of(unpacked(each).record)
                if name is not None:
                    named.append((start + encoded(str(name)), *each[1:]))
            named.sort(reverse=reverse)
            yield from [each for each in named if low <= each[0] < high]

    def of_records(self, records: Sequence[RecordId]) -> list[Capture | None]:
        here = [self.local(record) for record in records]
        captures = iter(self._rows.of_records([each for each in here if each is not None]))
        found = [next(captures) if each is not None else None for each in here]
        return [
            capture._replace(record=record) if capture is not None else None
            for capture, record in zip(found, records, strict=True)
        ]

    def by_time(
        self, first: bytes, end: bytes, most: int, *, modified: bool = False, reverse: bool = False
    ) -> list[tuple[str, RecordId]]:
        return list(islice(self._timed(first, end, modified=modified, reverse=reverse), most))

    def _timed(self, first: bytes, end: bytes, *, modified: bool, reverse: bool) -> Iterator[tuple[str, RecordId]]:
        """Captures of one time come together, so that they can be sorted by their origins."""
        low, high = _time_start(first), _time_end(end)
        looked = _LOOKED
        while low < high:
            keys = self._rows.by_time(low, high, looked, modified=modified, reverse=reverse)
            groups = [(time, [record for _, record in some]) for time, some in groupby(keys, key=lambda key: key[0])]
            if len(keys) == looked:
                if len(groups) == 1:
                    looked *= 2
                    continue
                groups.pop()  # it may have more
            for time, records in groups:
                names = [name for record in records if (name := self.name_of(record)) is not None]
                for name in sorted(names, reverse=reverse):
                    if first <= encoded(f"{time} {name}") < end:
                        yield time, name
            if len(keys) < looked:
                return
            last = groups[-1][0].encode()
            low, high = (low, last + b" ") if reverse else (last + b"!", high)

    def of_batch(self, batch: str, first: int, end: int, most: int) -> tuple[list[RecordId], int]:
        """Records of an origin batch from a serial on, and the serial behind what was looked at."""
        found: list[RecordId] = []
        for row in self._origins.rows(batch, first, end - 1):
            if len(found) >= most:
                return found, row.origin.serial
            if row.partition in self._partitions and self._is_name(row):
                found.append(row.origin)
        return found, end

    def _is_name(self, row: OriginRow) -> bool:
        """Whether a record is in the stream under this of its origins."""
        if row.record != row.origin or self._origins.aliases(row.record):
            return self.name_of(row.record) == row.origin
        self._local[row.origin] = row.record
        return row.origin in self._snapshot


class ServedCatalog:
    """Takes the place of the catalog in orders of streams."""

    def __init__(self, archive: Archive, rows: SnapshotRows) -> None:
        self._archive = archive
        self.rows = rows

    def refresh(self, pause_s: float = 0.0) -> None:
        self._archive.catalog.refresh(pause_s)


def _time_start(key: bytes) -> bytes:
    """The least key of the same time."""
    time, space, _ = key.partition(b" ")
    return time + space


def _time_end(key: bytes) -> bytes:
    """Above all keys of the same time."""
    time, space, _ = key.partition(b" ")
    return time + b"!" if space else key
