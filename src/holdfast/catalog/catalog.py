"""The catalog: written by one process, followed and searched by any number."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from holdfast.catalog.change import CaptureDraft, CatalogChange
from holdfast.catalog.cursor import CatalogCursor
from holdfast.catalog.keys import (
    BATCH,
    CAPTURE,
    CHANGES,
    FINGERPRINT,
    FRAME,
    NUMBER,
    SERIAL,
    SOURCE,
    VERSION,
    VERSION_NOW,
    Total,
    after,
    area,
    encoded,
    frame_key,
    total_key,
)
from holdfast.catalog.neighbours import Neighbours, Seeker
from holdfast.catalog.outline import Outline
from holdfast.catalog.pick import picked
from holdfast.catalog.query.query import CaptureQuery, exact_range
from holdfast.catalog.query.search import Permits, Search, SearchResult
from holdfast.catalog.revisits import RevisitResolver
from holdfast.catalog.rows import CaptureRows
from holdfast.catalog.verify import verify_rows
from holdfast.env import REAL, Environment
from holdfast.env.table import Table, TableKind, verify_table
from holdfast.errors import Damaged, DamagedCatalog, HoldfastError
from holdfast.model import Capture, Pick, RecordId
from holdfast.urls import url_key

KIND = TableKind("catalog", DamagedCatalog, "holdfast reindex", packed=True)
REFRESH_EVERY_S = 0.2
REFRESH_EVERY_S_MAX = 0.5
REFRESH_SHARE_MAX = 0.01  # of the time, as far as that does not take longer
CATCH_UP_TRIES = 5


class Catalog:
    """An open catalog. Any thread may read. `add` may be called from any thread, one goes at a time."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        cache_bytes: int = 64 << 20,
        env: Environment = REAL,
        changes: int = 0,
    ) -> None:
        """With `read_only` it follows the process that writes it, at most half a second behind when it is read.

        One that is to take the place of another counts on from that one's `changes`, so that followers go forward.
        """
        self.path = path
        self._read_only = read_only
        self._cache_bytes = cache_bytes
        self._env = env
        self._table = Table(path, KIND, cache_bytes=cache_bytes, follow=read_only)
        try:
            version = self._table.get(VERSION) or VERSION_NOW
            if version != VERSION_NOW:
                raise DamagedCatalog(f"catalog '{path}' is of another release; run '{KIND.repair}'")
            self._rows = CaptureRows(self._table)
            self._resolver = RevisitResolver(self._table, self._rows)
            self._changes = max(self._change_number(), changes)
            self._totals = self._rows.totals()
        except HoldfastError:
            self._table.abandon()
            raise
        self._writing = threading.Lock()
        self._following = threading.Lock()
        self._refreshed_s = env.monotonic()
        self._refresh_every_s = REFRESH_EVERY_S

    # Writing

    def add(self, change: CatalogChange) -> list[bytes]:
        """All of it or nothing; returns the keys that went. Not synced: what is lost is made again from the batches."""
        with self._writing:
            captures = {capture.record: capture for capture in change.captures}
            replaced = () if change.fresh else captures
            old = self._rows.of_records([*replaced, *set(change.removed).difference(replaced)])
            draft = CaptureDraft(self._totals)
            draft.remove(capture for capture in old if capture is not None)
            draft.add(captures.values())
            draft.take(change)
            draft.finish()
            draft.puts += ((CHANGES, NUMBER.pack(self._changes + 1)), (VERSION, VERSION_NOW))
            self._table.write(draft.puts, draft.deletes)
            self._changes += 1
            self._totals.update(draft.totals)
            self._rows.forget()
            return draft.deletes

    @property
    def read_only(self) -> bool:
        """Whether it follows another process."""
        return self._read_only

    @property
    def changes(self) -> int:
        """How often it was changed."""
        return self._changes

    def sync(self) -> None:
        """After this the catalog survives a power cut as it is."""
        self._table.sync()

    def compact(self, removed: Sequence[bytes] | None = None) -> None:
        """What was removed leaves the disk; of all keys if those are not known. Durable on return."""
        self._table.compact(removed)

    # Records, frames and batches, for the archive

    def known(self, fingerprints: list[bytes]) -> list[RecordId | None]:
        """Which records have these fingerprints."""
        self._refresh_if_due()
        found = self._table.get_many([FINGERPRINT + fingerprint for fingerprint in fingerprints])
        return [_record(value) if value else None for value in found]

    def capture_of(self, record: RecordId) -> Capture | None:
        self._refresh_if_due()
        return self._rows.of_records([record])[0]

    def frame_of(self, record: RecordId) -> bytes | None:
        """Place of the frame that holds the record: the last of its batch that begins at its serial or before."""
        self._refresh_if_due()
        found = self._table.last(area(FRAME, record.batch), frame_key(record.batch, record.serial) + b"\0")
        return found[1] if found else None

    def frames(self, batch: str, since: int = 0) -> Iterator[tuple[int, bytes]]:
        """First serial and place of each frame of a batch, ascending; from the one on that holds the serial `since`."""
        self._refresh_if_due()
        prefix = area(FRAME, batch)
        first = self._table.last(prefix, frame_key(batch, since) + b"\0") if since else None
        for key, place in self._table.scan(first[0] if first else prefix, after(prefix)):
            yield SERIAL.unpack(key[len(prefix) :])[0], place

    def sources(self, filename: str | None = None) -> Iterator[tuple[str, RecordId]]:
        """The files that were imported, or those of one name, each with the record that lists its records."""
        self._refresh_if_due()
        prefix = SOURCE if filename is None else area(SOURCE, filename)
        for key, _ in self._table.scan(prefix, after(prefix)):
            name, _, record = key[1:].rpartition(b"\0")
            yield name.decode("utf-8", "surrogateescape"), _record(record)

    def batch_state(self, batch: str) -> bytes | None:
        self._refresh_if_due()
        return self._table.get(BATCH + encoded(batch))

    def batches(self) -> list[str]:
        """Those with a state."""
        self._refresh_if_due()
        return [key[1:].decode() for key, _ in self._table.scan(BATCH, after(BATCH))]

    def cursor(self) -> CatalogCursor:
        """The catalog in short ranges, for those who go through all of it."""
        self._refresh_if_due()
        return CatalogCursor(self._table, self._rows)

    def collections(self) -> tuple[str, ...]:
        self._refresh_if_due()
        return self._rows.collections()

    def totals(self) -> tuple[dict[str, Total], dict[str, Total]]:
        """Captures and payload bytes, by collection and by batch."""
        self._refresh_if_due()
        found = self._rows.totals()
        collections, batches = total_key(CAPTURE, ""), total_key(BATCH, "")
        return (
            {key[2:].decode(): total for key, total in found.items() if key.startswith(collections)},
            {key[2:].decode(): total for key, total in found.items() if key.startswith(batches)},
        )

    # Queries

    def search(self, query: CaptureQuery, permits: Permits | None = None) -> SearchResult:
        """The rows that the query asks for, as of the first step; what is not permitted might as well not be there."""
        self._refresh_if_due()
        return Search(self._rows, query, self._resolver.resolve, permits).answer()

    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int:
        self._refresh_if_due()
        return Search(self._rows, query, self._resolver.resolve, permits).num_pages()

    def lookup(self, url: str, collection: str | None = None, most: int = sys.maxsize) -> list[Capture]:
        """All captures of a URL, by time. Of more than `most` some are given, and more than that."""
        self._refresh_if_due()
        return self._rows.all_of(collection, exact_range(url_key(url)), most + 1 if most < sys.maxsize else most)

    def of_key(self, urlkey: str, collection: str) -> list[Capture]:
        """All captures under a key, by time: also those by POST and the like, whose keys are not their URLs' alone."""
        self._refresh_if_due()
        return self._rows.all_of(collection, exact_range(urlkey))

    def newest(self, url: str, collection: str | None = None) -> Capture | None:
        return self.closest(url, "", collection)

    def closest(
        self, url: str, timestamp: str, collection: str | None = None, pick: Pick = Pick.NEAREST
    ) -> Capture | None:
        """The capture that stands for a time, which may be partial; without one the newest."""
        self._refresh_if_due()
        return picked(self._rows, url_key(url), timestamp, collection, pick)

    def of_page_id(self, number: int, collection: str | None = None) -> list[Capture]:
        """The captures whose URL has this page id of WebBase's (B3), by time."""
        self._refresh_if_due()
        cursor = self.cursor()
        found = [each for each in cursor.captures(cursor.of_page_id(number)) if each is not None]
        wanted = (each for each in found if collection in (None, each.collection))
        return sorted(wanted, key=lambda each: (each.timestamp, each.record))

    def neighbours(
        self, capture: Capture, collection: str | None = None, wants: Callable[[Capture], bool] = bool
    ) -> Neighbours:
        """The captures of the same URL around one, of those that are wanted."""
        self._refresh_if_due()
        return Seeker(self._rows, collection, wants).around(capture)

    def by_other_methods(self, query: CaptureQuery, permits: Permits | None = None) -> Iterator[Capture]:
        """Captures of the query's URL by POST and the like, whose keys have method and body somewhere in them."""
        key = url_key(query.url)
        begin = query.url.partition("#")[0].partition("?")[0] + "?"
        for row in self.search(replace(query, url=begin, match="prefix"), permits):
            if '"method"' in row.capture.extra and url_key(row.capture.url) == key:
                yield row.capture

    def outline(self, permits: Permits | None = None) -> Outline:
        """Hosts and paths; only of captures that `permits` lets through."""
        self._refresh_if_due()
        return Outline(self._rows, permits)

    def resolve(self, capture: Capture) -> Capture | None:
        """The capture with the payload: itself unless it is a revisit; None if there is none."""
        self._refresh_if_due()
        return self._resolver.resolve(capture)

    # Life

    def refresh(self, pause_s: float = 0.0) -> None:
        """A follower sees what was written until now, or until the end of a pause."""
        if not self._read_only:
            return
        if pause_s:
            self._env.sleep(pause_s)
        with self._following:
            begun = self._env.monotonic()
            for _ in range(CATCH_UP_TRIES):
                with suppress(Damaged):
                    self._table.catch_up()
                    if self._change_number() >= self._changes:
                        break
                with suppress(Damaged):
                    self._table.follow_anew()  # RocksDB may show an older state and not say so
            self._changes = self._change_number()  # less than before if the catalog was made again
            self._rows.forget()
            self._refreshed_s = self._env.monotonic()
            wanted = (self._refreshed_s - begun) / REFRESH_SHARE_MAX
            self._refresh_every_s = min(max(wanted, REFRESH_EVERY_S), REFRESH_EVERY_S_MAX)

    def verify(self) -> None:
        """Reads everything and checks that it is consistent. Raises DamagedCatalog."""
        verify_table(self.path, KIND, cache_bytes=self._cache_bytes)
        self.refresh()
        verify_rows(self._table, self._rows)

    def close(self) -> None:
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh_if_due(self) -> None:
        if self._read_only and self._env.monotonic() - self._refreshed_s >= self._refresh_every_s:
            self.refresh()

    def _change_number(self) -> int:
        packed = self._table.get(CHANGES)
        return NUMBER.unpack(packed)[0] if packed else 0


def _record(text: bytes) -> RecordId:
    batch, _, serial = text.decode().rpartition("-")
    return RecordId(batch, int(serial))
