"""WARC 1.0 and 1.1 (ISO 28500): the head of a record, and where records may begin and end.

WARC/1.1 CRLF
WARC-Type: response CRLF
...: ... CRLF                     a line that begins with a space or tab goes on with the one before
CRLF                              head: up to here
block                             as many bytes as Content-Length says
CRLF CRLF                         tail

Heads may also end their lines in LF, or in CR CR LF as after a text-mode conversion. Where a record is due, a head that
names a URL is accepted even if it lacks its type, a usable length or its end, or has lines that are not fields. A head
found by searching must be complete.
"""

from __future__ import annotations

import re

from holdfast.formats.dates import warc_timestamp
from holdfast.formats.http import is_message
from holdfast.formats.io.record_block import BytesBlock, Checks
from holdfast.formats.io.salvage import PLAUSIBLE_BYTES, CutHead, HeadEnd, Unreadable, newlines_at
from holdfast.formats.io.source import ByteSource
from holdfast.formats.record import Headers, Record
from holdfast.formats.warc.digests import digest_checks, digest_faults
from holdfast.formats.warc.head_pattern import HeadPatterns
from holdfast.formats.warc.rules import head_faults

_VERSION = re.compile(r"WARC/(\d+\.\d+)", re.IGNORECASE)
_START = re.compile(rb"WARC/\d+\.\d+[ \t]*\r{0,3}\n", re.IGNORECASE)
_HEAD_END = re.compile(rb"\n\r{0,3}\n")
_LINE_END = re.compile(r"\r*\n")
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r*\n", re.IGNORECASE)
_NUMBER = re.compile(r"\+?(\d{1,18})", re.ASCII)
_MESSAGE_TYPE = re.compile(r"application/http(?:.*msgtype=\"?(request|response))?", re.IGNORECASE)
_MESSAGE_RECORDS = frozenset(("response", "request", "revisit"))
_MESSAGE_LOOK = 64  # bytes of a block that show whether it is an HTTP message
_MAGICS = (b"WARC/", b"warc/")  # the second is rare, and right: names are compared without regard to case
_MAGIC = re.compile(rb"WARC/|warc/")


class WarcFraming:
    """The framing of WARC records in a file."""

    usual_tail = b"\r\n\r\n"
    hold_bytes = len(_MAGICS[0]) - 1

    def __init__(self, *, thorough: bool = True) -> None:
        """`thorough`: both digests of a record are verified, not only that of its payload."""
        self._thorough = thorough
        self._blank = HeadEnd(_HEAD_END, _MAGICS)
        self._patterns = HeadPatterns()
        self.quick = self._patterns.record
        self.learn = self._patterns.learn

    def parse(self, source: ByteSource, *, found: bool = False) -> Record:
        if not source.data.startswith(_MAGICS, source.pos):
            source.fill(len(_MAGICS[0]))
            if not source.data.startswith(_MAGICS, source.pos):
                raise Unreadable(f"no record begins with {source.data[source.pos : source.pos + 16]!r}")
        try:
            head = self._blank.head(source)
        except CutHead:
            if found:
                raise
            return self._cut(source)
        if head.count(_MAGICS[0]) > 1 and _START.search(head, 1):
            raise Unreadable("the head is cut off by another record")
        record = _record(head, head.decode("utf-8", "surrogateescape"), found=found)
        if not record.has_http and record.type in _MESSAGE_RECORDS and record.url[:4].lower() == "http":
            source.fill(len(head) + _MESSAGE_LOOK)
            begin = source.pos + len(head)
            length = record.content_length if record.content_length >= 0 else _MESSAGE_LOOK
            record.has_http = is_message(source.data[begin : begin + min(length, _MESSAGE_LOOK)])
        return record

    def _cut(self, source: ByteSource) -> Record:
        """The record whose head is cut off, as far as it goes. Raises CutHead if that names no capture."""
        head = source.data[source.pos :]
        text = head.decode("utf-8", "surrogateescape")
        cut = CutHead(source.broken or "the head is cut off by the end of the file")
        try:
            record = _record(head, text[: text.rfind("\n") + 1], found=False)
        except Unreadable:
            raise cut from None
        if not (record.url and "warc-type" in record.headers):
            raise cut
        record.content_length, record.truncated = 0, True
        return record

    def find(self, data: bytes, start: int) -> int:
        found = _MAGIC.search(data, start)
        return found.start() if found is not None else -1

    def plausible(self, begin: bytes) -> bool:
        match = _START.match(begin)
        if match is None:
            return False
        head = _HEAD_END.search(begin)
        named = begin[: head.end() if head else len(begin)].lower()
        return head is None or (b"\nwarc-type:" in named and b"\ncontent-length:" in named)

    def extent(self, begin: bytes) -> int:
        head = _HEAD_END.search(begin)
        length = _LENGTH.search(begin, 0, head.end()) if head is not None else None
        return head.end() + int(length[1]) if head is not None and length is not None else -1

    def tail(self, rest: bytes) -> tuple[int, str]:
        size = newlines_at(rest)
        if rest.startswith(self.usual_tail):
            if size == len(self.usual_tail):
                return size, ""
            return size, f"the record ends in {size} characters of newlines instead of CRLF CRLF"
        if size == len(rest) or rest.startswith(_MAGICS, size):
            return size, f"the record ends in {rest[:size]!r} instead of CRLF CRLF"
        raise Unreadable(f"the block is followed by {rest[:8]!r} instead of CRLF CRLF: the Content-Length is wrong")

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        return not odd  # four bytes are hardly an accident

    def holds_start(self, block: bytes) -> bool:
        at = -1
        while (at := block.find(b"\r\n\r\nWARC/", at + 1)) >= 0:
            if self.plausible(block[at + 4 : at + 4 + PLAUSIBLE_BYTES]):
                return True
        return False

    def faults(self, record: Record) -> list[str]:
        return head_faults(record)

    def checks(self, record: Record) -> Checks | None:
        return digest_checks(record, thorough=self._thorough)

    def block_faults(self, record: Record, block: BytesBlock, *, doubtful: bool = False) -> list[str] | None:
        return digest_faults(record, block, thorough=doubtful or self._thorough)


def _record(head: bytes, text: str, *, found: bool) -> Record:
    """The record of a head; its length is -1 if none can be read. Raises Unreadable."""
    lines = text.split("\r\n")
    if not text.count("\n") == text.count("\r") == len(lines) - 1:  # LF only, CR CR LF, or CR within a value
        lines = _LINE_END.split(text)
    version = _VERSION.match(lines[0])
    if version is None:
        raise Unreadable(f"no version of WARC: {lines[0][:40]!r}")
    fields, index = parse_fields(lines, found=found)
    kind, url = index.get("warc-type", ""), index.get("warc-target-uri", "")
    if not kind:
        if found or not url:
            raise Unreadable("the head has no WARC-Type")
        kind = _kind_of(index.get("content-type", ""))
    said = index.get("content-length", "")
    number = _NUMBER.fullmatch(said)
    if number is None and (found or not (url or kind.lower() == "warcinfo")):
        raise Unreadable(f"bad Content-Length {said[:40]!r}" if said else "the head has no Content-Length")
    if url[:1] == "<" and url[-1:] == ">":  # as wget writes it
        url = url[1:-1]
    return Record(
        f"warc/{version[1]}",
        kind.lower(),
        url,
        warc_timestamp(index.get("warc-date", "")),
        Headers(fields, index),
        head,
        int(number[1]) if number is not None else -1,
        None,  # type: ignore[arg-type]  # the reader sets it
        0,
        index.get("warc-ip-address", ""),
        index.get("content-type", "")[:16].lower() == "application/http",
    )


def _kind_of(media: str) -> str:
    """The type of a record that does not say it, by its Content-Type."""
    message = _MESSAGE_TYPE.match(media)
    if message is not None:
        return message[1] or "response"
    return "warcinfo" if media.lower().startswith("application/warc-fields") else "resource"


def parse_fields(lines: list[str], *, found: bool = True) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The fields in order, and the first of each name in lower case.

    A line that is not a field raises Unreadable if the head was `found` by a search, and is skipped otherwise.
    """
    fields: list[tuple[str, str]] = []
    index: dict[str, str] = {}
    folded = False
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or line[0] in " \t":
            if not line:
                continue
            if line[0] not in " \t" or not fields:
                if found:
                    raise Unreadable(f"a line of the head is not a field: {line[:40]!r}")
                continue
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}".lstrip())
            folded = True
            continue
        name, value = name.rstrip(" \t"), value.strip()
        fields.append((name, value))
        index.setdefault(name.lower(), value)
    if folded:
        index = {name.lower(): value for name, value in reversed(fields)}
    return fields, index
