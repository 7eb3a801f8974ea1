"""Selecting records: by a question to the catalog, or by batch and collection; for exports and removals."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from holdfast.arguments import check_fields
from holdfast.batches.entry import FILE_HEAD, REMOVED, SOURCE, JournalEntry
from holdfast.batches.journal import Journal
from holdfast.batches.scan import Walked
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.model import Capture, RecordId

_NEARBY = 16  # serial numbers before and after a capture among which its companions are
Read = Callable[[RecordId], JournalEntry | None]
_OWN = (FILE_HEAD, REMOVED, SOURCE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records. Without a query, all of them, in the order of the batches."""

    query: CaptureQuery | None = None
    batch: str | None = None
    collection: str | None = None
    any_method: bool = False  # of one URL also what was asked for by POST and the like

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_whole(self) -> bool:
        """Whether records are taken whatever they are, rather than the captures that a question finds."""
        return self.query is None

    def captures(self, catalog: Catalog) -> Iterator[Capture]:
        """The captures among them, in the order of the catalog."""
        query = self.query or CaptureQuery(url="*")
        if self.collection is not None:
            query = replace(query, collection=self.collection)
        if self.batch is not None:
            query = replace(query, filters=(*query.filters, rf"~record:{re.escape(self.batch)}-\d{{10}}$"))
        for row in catalog.search(query):
            yield row.capture
        if self.any_method and query.plain().match == "exact":
            yield from catalog.by_other_methods(query)

    def record_ids(self, catalog: Catalog, journal: Journal) -> Iterator[RecordId]:
        """The records in the order of the batches. A question's captures take 4 bytes each in memory."""
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
        """All records of the batches and the collection, without a question, in the order of the batches."""
        if self.batch is not None:
            journal.require(self.batch)
        for batch in journal.names() if self.batch is None else [self.batch]:
            for found in journal.walk(batch):
                if isinstance(found, Walked):
                    for entry in found.entries:
                        if entry.type not in _OWN and self.collection in (None, entry.collection):
                            yield RecordId(batch, entry.serial), entry


def companions(read: Read, record: RecordId, entry: JournalEntry) -> dict[RecordId, JournalEntry]:
    """The request, metadata and the like that were recorded with a capture and stand near it in its batch.

    `read` gives the entries of records; who asks for many captures side by side gives one that remembers.
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


def _belongs(other: JournalEntry, entry: JournalEntry, own: bytes) -> bool:
    if other.type in ("response", "revisit", "resource", "warcinfo", *_OWN) or other.url != entry.url:
        return False
    if other.collection != entry.collection:
        return False
    if own and own in other.data:
        return True
    theirs = _record_id(other)
    return bool(theirs and theirs in entry.data) or (other.type == "request" and other.timestamp == entry.timestamp)


def _record_id(entry: JournalEntry) -> bytes:
    """What stands in the head as WARC-Record-ID; empty if nothing does."""
    lower = entry.data[:65536].lower()
    at = lower.find(b"\nwarc-record-id:")
    if at < 0:
        return b""
    end = entry.data.find(b"\n", at + 1)
    return entry.data[at + 16 : end].strip()
