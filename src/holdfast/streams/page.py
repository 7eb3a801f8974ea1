"""A page: one capture as a stream hands it out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from holdfast.batches.entry import REFERENCE, JournalEntry, digits, parse_entry
from holdfast.batches.entry_heads import Head, text_of
from holdfast.env.files import Buffer
from holdfast.formats.http import PAYLOAD_BYTES_MAX, decoded_content
from holdfast.formats.record import Headers
from holdfast.model import Capture, RecordId
from holdfast.records.draft import REVISIT_MIME, capture_of
from holdfast.urls import page_id, page_id_text

if TYPE_CHECKING:
    from holdfast.index.extract import Extracted
    from holdfast.records.stored_record import StoredRecord
    from holdfast.streams.page_reader import PageReader

LARGE = 8 << 20  # payloads beyond this are read when they are asked for
_PIECE_BYTES = 1 << 20
_NO_HEADERS = Headers([])
_SET_FIRST = ("_batch", "_reader", "head", "key", "payload_read", "size")


class Page:
    """One capture. Texts are `-` where nothing is known; what was not read ahead is read when it is asked for.

    Then it raises CaptureNotFound if the record was removed meanwhile, and Damaged if it cannot be read. Consumers of a
    multicast look at the same page from several threads: what two of them make at once, they make equal.
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
    contents: str  # contentkeys of the payload, parted by spaces
    unresolved: bool  # a revisit whose original is not in the archive: its payload is empty
    head: Head | None  # of its entry, where that was found and not read
    key: str  # under which the payload can be read together with others; else empty
    entry_read: JournalEntry | None  # what the reader has read ahead
    payload_read: Buffer | None
    stored_read: StoredRecord | None
    rank_place: int | None  # in the order of ranks, of a stream in that order
    spool: IO[bytes] | None  # has the payload, where it is large and was secured
    _batch: str
    _status: str
    _capture: Capture | None
    _decoded: bytes | None
    _extracted: Extracted | None
    _main_text: str | None
    _reader: PageReader

    @classmethod
    def of_head(cls, batch: str, head: Head, reader: PageReader) -> Page:
        """The attributes are taken from the head when they are first asked for: most streams want few."""
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
        """An attribute that was not set yet: of a page that is only a head so far."""
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
        """With all that its head tells: from here on, several threads may look at it."""
        assert self.record
        return self

    def __repr__(self) -> str:
        return f"<Page {self.record} {self.timestamp} {self.url!r}>"

    @property
    def status(self) -> int | None:
        """Of the HTTP response."""
        return int(self._status) if self._status.isdigit() else None

    @property
    def capture(self) -> Capture:
        """The row of the catalog."""
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
        """The key by which the catalog sorts."""
        return self.capture.urlkey

    @property
    def entry(self) -> JournalEntry:
        """The record as its batch has it."""
        if self.entry_read is None:
            head = self.head
            self.entry_read = parse_entry(head.string, head.start())[0] if head else self._reader.entry(self.record)
        return self.entry_read

    @property
    def stored(self) -> StoredRecord:
        """The whole record: its own header, its exact bytes, what it was recorded with."""
        return self._reader.stored(self)

    @property
    def headers(self) -> Headers:
        """The fields of the HTTP header; none if there was no HTTP. A revisit without its own has its original's."""
        head = self.stored.http_head
        return head.headers if head is not None else _NO_HEADERS

    @property
    def payload(self) -> bytes:
        """What was transferred, chunks joined, content encodings kept; that of a revisit is its original's."""
        payload = self.buffer
        if not isinstance(payload, bytes):
            self.payload_read = payload = bytes(payload)
        return payload

    @property
    def buffer(self) -> Buffer:
        """The payload without a copy, where it was read ahead: to be looked at, not to be kept.

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
            while piece := os.pread(spool.fileno(), _PIECE_BYTES, at):  # others may be reading it, too
                yield piece
                at += len(piece)
        else:
            yield from self._reader.pieces(self)

    @property
    def is_large(self) -> bool:
        """Whether the payload was not read ahead because it is too large."""
        return self.payload_read is None and self.size > LARGE

    def secure(self) -> None:
        """Reads a large payload into a temporary file: after this it can be read whole, whatever happens to it."""
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
        """Lets go of what `secure` has made."""
        spool, self.spool = self.spool, None
        if spool is not None:
            spool.close()

    @property
    def content(self) -> bytes:
        """The payload without its content encodings, as a reader of the page wants it; at most a gigabyte."""
        if self._decoded is None:
            payload = self.payload
            encoded = payload and self.headers.get("content-encoding")
            self._decoded = decoded_content(payload, self.headers, PAYLOAD_BYTES_MAX) if encoded else payload
        return self._decoded

    @property
    def content_type(self) -> str:
        """As the server said it, charset included; the catalog's where it said nothing."""
        return self.headers.get("content-type") or (self.mime if self.mime not in ("-", REVISIT_MIME) else "")

    @property
    def extracted(self) -> Extracted:
        """What the index knows of a page: title, text, language, date and links."""
        from holdfast.index.extract import ExtractionLimits, Payload, extract

        if self._extracted is None:
            payload = Payload(self.url, self.content, self.content_type, self.headers, self.status or 0)
            self._extracted = extract(payload, ExtractionLimits())
        return self._extracted

    @property
    def text(self) -> str:
        """The text of the page; empty if it is of a type that has none."""
        return self.extracted.text

    @property
    def title(self) -> str:
        """Empty if there is none."""
        return self.extracted.title

    @property
    def language(self) -> str:
        """The code of its language, as in ISO 639-1; `-` if it is not known."""
        return self.extracted.language

    @property
    def main_text(self) -> str:
        """The text without navigation, banners, side bars and footers; of what is no HTML, all text."""
        from holdfast.formats.html.main_text import main_text_of
        from holdfast.formats.html.tree import is_html

        if self._main_text is None:
            html = is_html(self.content, self.content_type)
            self._main_text = main_text_of(self.content, self.content_type) if html else self.text
        return self._main_text


_OF_HEAD = frozenset(Page.__slots__) - frozenset(_SET_FIRST)


def _type_of(kind: str, mime: str) -> str:
    """As the catalog has it: a record by reference is of the type that it refers to."""
    if kind != REFERENCE:
        return kind
    return "revisit" if mime == REVISIT_MIME else "response"
