"""A page: one capture as a stream delivers it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from holdfast.batches.entry import REFERENCE, Head, JournalEntry, digits, parse_entry, text_of
from holdfast.env.files import Buffer
from holdfast.formats.http import PAYLOAD_BYTES_MAX, decoded_content
from holdfast.formats.record import Headers
from holdfast.model import Capture, RecordId
from holdfast.records.draft import REVISIT_MIME, capture_of
from holdfast.urls import page_id, page_id_text

if TYPE_CHECKING:
    from holdfast.index.extract.extract import Extracted
    from holdfast.records.stored_record import StoredRecord
    from holdfast.streams.page_reader import PageReader

LARGE = 8 << 20  # larger payloads are read on demand
_PIECE_BYTES = 1 << 20
_NO_HEADERS = Headers([])
_SET_FIRST = ("_batch", "_reader", "head", "key", "payload_read", "size")


class Page:
    """One capture. Unknown strings are `-`. Fields that were not read ahead are read on demand.

    Reading raises CaptureNotFound if the record was removed meanwhile, and Damaged if it is unreadable. Consumers of a
    multicast share pages between threads: values computed twice are equal.
    """

    __slots__ = (
        "_batch",
        "_capture",
        "_decoded",
        "_extracted",
        "_main_text",
        "_reader",
        "_status",
        "collection",
        "contents",
        "digest",
        "entry_read",
        "head",
        "key",
        "mime",
        "payload_read",
        "rank_place",
        "record",
        "size",
        "spool",
        "stored_read",
        "timestamp",
        "type",
        "unresolved",
        "url",
    )

    record: RecordId
    url: str
    timestamp: str  # 14 digits, UTC
    mime: str
    collection: str
    type: str  # of the record: response, revisit, resource, ...
    digest: str  # with its algorithm
    size: int  # of the payload; of a revisit that of its original, once its payload was read
    contents: str  # contentkeys of the payload, separated by spaces
    unresolved: bool  # a revisit whose original is not in the archive: its payload is empty
    head: Head | None  # of its entry, where that was found and not parsed
    key: str  # of a payload that can be read in bulk; else empty
    entry_read: JournalEntry | None  # read ahead
    payload_read: Buffer | None
    stored_read: StoredRecord | None
    rank_place: int | None  # in the order of ranks, if that is the stream's
    spool: IO[bytes] | None  # has the secured payload, if it is large
    _batch: str
    _status: str
    _capture: Capture | None
    _decoded: bytes | None
    _extracted: Extracted | None
    _main_text: str | None
    _reader: PageReader

    @classmethod
    def of_head(cls, batch: str, head: Head, reader: PageReader) -> Page:
        """Attributes are parsed from the head on first use: most streams need few."""
        page = cls.__new__(cls)
        page.head, page._batch, page._reader = head, batch, reader
        page.payload_read, page.key, page.size = None, "", int(head["size"] or 0)
        return page

    @classmethod
    def of_entry(cls, batch: str, entry: JournalEntry, reader: PageReader) -> Page:
        page = cls.__new__(cls)
        page.head, page._batch, page._reader = None, batch, reader
        page.payload_read, page.key, page.size = None, "", entry.size
        page._begin()
        page.record = RecordId(batch, entry.serial)
        page.url, page.timestamp, page._status, page.mime = entry.url, entry.timestamp, entry.status, entry.mime
        page.collection, page.digest, page.contents = entry.collection, entry.digest, entry.contents
        page.type, page.entry_read = _type_of(entry.type, entry.mime), entry
        return page

    @classmethod
    def of_capture(cls, capture: Capture, reader: PageReader) -> Page:
        page = cls.__new__(cls)
        page.head, page._batch, page._reader = None, capture.record.batch, reader
        page.payload_read, page.key, page.size = None, "", capture.size
        page._begin()
        page.record, page.url, page.timestamp = capture.record, capture.url, capture.timestamp
        page._status, page.mime, page.collection = capture.status, capture.mime, capture.collection
        page.type, page.digest, page.contents = capture.type, capture.digest, capture.contents
        page._capture = capture
        return page

    def _begin(self) -> None:
        self.entry_read = self._capture = None
        self._decoded = self._extracted = self._main_text = None
        self.stored_read = self.spool = None
        self.unresolved, self.rank_place = False, None

    def __getattr__(self, name: str) -> Any:
        """Parses the head of a page on first use of an attribute."""
        head = self.head
        if head is None or name not in _OF_HEAD:
            raise AttributeError(f"'Page' object has no attribute {name!r}")
        self._begin()
        self.record = RecordId(self._batch, int(head["serial"]))
        self.url, self.timestamp = text_of(head, "url"), digits(text_of(head, "date"))
        self._status, self.mime = text_of(head, "status"), text_of(head, "mime")
        self.collection, self.digest = text_of(head, "collection"), text_of(head, "digest")
        self.contents, self.type = text_of(head, "contents"), _type_of(text_of(head, "type"), self.mime)
        return object.__getattribute__(self, name)

    def begun(self) -> Page:
        """Parses the head, so that several threads may share the page."""
        assert self.record
        return self

    def __repr__(self) -> str:
        return f"<Page {self.record} {self.timestamp} {self.url!r}>"

    @property
    def status(self) -> int | None:
        """The HTTP status; None if there is none."""
        return int(self._status) if self._status.isdigit() else None

    @property
    def capture(self) -> Capture:
        if self._capture is None:
            self._capture = capture_of(self.entry, self.record.batch)
        return self._capture

    @property
    def modified(self) -> str:
        """The Last-Modified of the response, 14 digits; `-` if there is none."""
        return self.capture.modified

    @property
    def page_id(self) -> str:
        """WebBase's id of the page, 16 hexadecimal digits."""
        return page_id_text(page_id(self.url))

    @property
    def urlkey(self) -> str:
        return self.capture.urlkey

    @property
    def entry(self) -> JournalEntry:
        """The record's entry in its batch."""
        if self.entry_read is None:
            head = self.head
            self.entry_read = parse_entry(head.string, head.start())[0] if head else self._reader.entry(self.record)
        return self.entry_read

    @property
    def stored(self) -> StoredRecord:
        """The whole record: its header, its exact bytes, its context."""
        return self._reader.stored(self)

    @property
    def headers(self) -> Headers:
        """The fields of the HTTP header; none without HTTP. A revisit without its own has its original's."""
        head = self.stored.http_head
        return head.headers if head is not None else _NO_HEADERS

    @property
    def payload(self) -> bytes:
        """The payload as transferred, chunks joined, content encodings kept; for a revisit, that of its original."""
        payload = self.buffer
        if not isinstance(payload, bytes):
            self.payload_read = payload = bytes(payload)
        return payload

    @property
    def buffer(self) -> Buffer:
        """The payload without a copy, where it was read ahead: look at it, do not keep it.

        It shares its memory with the other payloads of its batch.
        """
        if self.payload_read is None:
            self.payload_read = b"".join(self.pieces())
        return self.payload_read

    def pieces(self) -> Iterator[Buffer]:
        """The payload in parts of bounded size, for those that are too large for memory."""
        if self.payload_read is not None:
            yield self.payload_read
        elif (spool := self.spool) is not None:
            at = 0
            while piece := os.pread(spool.fileno(), _PIECE_BYTES, at):  # others may be reading it as well
                yield piece
                at += len(piece)
        else:
            yield from self._reader.pieces(self)

    @property
    def is_large(self) -> bool:
        """Whether the payload was not read ahead because it is too large."""
        return self.payload_read is None and self.size > LARGE

    def secure(self) -> None:
        """Copies a large payload to a temporary file, so that a later removal does not matter."""
        spool = TemporaryFile(prefix="holdfast-stream-")  # noqa: SIM115
        try:
            for piece in self.pieces():
                spool.write(piece)
            spool.flush()
        except BaseException:
            spool.close()
            raise
        self.release()
        self.spool = spool
        self.size = spool.tell()

    def release(self) -> None:
        """Discards the temporary file of `secure`."""
        spool, self.spool = self.spool, None
        if spool is not None:
            spool.close()

    @property
    def content(self) -> bytes:
        """The payload without its content encodings; at most a gigabyte."""
        if self._decoded is None:
            payload = self.payload
            encoded = payload and self.headers.get("content-encoding")
            self._decoded = decoded_content(payload, self.headers, PAYLOAD_BYTES_MAX) if encoded else payload
        return self._decoded

    @property
    def content_type(self) -> str:
        """The server's Content-Type, charset included; else the catalog's type."""
        return self.headers.get("content-type") or (self.mime if self.mime not in ("-", REVISIT_MIME) else "")

    @property
    def extracted(self) -> Extracted:
        """Everything the index extracts from a page: title, text, language, date and links."""
        from holdfast.index.extract.extract import ExtractionLimits, Payload, extract

        if self._extracted is None:
            payload = Payload(self.url, self.content, self.content_type, self.headers, self.status or 0)
            self._extracted = extract(payload, ExtractionLimits())
        return self._extracted

    @property
    def text(self) -> str:
        """The text of the page; empty for types without text."""
        return self.extracted.text

    @property
    def title(self) -> str:
        """Empty if there is none."""
        return self.extracted.title

    @property
    def language(self) -> str:
        """The ISO 639-1 code of its language; `-` if it is not known."""
        return self.extracted.language

    @property
    def main_text(self) -> str:
        """The text without navigation, banners, side bars and footers; all text if it is not HTML."""
        from holdfast.formats.html.text import is_html, main_text_of

        if self._main_text is None:
            html = is_html(self.content, self.content_type)
            self._main_text = main_text_of(self.content, self.content_type) if html else self.text
        return self._main_text


_OF_HEAD = frozenset(Page.__slots__) - frozenset(_SET_FIRST)


def _type_of(kind: str, mime: str) -> str:
    """As in the catalog: a record by reference has the type of its target."""
    if kind != REFERENCE:
        return kind
    return "revisit" if mime == REVISIT_MIME else "response"
