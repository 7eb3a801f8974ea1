"""Reading the records of a task, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from holdfast.batches.entry import REFERENCE, JournalEntry
from holdfast.batches.frame import FramePlace
from holdfast.errors import CaptureNotFound, ContentNotFound, DamagedBatch, DamagedBlock, MalformedInput
from holdfast.formats.http import decoded_beginning
from holdfast.formats.record import Headers
from holdfast.index.extract import Extracted, ExtractionLimits, Payload, extract
from holdfast.index.extract.extract import may_have_text
from holdfast.index.extract.result import Failure
from holdfast.index.workers.rows import Rows
from holdfast.index.workers.task import IndexTask, TaskResult
from holdfast.model import Capture, RecordId
from holdfast.records.draft import capture_of, is_captured
from holdfast.records.records import Records
from holdfast.records.stored_record import StoredRecord

_UNREAD = frozenset(("metadata",))  # rows of the table, but no documents
_LOST = (CaptureNotFound, ContentNotFound, DamagedBlock, DamagedBatch, MalformedInput)


class TaskReader:
    """Reads tasks one after the other. `begin` is called with the serial of each document before it is looked at."""

    def __init__(self, records: Records, limits: ExtractionLimits, begin: Callable[[int], None]) -> None:
        self._records = records
        self._limits = limits
        self._begin = begin
        self._bytes = 0

    def read(self, task: IndexTask, known: Mapping[int, str]) -> TaskResult:
        """Rows and documents of a task. `known` has failures of documents that are not to be looked at again."""
        self._bytes = 0
        rows = Rows(task.number)
        for entry in self._entries(task):
            if is_captured(entry):
                self._add(rows, task, entry, known.get(entry.serial, ""))
        self._begin(0)
        return TaskResult(rows.documents, rows.captures(), rows.links(), self._bytes, rows.unresolved)

    def _entries(self, task: IndexTask) -> Iterator[JournalEntry]:
        wanted = set(task.only)
        for packed in task.places:
            for entry in self._frame(task.batch, FramePlace.unpack(packed)):
                if task.first <= entry.serial < task.end and (not wanted or entry.serial in wanted):
                    yield entry

    def _frame(self, batch: str, place: FramePlace) -> list[JournalEntry]:
        """The entries of a frame; of one that is elsewhere now, or damaged, those that can be found one by one."""
        try:
            return self._records.journal.read(batch, place)
        except (DamagedBatch, FileNotFoundError):
            found = []
            for serial in range(place.first_serial, place.first_serial + place.entries):
                try:
                    entry = self._records.entry(RecordId(batch, serial))
                except DamagedBatch:
                    continue
                if entry is not None:
                    found.append(entry)
            return found

    def _add(self, rows: Rows, task: IndexTask, entry: JournalEntry, failure: str) -> None:
        capture = capture_of(entry, task.batch)
        if entry.type in _UNREAD:
            rows.add(capture, None, Extracted())
            return
        self._begin(entry.serial)
        original: Capture | None = None
        found = Extracted(failure=failure)
        try:
            record = self._records.stored(capture.record, entry)
            if entry.type == REFERENCE:
                record = self._records.read(capture.record)
            elif entry.type == "revisit" and entry.contents == "-":
                original = self._records.original(capture)
                record = self._records.read(original.record)
            if not failure:
                found = self._extract(capture, record)
        except MemoryError:
            found = Extracted(failure=Failure.MEMORY)
        except _LOST:
            found = Extracted(failure=failure or Failure.CONTENT)
        rows.add(capture, original, found)
        if entry.type == "revisit" and entry.contents == "-" and original is None:
            rows.note_unresolved(entry.serial)

    def _extract(self, capture: Capture, record: StoredRecord) -> Extracted:
        head = record.http_head
        headers = head.headers if head is not None else Headers([])
        status = head.status if head is not None else 0
        content_type = (headers.get("Content-Type") if head is not None else record.entry.mime) or ""
        content = self._content(record, headers) if may_have_text(content_type) else b""
        return extract(Payload(capture.url, content, content_type, headers, status), self._limits)

    def _content(self, record: StoredRecord, headers: Headers) -> bytes:
        """The payload without its content coding, or its beginning, which is longer than what is looked at."""
        most = self._limits.document_bytes + 1
        parts, size = [], 0
        for part in record.stream():
            parts.append(part)
            size += len(part)
            if size >= most:
                break
        self._bytes += size
        return decoded_beginning(b"".join(parts), headers, most)
