"""The catalog: written by one process, followed and searched by any number."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from holdfast.arguments import checked
from holdfast.catalog.keys import (
    BATCH,
    CAPTURE,
    CHANGES,
    DIGEST,
    FINGERPRINT,
    FRAME,
    MODIFIED,
    NUMBER,
    PAGE,
    PAGE_ID,
    RECORD,
    SERIAL,
    SOURCE,
    SPLIT,
    VERSION,
    VERSION_NOW,
    WHEN,
    Total,
    after,
    area,
    digest_area,
    encoded,
    frame_key,
    origin_key,
    pack_total,
    pairs_of,
    record_of,
    source_key,
    total_key,
)
from holdfast.catalog.pick import Neighbours, Seeker, picked
from holdfast.catalog.query.query import CaptureQuery, exact_range
from holdfast.catalog.query.search import Permits, Search, SearchResult
from holdfast.catalog.revisits import RevisitResolver
from holdfast.catalog.rows import CaptureRows
from holdfast.env import REAL, Environment
from holdfast.env.table import Table, TableKind, verify_table
from holdfast.errors import Damaged, DamagedCatalog, HoldfastError
from holdfast.model import Capture, Pick, RecordId
from holdfast.urls import url_key

if TYPE_CHECKING:
    from holdfast.catalog.outline import Outline

KIND = TableKind("catalog", DamagedCatalog, "holdfast reindex", packed=True)
REFRESH_EVERY_S = 0.2
REFRESH_EVERY_S_MAX = 0.5
REFRESH_SHARE_MAX = 0.01  # of the time, as far as that does not take longer
CATCH_UP_TRIES = 5


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
    batches: Mapping[str, bytes] = field(default_factory=dict)  # the state of each
    origins: Sequence[
        tuple[RecordId, RecordId]
    ] = ()  # of copies: the id on the node that recorded it, and the one here
    origins_removed: Sequence[RecordId] = ()

    def puts(self) -> list[tuple[bytes, bytes]]:
        """Keys and values of all but the captures."""
        return [
            *((FINGERPRINT + mark, str(record).encode()) for mark, record in self.fingerprints.items()),
            *((frame_key(batch, serial), place) for batch, serial, place in self.frames),
            *((source_key(filename, record), b"") for filename, record in self.sources),
            *((BATCH + encoded(batch), state) for batch, state in self.batches.items()),
            *((origin_key(origin), str(record).encode()) for origin, record in self.origins),
        ]

    def deletes(self) -> list[bytes]:
        """Keys of all but the captures."""
        frames = [frame_key(batch, serial) for batch, serial in self.frames_removed]
        origins = map(origin_key, self.origins_removed)
        return [*(FINGERPRINT + mark for mark in self.fingerprints_removed), *frames, *origins]


class Catalog:
    """An open catalog. Thread-safe; calls of `add` run one after the other."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        cache_bytes: int = 64 << 20,
        env: Environment = REAL,
        changes: int = 0,
    ) -> None:
        """With `read_only` it follows the writing process, at most half a second behind.

        One that replaces another continues its `changes`, so that followers never go back.
        """
        self.path = path
        self.read_only = read_only
        self._cache_bytes = cache_bytes
        self._env = env
        self._table = Table(path, KIND, cache_bytes=cache_bytes, follow=read_only)
        try:
            version = self._table.get(VERSION) or VERSION_NOW
            if version != VERSION_NOW:
                raise DamagedCatalog(f"catalog '{path}' is of another release; run '{KIND.repair}'")
            self._rows = CaptureRows(self._table)
            self._resolver = RevisitResolver(self._table, self._rows)
            self.changes = max(self._change_number(), changes)
            self._totals = self._rows.totals()
        except HoldfastError:
            self._table.abandon()
            raise
        self._writing = threading.Lock()
        self._following = threading.Lock()
        self._refreshed_s = env.monotonic()
        self._refresh_every_s = REFRESH_EVERY_S

    # -- writing ------------------------------------------------------------------------------------------------

    def add(self, change: CatalogChange) -> list[bytes]:
        """Atomic; returns the deleted keys. Not synced: after a crash, the batches supply what is missing."""
        with self._writing:
            captures = {capture.record: capture for capture in change.captures}
            replaced = () if change.fresh else captures
            old = [*filter(None, self._rows.of_records([*replaced, *set(change.removed).difference(replaced)]))]
            puts, deletes = change.puts(), change.deletes()
            deletes += [key for capture in old for key, _ in pairs_of(capture)]
            for capture in captures.values():
                puts += pairs_of(capture)
            totals = self._totals_after(old, captures.values())
            puts += [(key, pack_total(total)) for key, total in totals.items() if total.captures]
            deletes += [key for key, total in totals.items() if not total.captures]
            puts += ((CHANGES, NUMBER.pack(self.changes + 1)), (VERSION, VERSION_NOW))
            self._table.write(puts, deletes)
            self.changes += 1
            self._totals.update(totals)
            self._rows.forget()
            return deletes

    def _totals_after(self, old: Iterable[Capture], new: Iterable[Capture]) -> dict[bytes, Total]:
        changes: dict[tuple[str, str], Total] = {}
        for step, captures in ((-1, old), (1, new)):
            for capture in captures:
                key = capture.collection, capture.record.batch
                changes[key] = changes.get(key, Total()).plus(capture, step)
        totals: dict[bytes, Total] = {}
        for (collection, batch), change in changes.items():
            for name in (total_key(CAPTURE, collection), total_key(BATCH, batch)):
                total = totals.get(name) or self._totals.get(name) or Total()
                totals[name] = Total(*map(sum, zip(total, change, strict=True)))
        return totals

    def sync(self) -> None:
        """Makes the catalog durable."""
        self._table.sync()

    def compact(self, removed: Sequence[bytes] | None = None) -> None:
        """Erases deleted keys from the disk; all deleted keys if none are given. Durable on return."""
        self._table.compact(removed)

    # -- records, frames and batches, for the archive -----------------------------------------------------------

    @property
    def rows(self) -> CaptureRows:
        """All captures, in short ranges."""
        self._refresh_if_due()
        return self._rows

    def known(self, fingerprints: Sequence[bytes]) -> list[RecordId | None]:
        self._refresh_if_due()
        found = self._table.get_many([FINGERPRINT + fingerprint for fingerprint in fingerprints])
        return [record_of(value) if value else None for value in found]

    def known_digests(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests for which a capture has the payload itself."""
        self._refresh_if_due()
        areas = [(digest, digest_area(digest)) for digest in digests]
        return {digest for digest, prefix in areas if self._table.range(prefix, after(prefix), 1)}

    def capture_of(self, record: RecordId) -> Capture | None:
        """The row of a record, by its id here or by that of its origin."""
        found = self.rows.of_records([record])[0]
        if found is None and (copy := self.copy_of(record)) is not None:
            return self.rows.of_records([copy])[0]
        return found

    def copy_of(self, origin: RecordId) -> RecordId | None:
        """The local id of a record that another node of the cluster recorded; None without a copy."""
        self._refresh_if_due()
        found = self._table.get(origin_key(origin))
        return record_of(found) if found else None

    def frame_of(self, record: RecordId) -> bytes | None:
        """Place of the frame that holds the record: the last one of its batch that does not begin after its serial."""
        self._refresh_if_due()
        found = self._table.last(area(FRAME, record.batch), frame_key(record.batch, record.serial) + b"\0")
        return found[1] if found else None

    def frames(self, batch: str, since: int = 0) -> Iterator[tuple[int, bytes]]:
        """First serial and place of each frame of a batch, ascending, from the one with serial `since`."""
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
            yield name.decode("utf-8", "surrogateescape"), record_of(record)

    def batch_state(self, batch: str) -> bytes | None:
        self._refresh_if_due()
        return self._table.get(BATCH + encoded(batch))

    def batches(self) -> list[str]:
        """Those with a state."""
        self._refresh_if_due()
        return [key[1:].decode() for key, _ in self._table.scan(BATCH, after(BATCH))]

    def collections(self) -> tuple[str, ...]:
        return self.rows.collections()

    def totals(self) -> tuple[dict[str, Total], dict[str, Total]]:
        """Captures and payload bytes, by collection and by batch."""
        found = self.rows.totals()
        collections, batches = total_key(CAPTURE, ""), total_key(BATCH, "")
        return (
            {key[2:].decode(): total for key, total in found.items() if key.startswith(collections)},
            {key[2:].decode(): total for key, total in found.items() if key.startswith(batches)},
        )

    # -- queries ------------------------------------------------------------------------------------------------

    def search(self, query: CaptureQuery, permits: Permits | None = None) -> SearchResult:
        """The rows of the query, as of the first step, without captures that are not permitted."""
        return Search(self.rows, query, self._resolver.resolve, permits).answer()

    def num_pages(self, query: CaptureQuery, permits: Permits | None = None) -> int:
        return Search(self.rows, query, self._resolver.resolve, permits).num_pages()

    @checked
    def lookup(self, url: str, collection: str | None = None, most: int = sys.maxsize) -> list[Capture]:
        """All captures of a URL, by time. If there are more than `most`, only some, but more than `most`."""
        return self.rows.all_of(collection, exact_range(url_key(url)), most + 1 if most < sys.maxsize else most)

    def of_key(self, urlkey: str, collection: str) -> list[Capture]:
        """All captures under a key, by time, including those by methods other than GET, whose keys are longer."""
        return self.rows.all_of(collection, exact_range(urlkey))

    def newest(self, url: str, collection: str | None = None) -> Capture | None:
        return self.closest(url, "", collection)

    def closest(
        self, url: str, timestamp: str, collection: str | None = None, pick: Pick = Pick.NEAREST
    ) -> Capture | None:
        """The capture for a time, which may be partial; without a time, the newest."""
        return picked(self.rows, url_key(url), timestamp, collection, pick)

    def of_page_id(self, number: int, collection: str | None = None) -> list[Capture]:
        """The captures whose URL has this page id of WebBase's (B3), by time."""
        rows = self.rows
        found = rows.of_records(rows.of_page_id(number))
        wanted = (each for each in found if each is not None and collection in (None, each.collection))
        return sorted(wanted, key=lambda each: (each.timestamp, each.record))

    def neighbours(
        self, capture: Capture, collection: str | None = None, wants: Callable[[Capture], bool] = bool
    ) -> Neighbours:
        """The captures of the same URL around one, among the wanted ones."""
        return Seeker(self.rows, collection, wants).around(capture)

    def by_other_methods(self, query: CaptureQuery, permits: Permits | None = None) -> Iterator[Capture]:
        """Captures of the query's URL by POST and other methods, whose keys hold method and body."""
        key = url_key(query.url)
        begin = query.url.partition("#")[0].partition("?")[0] + "?"
        for row in self.search(replace(query, url=begin, match="prefix"), permits):
            if '"method"' in row.capture.extra and url_key(row.capture.url) == key:
                yield row.capture

    def outline(self, permits: Permits | None = None) -> Outline:
        """Hosts and paths; only of captures that `permits` lets through."""
        from holdfast.catalog.outline import Outline

        return Outline(self.rows, permits)

    def resolve(self, capture: Capture) -> Capture | None:
        """The capture with the payload: itself unless it is a revisit; None if there is none."""
        self._refresh_if_due()
        return self._resolver.resolve(capture)

    # -- life ---------------------------------------------------------------------------------------------------

    def refresh(self, pause_s: float = 0.0) -> None:
        """Updates a follower, unless it did so recently."""
        if not self.read_only:
            return
        if pause_s:
            self._env.sleep(pause_s)
        with self._following:
            begun = self._env.monotonic()
            for _ in range(CATCH_UP_TRIES):
                with suppress(Damaged):
                    self._table.catch_up()
                    if self._change_number() >= self.changes:
                        break
                with suppress(Damaged):
                    self._table.reopen()  # RocksDB may silently show an older state
            self.changes = self._change_number()  # less than before if the catalog was rebuilt
            self._rows.forget()
            self._refreshed_s = self._env.monotonic()
            wanted = (self._refreshed_s - begun) / REFRESH_SHARE_MAX
            self._refresh_every_s = min(max(wanted, REFRESH_EVERY_S), REFRESH_EVERY_S_MAX)

    def verify(self) -> None:
        """Reads everything and checks that it is consistent. Raises DamagedCatalog."""
        verify_table(self.path, KIND, cache_bytes=self._cache_bytes)
        self.refresh()
        totals: dict[bytes, Total] = {}
        expected = dict.fromkeys((RECORD, WHEN, PAGE, PAGE_ID, MODIFIED, DIGEST, SPLIT), 0)
        for collection in self._rows.collections():
            for capture in self._rows.scan(collection, (b"", b"\xff")):
                for key, value in pairs_of(capture)[1:]:
                    if (found := self._table.get(key)) != value:
                        raise self._damaged(
                            f"capture of {capture.record} expects {value!r} under {key!r}, found {found!r}"
                        )
                    expected[key[:1]] += 1
                for name in (total_key(CAPTURE, collection), total_key(BATCH, capture.record.batch)):
                    totals[name] = totals.get(name, Total()).plus(capture, 1)
        for kind, count in expected.items():
            there = sum(1 for _ in self._table.scan(kind, after(kind)))
            if there != count:
                raise self._damaged(f"{there} keys of kind {kind.decode()!r}, expected {count}")
        if totals != self._rows.totals():
            raise self._damaged("totals are not those of the captures")

    def _damaged(self, text: str) -> DamagedCatalog:
        return DamagedCatalog(f"catalog '{self.path}' is not in order: {text}; run '{KIND.repair}'")

    def close(self) -> None:
        self._table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh_if_due(self) -> None:
        if self.read_only and self._env.monotonic() - self._refreshed_s >= self._refresh_every_s:
            self.refresh()

    def _change_number(self) -> int:
        packed = self._table.get(CHANGES)
        return NUMBER.unpack(packed)[0] if packed else 0
