"""From captures to pages: entries by frame, payloads many at a time, revisits by their originals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from holdfast.batches.entry import REFERENCE, REMOVED, Head, JournalEntry, find_heads, parse_entry, payload_of
from holdfast.batches.frame import FramePlace
from holdfast.catalog.revisits import is_empty
from holdfast.env.files import Buffer
from holdfast.errors import (
    CaptureNotFound,
    ContentNotFound,
    Damaged,
    DamagedBatch,
    DamagedCatalog,
    FileNotAtHand,
    HoldfastError,
    VolumeDown,
)
from holdfast.model import RecordId
from holdfast.records.stored_record import StoredRecord, head_length
from holdfast.storage.store.contents import BulkRead
from holdfast.streams.page import LARGE, Page
from holdfast.streams.source import StreamSource

_PAUSES_S = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)  # before a look at what may be changing just now
_CONTENT_PARTS = frozenset(("content", "text", "title", "main_text", "language"))
HEAD_PARTS = _CONTENT_PARTS | {"headers"}
_PAYLOAD_PARTS = _CONTENT_PARTS | {"payload"}
READ_PARTS = HEAD_PARTS | _PAYLOAD_PARTS
_TIANWANG, _REMOVED = b"tianwang/1.0", REMOVED.encode()
_REMOVED_LINE = b"\ntype: %b\n" % _REMOVED
_UNREADABLE = (Damaged, VolumeDown, ContentNotFound, FileNotAtHand)
T = TypeVar("T")


class StreamFault(NamedTuple):
    """A capture that could not be delivered, and why."""

    record: RecordId
    url: str
    error: HoldfastError

    def __str__(self) -> str:
        return f"{self.record} {self.url}: {self.error}"


Readied = tuple[list[Page], list[StreamFault]]  # pages that can be delivered, and faults


class PageReader:
    """Thread-safe."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source

    # -- records ------------------------------------------------------------------------------------------------

    def patiently(self, look: Callable[[], T]) -> T:
        """The result of `look`, retried while another thread replaces the catalog."""
        for pause_s in _PAUSES_S:
            try:
                return look()
            except DamagedCatalog:
                self._source.env.sleep(pause_s)
        return look()

    def heads(
        self, batch: str, serials: Sequence[int]
    ) -> tuple[dict[int, Head | JournalEntry], dict[int, HoldfastError]]:
        """The heads of records, ascending, and why others cannot be read; removed records are in neither."""
        found: dict[int, Head | JournalEntry | None] = {}
        missing: Sequence[int] = serials
        failures: dict[int, HoldfastError] = {}
        for pause_s in _PAUSES_S:
            failures = self._find_heads(batch, missing, found)
            missing = sorted(failures)
            if not missing:
                break
            self._source.catalog.refresh(pause_s)  # a removal may have rewritten the file, perhaps several times
        return {serial: head for serial, head in found.items() if head is not None}, failures

    def _find_heads(
        self, batch: str, serials: Sequence[int], found: dict[int, Head | JournalEntry | None]
    ) -> dict[int, HoldfastError]:
        """Adds the heads it finds, None for removed records; returns why the rest was not found."""
        catalog = self._source.catalog
        frames = self.patiently(lambda: catalog.rows.frames(batch, serials[0], serials[-1]))
        bounds = [0, *(bisect_left(serials, first) for first, _ in frames), len(serials)]
        failures: dict[int, HoldfastError] = {}
        for place, (begin, end) in zip([b"", *(place for _, place in frames)], pairwise(bounds), strict=True):
            wanted = serials[begin:end]
            problem: HoldfastError = DamagedBatch(f"no frame of batch {batch!r} holds it; run 'holdfast check'")
            try:
                if place and wanted:
                    content = self._source.journal.content(batch, FramePlace.unpack(place))
                    heads = find_heads(content, frozenset(wanted))
                    found.update(heads)
                    if _REMOVED_LINE in content:
                        found.update({serial: None for serial, head in heads if _is_removed(head)})
            except DamagedBatch as error:
                problem = error
            except FileNotFoundError as error:
                problem = DamagedBatch(f"'{error.filename}' is missing; run 'holdfast check'")
            failures |= {serial: problem for serial in wanted if serial not in found}
        return failures

    def entries(self, batch: str, serials: Sequence[int]) -> tuple[dict[int, JournalEntry], dict[int, HoldfastError]]:
        """As `heads`, parsed."""
        heads, failures = self.heads(batch, serials)
        return {serial: entry_of(head) for serial, head in heads.items()}, failures

    def entry(self, record: RecordId) -> JournalEntry:
        """Raises CaptureNotFound, or DamagedBatch."""
        found, failures = self.entries(record.batch, [record.serial])
        if failures:
            raise failures[record.serial]
        if not found:
            raise CaptureNotFound(f"record {record} was removed")
        return found[record.serial]

    def stored(self, page: Page) -> StoredRecord:
        """The stored record; of a record by reference, the one in its file."""
        if page.stored_read is None:
            if page.entry.type == REFERENCE:
                page.stored_read = self._source.records.read(page.record)
            else:
                page.stored_read = self._source.records.stored(page.record, page.entry)
        return page.stored_read

    # -- payloads -----------------------------------------------------------------------------------------------

    def pieces(self, page: Page) -> Iterator[Buffer]:
        """Raises as `StoredRecord.stream`; a revisit without its original is empty and marked unresolved."""
        try:
            yield from self.stored(page).stream()
        except FileNotAtHand:
            raise
        except CaptureNotFound:
            if page.type != "revisit":
                raise
            page.unresolved = True

    def prepare(self, pages: list[Page], wanted: frozenset[str]) -> Readied:
        """Prepares the pages for reading: afterwards the sizes of their payloads are known.

        Pages removed meanwhile, or unreadable, are left out.
        """
        faults: list[StreamFault] = []
        if wanted & HEAD_PARTS:
            pages = self._with_entries(pages, faults, pages)
        elif wanted & _PAYLOAD_PARTS:
            inline = [page for page in pages if page.head is None and page.contents == "-" and page.type != "revisit"]
            pages = self._with_entries(pages, faults, inline)
        if wanted & _PAYLOAD_PARTS:
            for page in pages:
                head = page.head  # the common case
                if head is not None and (contents := head["contents"]) is not None and head["format"] != _TIANWANG:
                    page.key = _key_alone(contents.decode(), page.size)
                elif head is not None and head["signature"] is not None and head["format"] != _TIANWANG:
                    page.payload_read = payload_of(head)
                else:
                    page.key = self._key_of(page)
        return pages, faults

    def gather(self, pages: list[Page], wanted: frozenset[str]) -> BulkRead | None:
        """Reads the blocks of prepared pages, if payloads are wanted."""
        return (
            self._source.contents.gather([page.key for page in pages if page.key]) if wanted & _PAYLOAD_PARTS else None
        )

    def finish(self, pages: list[Page], bulk: BulkRead | None) -> Readied:
        """The pages with their payloads. Leaves out as `prepare` does."""
        faults: list[StreamFault] = []
        if bulk is not None:
            pages = self._with_payloads(pages, bulk, faults)
        return pages, faults

    def _with_entries(self, pages: list[Page], faults: list[StreamFault], needed: list[Page]) -> list[Page]:
        """Reads the entries of the needed pages, where that was not done; returns the pages without those removed."""
        lacking: dict[str, dict[int, Page]] = {}
        for page in needed:
            if page.entry_read is None and page.head is None:
                lacking.setdefault(page.record.batch, {})[page.record.serial] = page
        out: set[RecordId] = set()
        for batch, by_serial in lacking.items():
            found, failures = self.entries(batch, sorted(by_serial))
            for serial, page in by_serial.items():
                page.entry_read = found.get(serial)
                if serial in failures:
                    faults.append(StreamFault(page.record, page.url, failures[serial]))
                if page.entry_read is None:
                    out.add(page.record)
        return [page for page in pages if page.record not in out] if out else pages

    def _with_payloads(self, pages: list[Page], bulk: BulkRead, faults: list[StreamFault]) -> list[Page]:
        failed: dict[RecordId, HoldfastError] = {}
        simple = [page for page in pages if page.key]
        for page, found in zip(simple, bulk.decode(), strict=True):
            if isinstance(found, HoldfastError):
                failed[page.record] = found
            elif page.head is None and page.entry_read is None and _looks_deflated(found):
                self._read_alone(page, failed)  # its entry has the details
            else:
                page.payload_read = found
        for page in pages if len(simple) < len(pages) else ():
            if not page.key and page.payload_read is None and page.size <= LARGE:
                self._read_alone(page, failed)
        if not failed:
            return pages
        there = self._still_there(list(failed))
        faults += [
            StreamFault(page.record, page.url, failed[page.record])
            for page in pages
            if page.record in failed and page.record in there
        ]
        return [page for page in pages if page.record not in failed]

    def _key_of(self, page: Page) -> str:
        """The key of a payload that can be read in bulk; else empty."""
        entry = page.entry if page.head is not None else page.entry_read
        if entry is not None and _is_zipped(entry):
            return ""
        if page.contents != "-":
            return _key_alone(page.contents, page.size)
        if page.type == "revisit":
            return self._key_of_original(page)
        if entry is not None and entry.type != REFERENCE:
            page.payload_read = entry.payload
        return ""

    def _key_of_original(self, page: Page) -> str:
        if is_empty(page.capture):
            page.payload_read = b""
            return ""
        original = self.patiently(lambda: self._source.catalog.resolve(page.capture))
        if original is None:
            page.unresolved, page.payload_read = True, b""
            return ""
        page.size = original.size
        return _key_alone(original.contents, original.size)

    def _read_alone(self, page: Page, failed: dict[RecordId, HoldfastError]) -> None:
        """Reads rare forms: payloads in pieces or kept in their record, compressed ones, references."""
        try:
            if (stored := self.stored(page)).entry.size > LARGE:
                page.size = stored.entry.size  # the size behind a reference is known only now
            else:
                page.payload_read = b"".join(self.pieces(page))
        except (CaptureNotFound, *_UNREADABLE) as error:
            failed[page.record] = error

    def _still_there(self, records: list[RecordId]) -> set[RecordId]:
        """The records that were not removed."""

        def look() -> set[RecordId]:
            self._source.catalog.refresh()
            homes = self._source.catalog.rows.homes(records)
            return {record for record, home in zip(records, homes, strict=True) if home is not None}

        return self.patiently(look)

    def without_removed(self, pages: list[Page]) -> list[Page]:
        there = self._still_there([page.record for page in pages])
        return [page for page in pages if page.record in there]


def entry_of(head: Head | JournalEntry) -> JournalEntry:
    return head if isinstance(head, JournalEntry) else parse_entry(head.string, head.start())[0]


def _is_removed(head: Head | JournalEntry) -> bool:
    return head.type == REMOVED if isinstance(head, JournalEntry) else head["type"] == _REMOVED


def _key_alone(contents: str, size: int) -> str:
    """The contentkey, if there is exactly one and its content fits into memory."""
    return contents if size <= LARGE and contents != "-" and " " not in contents else ""


def _is_zipped(entry: JournalEntry) -> bool:
    """Whether the block is compressed, as Tianwang allows; the catalog does not know."""
    head = entry.data[: head_length(entry.format, entry.data)]
    return entry.format == "tianwang/1.0" and b"\nunzip-length:" in head


def _looks_deflated(data: Buffer) -> bool:
    """By the first two bytes of a zlib stream."""
    return len(data) > 1 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
