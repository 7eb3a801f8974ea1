"""A record as it comes out of the archive: its parts, its payload, and its exact bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.batches.entry import JournalEntry, runs
from holdfast.formats.http import HttpHead, parse_head, split
from holdfast.formats.record import Headers
from holdfast.model import Capture, ContentKey, RecordId

if TYPE_CHECKING:
    from holdfast.storage.store.contents import Contents

_HEAD_END = re.compile(rb"\n\r{0,3}\n")
_LINE_END = re.compile(r"\r*\n")
_BLOCK = '"block": '  # in `extra`


@dataclass(slots=True)
class StoredRecord:
    """One record. Strings and heads are in memory; the payload is read on request."""

    id: RecordId
    entry: JournalEntry
    contents: Contents
    resolve: Callable[[StoredRecord], StoredRecord | None]  # a revisit's original

    @property
    def capture(self) -> Capture:
        """The record's row in the catalog."""
        from holdfast.records.draft import capture_of

        return capture_of(self.entry, self.id.batch)

    @property
    def payload_size(self) -> int:
        """Bytes of its contents; 0 if the payload is kept with the record."""
        return self.entry.size if self.entry.contents != "-" else 0

    # -- exact bytes --------------------------------------------------------------------------------------------

    def raw(self) -> Iterator[bytes]:
        """The whole record, byte for byte as imported, in parts of bounded size."""
        entry = self.entry
        if entry.contents == "-":
            yield entry.data
            return
        payload = self._pieces()
        piece = memoryview(b"")
        at = 0
        for literal, length in runs(entry.layout):
            if literal:
                yield entry.data[at : at + literal]
                at += literal
            wanted = length
            while wanted:
                if not piece:
                    piece = memoryview(next(payload))
                taken = min(wanted, len(piece))
                yield bytes(piece[:taken])
                piece = piece[taken:]
                wanted -= taken

    def _pieces(self) -> Iterator[bytes]:
        return (self.contents.get(ContentKey.parse(key)) for key in self.entry.contentkeys)

    @property
    def block_length(self) -> int:
        """The length of the block."""
        if _BLOCK in self.entry.extra:
            return int(json.loads(self.entry.extra)["block"])
        return block_length(self.entry.format, self.head)

    def block(self) -> Iterator[bytes]:
        """The block, between the record's header and its end: an HTTP message, or the payload itself."""
        skip = self._head_length()
        left = self.block_length
        for part in self.raw():
            piece = part[skip : skip + left]
            skip = max(0, skip - len(part))
            left -= len(piece)
            if piece:
                yield piece

    @property
    def is_zipped(self) -> bool:
        """Whether the block is compressed as Tianwang allows it."""
        return self.entry.format == "tianwang/1.0" and b"\nunzip-length:" in self.head

    def message(self) -> bytes:
        """The block as it was sent: that of a Tianwang record without its compression."""
        block = b"".join(self.block())
        if not self.is_zipped:
            return block
        from holdfast.formats.tianwang import unzipped

        return unzipped(block)

    # -- parts --------------------------------------------------------------------------------------------------

    @property
    def head(self) -> bytes:
        """The record's own header, exactly."""
        return self.entry.data[: self._head_length()]

    @property
    def headers(self) -> Headers:
        """The fields of the record's own header."""
        return parse_fields(self.head, self.entry.format)

    def _head_length(self) -> int:
        return head_length(self.entry.format, self.entry.data)

    @property
    def http_head(self) -> HttpHead | None:
        """The head of the HTTP message; a revisit without one has that of its original. None if there is none."""
        head = self._own_http_head()
        if head is None and self.entry.type == "revisit" and (original := self.resolve(self)) is not None:
            return original.http_head
        return head

    def _own_http_head(self) -> HttpHead | None:
        if self.entry.type not in ("response", "request", "revisit"):
            return None
        if self.is_zipped:
            return parse_head(self.message())
        start = self._head_length()
        return parse_head(self.entry.data[start : start + runs(self.entry.layout)[0][0]])

    def http_bytes(self) -> bytes:
        """The head of the HTTP message, exactly; empty if there is none."""
        head = self._own_http_head()
        if head is not None and self.is_zipped:
            return self.message()[: head.size]
        start = self._head_length()
        if head is not None:
            return self.entry.data[start : start + head.size]
        if self.entry.type == "revisit" and (original := self.resolve(self)) is not None:
            return original.http_bytes()
        return b""

    def payload(self) -> bytes:
        """The payload as transferred, chunks joined; for a revisit, that of its original.

        Raises CaptureNotFound if the original of a revisit is not in the archive.
        """
        return b"".join(self.stream())

    def stream(self) -> Iterator[bytes]:
        """The payload in parts of bounded size."""
        from holdfast.catalog.revisits import is_empty  # here, as processes that only draft records need no catalog
        from holdfast.errors import CaptureNotFound

        if self.entry.type == "revisit" and self.entry.contents == "-":
            if is_empty(self.capture):
                return
            original = self.resolve(self)
            if original is None:
                raise CaptureNotFound(
                    f"the capture of '{self.entry.url}' at {self.entry.timestamp} repeats one that is not here"
                )
            yield from original.stream()
        elif self.is_zipped:
            yield split(self.message())[2]
        elif self.entry.contents != "-":
            yield from self._pieces()
        elif self.entry.is_inline:
            yield self.entry.payload


def head_length(kind: str, data: bytes) -> int:
    """The length of the record's own header, in its literals."""
    if kind.startswith("arc/"):
        return data.index(b"\n") + 1
    crlf = data.find(b"\r\n\r\n")
    if crlf >= 0 and data.find(b"\n\n", 0, crlf) < 0 and data.find(b"\r\r\n", 0, crlf) < 0:
        return crlf + 4
    end = _HEAD_END.search(data)  # some lines end in LF, or in CR CR LF
    return end.end() if end is not None else len(data)


def block_length(kind: str, head: bytes) -> int:
    """The length of the block by the record's own header; -1 if the header has none that is usable."""
    if kind.startswith("arc/"):
        said = head.split()[-1].decode("latin-1")
    else:
        said = parse_fields(head, kind).get("Content-Length" if kind.startswith("warc/") else "length") or ""
    return int(said) if said.isascii() and said.isdigit() else -1


def parse_fields(head: bytes, kind: str) -> Headers:
    """The fields of a record's header; of an ARC record those of its line."""
    text = head.decode("utf-8", "surrogateescape")
    if kind.startswith("arc/"):
        return Headers([("line", text.strip())])
    if kind.startswith("warc/"):
        from holdfast.formats.warc.reader import parse_fields as warc_fields

        return Headers(*warc_fields(_LINE_END.split(text), found=False))
    fields = [line.partition(":") for line in text.replace("\r", "").split("\n") if ":" in line]
    return Headers([(name.strip(), value.strip()) for name, _, value in fields])
