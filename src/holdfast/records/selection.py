"""Selected records: by a catalog query, or by batch and collection; for exports and removals."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.arguments import check_fields, read_text_field
from holdfast.batches.entry import CHECKPOINT, FILE_HEAD, REMOVED, SOURCE, JournalEntry
from holdfast.batches.frame import Walked
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.model import Capture, RecordId

_NEARBY = 16  # serial numbers before and after a capture among which its companions are
Read = Callable[[RecordId], JournalEntry | None]
T = TypeVar("T")
OWN_TYPES = (CHECKPOINT, FILE_HEAD, REMOVED, SOURCE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records. Without a query, all of them, in the order of the batches."""

    query: CaptureQuery | None = None
    batch: str | None = None
    collection: str | None = None
    any_method: bool = False  # of one URL also captures by POST and the like

    def __post_init__(self) -> None:
        read_text_field(self, "query", lambda url: CaptureQuery(url=url))
        check_fields(self)

    @property
    def takes_companions(self) -> bool:
        """True if records made with a capture are removed along with it."""
        return True

    @property
    def is_whole(self) -> bool:
        """True without a query: then records of all types are selected."""
        return self.query is None

    @property
    def capture_query(self) -> CaptureQuery:
        """The captures among them, whatever their batch."""
        query = self.query or CaptureQuery(url="*")
        return query if self.collection is None else replace(query, collection=self.collection)

    def captures(self, catalog: Catalog) -> Iterator[Capture]:
        """The captures among them, in the order of the catalog."""
        query = self.capture_query
        if self.batch is not None:
            query = replace(query, filters=(*query.filters, rf"~record:{re.escape(self.batch)}-\d{{10}}$"))
        for row in catalog.search(query):
            yield row.capture
        if self.any_method and query.plain().match == "exact":
            yield from catalog.by_other_methods(query)

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        """The records in the order of the batches. The captures of a query take 4 bytes each in memory."""
        if self.is_whole:
            for record, _ in self.entries(journal):
                yield record
            return
        if self.batch is not None:
            journal.require(self.batch)
        serials: dict[str, array[int]] = {}
        for capture in self.captures(catalog):
            serials.setdefault(capture.record.batch, array("I")).append(capture.record.serial)
        for batch in sorted(serials):
            for serial in sorted(serials.pop(batch)):
                yield RecordId(batch, serial)

    def entries(self, journal: Journal) -> Iterator[tuple[RecordId, JournalEntry]]:
        """All records of the batches and the collection, without a query, in the order of the batches."""
        if self.batch is not None:
            journal.require(self.batch)
        for batch in journal.names() if self.batch is None else [self.batch]:
            for found in journal.walk(batch):
                if isinstance(found, Walked):
                    for entry in found.entries:
                        if entry.type not in OWN_TYPES and self.collection in (None, entry.collection):
                            yield RecordId(batch, entry.serial), entry


@dataclass(frozen=True, slots=True)
class ChosenRecords(Selection):
    """Just these records, without their companions."""

    records: tuple[RecordId, ...] = ()

    @property
    def takes_companions(self) -> bool:
        return False

    @property
    def is_whole(self) -> bool:
        return False

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        return iter(self.records)


@dataclass(frozen=True, slots=True)
class ChosenUrls(Selection):
    """All captures of exactly these URLs, not of others with the same URL key."""

    urls: tuple[str, ...] = ()
    upto: str = ""  # a timestamp: captures up to then; empty: all

    @property
    def is_whole(self) -> bool:
        return False

    def captures(self, catalog: Catalog) -> Iterator[Capture]:
        for url in self.urls:
            query = CaptureQuery(url=url, match="exact", to=self.upto, filters=(f"=url:{url}",))
            yield from Selection(query, self.batch, self.collection, self.any_method).captures(catalog)


def companions(read: Read, record: RecordId, entry: JournalEntry) -> dict[RecordId, JournalEntry]:
    """The request, metadata and the like that were recorded with a capture and are near it in its batch.

    `read` returns the entry of a record; for many neighbouring captures, give one that caches.
    """
    if not entry.format.startswith("warc/"):
        return {}
    own = _record_id(entry)
    found: dict[RecordId, JournalEntry] = {}
    for serial in range(max(1, record.serial - _NEARBY), record.serial + _NEARBY + 1):
        near = RecordId(record.batch, serial)
        other = read(near) if serial != record.serial else None
        if other is not None and _belongs(other, entry, own):
            found[near] = other
    return found


def with_companions(read: Read, records: Iterable[RecordId]) -> Iterator[tuple[RecordId, JournalEntry]]:
    """Records in batch order, each once and together with its companions; without removed ones."""

    def groups() -> Iterator[tuple[RecordId, dict[RecordId, JournalEntry]]]:
        for record in records:
            entry = read(record)
            if entry is not None and entry.type != REMOVED:
                yield record, {record: entry} | companions(read, record, entry)

    return each_once(groups())


def each_once(groups: Iterable[tuple[RecordId, dict[RecordId, T]]]) -> Iterator[tuple[RecordId, T]]:
    """The records of all groups, each once. A group is the neighbourhood of a record; records are in batch order."""
    given: set[RecordId] = set()  # only those nearby matter
    for record, group in groups:
        given = {each for each in given if each.batch == record.batch and each.serial > record.serial - 4 * _NEARBY}
        for each in sorted(group.keys() - given):
            yield each, group[each]
        given |= group.keys()


def _belongs(other: JournalEntry, entry: JournalEntry, own: bytes) -> bool:
    if other.type in ("response", "revisit", "resource", "warcinfo", *OWN_TYPES) or other.url != entry.url:
        return False
    if other.collection != entry.collection:
        return False
    if own and own in other.data:
        return True
    theirs = _record_id(other)
    return bool(theirs and theirs in entry.data) or (other.type == "request" and other.timestamp == entry.timestamp)


def _record_id(entry: JournalEntry) -> bytes:
    """The WARC-Record-ID in the head; empty without one."""
    lower = entry.data[:65536].lower()
    at = lower.find(b"\nwarc-record-id:")
    if at < 0:
        return b""
    end = entry.data.find(b"\n", at + 1)
    return entry.data[at + 16 : end].strip()
