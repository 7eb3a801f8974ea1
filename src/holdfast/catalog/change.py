"""What one step of the writer changes in the catalog."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.catalog.keys import (
    BATCH,
    CAPTURE,
    FINGERPRINT,
    RECORD,
    SPLIT,
    WHEN,
    Total,
    area,
    begins_split,
    digest_key,
    encoded,
    frame_key,
    modified_key,
    pack_row,
    pack_total,
    page_id_key,
    page_key,
    place_of,
    secondary_keys,
    source_key,
    total_key,
)
from holdfast.model import Capture, RecordId

_TIME_BYTES = 14


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One atomic step. A capture of a record that is already in takes the place of the old one."""

    captures: Sequence[Capture] = ()
    fresh: bool = False  # their records are new: there are no old captures of theirs to look for
    removed: Sequence[RecordId] = ()  # whose captures go; not an error where there is none
    fingerprints: Mapping[bytes, RecordId] = field(default_factory=dict)  # 16 bytes each
    fingerprints_removed: Sequence[bytes] = ()
    frames: Sequence[tuple[str, int, bytes]] = ()  # batch, first serial, place
    frames_removed: Sequence[tuple[str, int]] = ()
    sources: Sequence[tuple[str, RecordId]] = ()  # file name, and the record that lists the file's records
    batches: Mapping[str, bytes | None] = field(default_factory=dict)  # state; None forgets the batch


class CaptureDraft:
    """Collects what a change puts and deletes, and what it does to the totals."""

    def __init__(self, totals: Mapping[bytes, Total]) -> None:
        self.puts: list[tuple[bytes, bytes]] = []
        self.deletes: list[bytes] = []
        self.totals: dict[bytes, Total] = {}  # those that are touched
        self._before = totals
        self._steps: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def remove(self, captures: Iterable[Capture]) -> None:
        for capture in captures:
            self.deletes.append(area(CAPTURE, capture.collection) + place_of(capture))
            self.deletes += [key for key, _ in secondary_keys(capture)]
            self._count(capture, -1)

    def add(self, captures: Iterable[Capture]) -> None:
        """Puts the rows and the keys of `secondary_keys`, here written out for speed."""
        areas: dict[str, bytes] = {}
        put = self.puts.append
        for capture in captures:
            place, collection = place_of(capture), capture.collection
            if (prefix := areas.get(collection)) is None:
                prefix = areas[collection] = area(CAPTURE, collection)
            home, _, record = place.rpartition(b" ")
            put((prefix + place, pack_row(capture)))
            put((RECORD + record, prefix[1:] + home))
            put((WHEN + home[-_TIME_BYTES:] + b" " + record, b""))
            put((page_key(home[: -_TIME_BYTES - 1], record), b""))
            put((page_id_key(capture, record), b""))
            put((modified_key(capture, record), b""))
            if key := digest_key(capture, place):
                put((key, encoded(collection)))
            if begins_split(place):
                put((area(SPLIT, collection) + place, b""))
            self._count(capture, 1)

    def take(self, change: CatalogChange) -> None:
        """All but the captures."""
        self.deletes += [FINGERPRINT + fingerprint for fingerprint in change.fingerprints_removed]
        self.puts += [(FINGERPRINT + key, str(record).encode()) for key, record in change.fingerprints.items()]
        self.deletes += [frame_key(batch, serial) for batch, serial in change.frames_removed]
        self.puts += [(frame_key(batch, serial), place) for batch, serial, place in change.frames]
        self.puts += [(source_key(filename, record), b"") for filename, record in change.sources]
        for batch, state in change.batches.items():
            if state is None:
                self.deletes.append(BATCH + encoded(batch))
            else:
                self.puts.append((BATCH + encoded(batch), state))

    def finish(self) -> None:
        for (collection, batch), (captures, payload_bytes) in self._steps.items():
            for key in (total_key(CAPTURE, collection), total_key(BATCH, batch)):
                total = self.totals.get(key) or self._before.get(key) or Total()
                self.totals[key] = Total(total.captures + captures, total.payload_bytes + payload_bytes)
        for key, total in self.totals.items():
            if total.captures:
                self.puts.append((key, pack_total(total)))
            else:
                self.deletes.append(key)

    def _count(self, capture: Capture, step: int) -> None:
        so_far = self._steps[capture.collection, capture.record.batch]
        so_far[0] += step
        so_far[1] += step * capture.size
