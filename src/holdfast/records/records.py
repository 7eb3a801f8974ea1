"""Records by URL and time, by id, and in the order of the batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast import config
from holdfast.arguments import checked
from holdfast.batches.entry import REFERENCE, REMOVED, JournalEntry
from holdfast.batches.frame import FramePlace
from holdfast.batches.journal import Journal
from holdfast.catalog import CaptureQuery, Catalog
from holdfast.catalog.pick import ordered, picked_of
from holdfast.env import REAL, paths
from holdfast.errors import CaptureNotFound, DamagedBatch, MalformedKey
from holdfast.model import SERIAL_MAX, Capture, Pick, RecordId
from holdfast.records.active_state import ABOUT
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore
from holdfast.urls import PAGE_ID_MAX, page_id_text, parse_page_id

_PAUSES_S = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)  # before a follower looks again
_PATIENCE_S = (0.32, 0.64, 1.28)  # and if the file itself has gone, which removals rewrite and nothing else takes away


def picked_page(captures: Sequence[Capture], at: str, pick: Pick) -> Capture | None:
    """Picks from a few captures the one for a time. Records about a page count only if there is nothing else."""
    return picked_of([each for each in captures if each.type not in ABOUT] or captures, at, pick)


class Records:
    """Any thread may call any method."""

    def __init__(self, journal: Journal, catalog: Catalog, contents: Contents, warc_paths: Sequence[Path] = ()) -> None:
        """`warc_paths` are the directories into which records by reference point."""
        self._warc_paths = warc_paths
        self.journal = journal
        self._catalog = catalog
        self._contents = contents

    @checked
    def get(self, url: str, at: str = "", collection: str | None = None, pick: Pick = Pick.NEAREST) -> StoredRecord:
        """The capture of a URL for a time, which may be partial; without a time, the newest.

        Raises CaptureNotFound.
        """
        capture = self._catalog.closest(url, at, collection, pick)
        if capture is None or capture.type in ABOUT:
            capture = self._better(url, at, collection, pick) or capture
        if capture is None:
            upto = f" up to {at}" if at and pick is Pick.NOT_NEWER else ""
            within = f" in collection {collection!r}" if collection else ""
            raise CaptureNotFound(f"no capture of '{url}'{upto}{within}")
        return self.read(capture.record)

    @checked
    def get_page(
        self, page_id: int | str, at: str = "", collection: str | None = None, pick: Pick = Pick.NEAREST
    ) -> StoredRecord:
        """The capture of a page for a time, by WebBase's page id (B3); without a time, the newest.

        Raises MalformedKey, CaptureNotFound.
        """
        number = parse_page_id(page_id) if isinstance(page_id, str) else page_id
        if not 0 <= number <= PAGE_ID_MAX:
            raise MalformedKey(f"malformed page id {number}: give 0 to 2^64 - 1")
        capture = picked_page(self._catalog.of_page_id(number, collection), at, pick)
        if capture is None:
            where = f" in collection {collection!r}" if collection else ""
            raise CaptureNotFound(f"no capture has the page id {page_id_text(number)}{where}")
        return self.read(capture.record)

    def _better(self, url: str, at: str, collection: str | None, pick: Pick) -> Capture | None:
        """A capture of the page rather than a record about it; else one made with another method than GET."""
        kinds = tuple(f"!=type:{kind}" for kind in ABOUT)
        query = CaptureQuery(url=url, match="exact", filters=kinds, collection=collection, limit=1)
        row = next(self._catalog.search(ordered(query, at, pick)), None)
        if row is not None:
            return row.capture
        posted = self._catalog.by_other_methods(CaptureQuery(url=url, match="exact", collection=collection))
        return picked_of(posted, at, pick)

    @checked
    def of(self, capture: Capture) -> StoredRecord:
        """The record of a row of the catalog."""
        return self.read(capture.record)

    @checked
    def read(self, record: RecordId | str) -> StoredRecord:
        """The record with this id, or with this id at its origin. A record by reference is read from its file.

        The id may be a string: '202611-0000004711'. Raises CaptureNotFound, MalformedKey or DamagedBatch.
        """
        if isinstance(record, str):
            record = RecordId.parse(record)
        entry = self.entry(record, is_expected=True)
        if (entry is None or entry.type == REMOVED) and (copy := self._catalog.copy_of(record)) is not None:
            record, entry = copy, self.entry(copy, is_expected=True)
        if entry is None or entry.type == REMOVED:
            state = "was removed" if entry is not None else "does not exist"
            raise CaptureNotFound(f"record {record} {state}")
        if entry.type == REFERENCE:
            from holdfast.records.references import ReferencedFiles

            return ReferencedFiles(self._warc_paths).read(self.stored(record, entry))
        return self.stored(record, entry)

    def stored(self, record: RecordId, entry: JournalEntry) -> StoredRecord:
        return StoredRecord(record, entry, self._contents, self._resolve)

    def entry(self, record: RecordId, *, is_expected: bool = False) -> JournalEntry | None:
        """The entry of a record, its tombstone if it was removed, or None.

        A follower may see its catalog between two states: if an expected entry is missing, it retries.
        """
        is_missing = False
        for pause_s in (*_PAUSES_S, *_PATIENCE_S):
            try:
                entry = self._entry(record)
                if entry is not None or not (is_expected and self._catalog.read_only):
                    return entry
                is_missing = False
            except DamagedBatch:
                is_missing = False
            except FileNotFoundError:  # rewritten by a removal, maybe several times before we hear of it
                is_missing = True
            if pause_s in _PATIENCE_S and not is_missing:
                break
            self._catalog.refresh(pause_s)
        try:
            return self._entry(record)
        except FileNotFoundError as error:
            raise DamagedBatch(f"cannot read record {record}: '{error.filename}' is missing") from None

    def _entry(self, record: RecordId) -> JournalEntry | None:
        packed = self._catalog.frame_of(record)
        if packed is None:
            return None
        place = FramePlace.unpack(packed)
        return self.journal.read_one(record.batch, place, record.serial)

    @checked
    def entries_from(self, first: RecordId) -> Iterator[JournalEntry]:
        """The entries of a batch from a serial number on."""
        packed = self._catalog.frame_of(first)
        begin = FramePlace.unpack(packed).first_serial if packed else 0
        for serial, place in self._catalog.frames(first.batch):
            if serial >= begin:
                for entry in self.journal.read(first.batch, FramePlace.unpack(place)):
                    if entry.serial >= first.serial:
                        yield entry

    @checked
    def newest(self, batch: str) -> Iterator[tuple[RecordId, JournalEntry]]:
        """The records of a batch, newest first, without removed ones."""
        before = SERIAL_MAX
        while (packed := self._catalog.frame_of(RecordId(batch, before))) is not None:
            place = FramePlace.unpack(packed)
            for entry in reversed(self.journal.read(batch, place)):
                if entry.type != REMOVED:
                    yield RecordId(batch, entry.serial), entry
            if place.first_serial == 0:
                return
            before = place.first_serial - 1

    @checked
    def original(self, revisit: Capture) -> Capture:
        """The capture that has the payload of a revisit. Raises CaptureNotFound."""
        found = self._catalog.resolve(revisit)
        if found is None:
            raise CaptureNotFound(f"the capture of '{revisit.url}' at {revisit.timestamp} repeats one that is not here")
        return found

    def _resolve(self, stored: StoredRecord) -> StoredRecord | None:
        """The record that a revisit repeats."""
        original = self._catalog.resolve(stored.capture)
        return self.read(original.record) if original is not None and original.record != stored.id else None


@contextmanager
def opened_records(root: Path) -> Iterator[Records]:
    """Records of an archive that another process may be writing. Raises the errors of opening an archive."""
    path = root / paths.SETTINGS
    settings = config.merged(config.load(path), path)
    with ExitStack() as closing:
        instance = BlockStore(root, settings, REAL, writable=False)
        closing.callback(instance.close)
        contents = Contents(instance)
        closing.callback(contents.close)
        journal = Journal(root, REAL, writable=False)
        closing.callback(journal.close)
        cache_bytes = settings.records.catalog_cache_bytes
        catalog = Catalog(root / paths.CATALOG, read_only=True, cache_bytes=cache_bytes, env=REAL)
        closing.callback(catalog.close)
        warc_paths = [root / each for each in settings.records.warc_paths]
        yield Records(journal, catalog, contents, warc_paths)
