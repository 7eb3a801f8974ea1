"""WARC 1.0 and 1.1 (ISO 28500): the head of a record, and where records may begin and end.

WARC/1.1 CRLF
WARC-Type: response CRLF
...: ... CRLF                     a line that begins with a space or tab goes on with the one before
CRLF                              head: up to here
block                             as many bytes as Content-Length says
CRLF CRLF                         tail
"""

from __future__ import annotations

import re

from holdfast.formats.blocks import Checks
from holdfast.formats.dates import warc_timestamp
from holdfast.formats.heads import HeadEnd
from holdfast.formats.record import Headers, Record
from holdfast.formats.salvage import PLAUSIBLE_BYTES, Unreadable
from holdfast.formats.source import Source
from holdfast.formats.warc_digests import digest_checks
from holdfast.formats.warc_rules import head_faults

_VERSION = re.compile(r"WARC/(\d+\.\d+)", re.IGNORECASE)
_START = re.compile(rb"WARC/\d+\.\d+[ \t]*\r?\n", re.IGNORECASE)
_HEAD_END = re.compile(rb"\n\r?\n")
_NEWLINES = re.compile(rb"[\r\n]*")
_MAGICS = (b"WARC/", b"warc/")  # the second is rare, and right: names are compared without regard to case
_MAGIC = re.compile(rb"WARC/|warc/")
_LENGTH_DIGITS_MAX = 18


class WarcFraming:
    """How WARC records stand in a file."""

    usual_tail = b"\r\n\r\n"
    hold_bytes = len(_MAGICS[0]) - 1

    def __init__(self, *, thorough: bool = True) -> None:
        """`thorough`: both digests of a record are verified, not only that of its payload."""
        self._thorough = thorough
        self._blank = HeadEnd(_HEAD_END, _MAGICS)

    def parse(self, source: Source) -> Record:
        if not source.data.startswith(_MAGICS, source.pos):
            source.fill(len(_MAGICS[0]))
            if not source.data.startswith(_MAGICS, source.pos):
                raise Unreadable(f"no record begins with {source.data[source.pos : source.pos + 16]!r}")
        head = self._blank.head(source)
        if head.count(_MAGICS[0]) > 1 and _START.search(head, 1):
            raise Unreadable("the head is cut off by another record")
        text = head.decode("utf-8", "surrogateescape")
        lines = text.split("\r\n")
        if text.count("\n") != len(lines) - 1:  # some lines end in LF only
            lines = text.replace("\r\n", "\n").split("\n")
        version = _VERSION.match(lines[0])
        if version is None:
            raise Unreadable(f"no version of WARC: {lines[0][:40]!r}")
        fields, index = parse_fields(lines)
        kind = index.get("warc-type")
        length = index.get("content-length", "")
        if kind is None:
            raise Unreadable("the head has no WARC-Type")
        if not (length.isascii() and length.isdigit()) or len(length) > _LENGTH_DIGITS_MAX:
            raise Unreadable(f"bad Content-Length {length[:40]!r}" if length else "the head has no Content-Length")
        url = index.get("warc-target-uri", "")
        if url[:1] == "<" and url[-1:] == ">":  # as wget writes it
            url = url[1:-1]
        kind = kind.lower()
        return Record(
            f"warc/{version[1]}",
            kind,
            url,
            warc_timestamp(index.get("warc-date", "")),
            Headers(fields, index),
            head,
            int(length),
            None,  # type: ignore[arg-type]  # the reader sets it
            0,
            index.get("warc-ip-address", ""),
            index.get("content-type", "")[:16].lower() == "application/http",
        )

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

    def tail(self, rest: bytes) -> tuple[int, str]:
        newlines = _NEWLINES.match(rest)
        assert newlines is not None
        size = newlines.end()
        if rest.startswith(self.usual_tail):
            if size == len(self.usual_tail):
                return size, ""
            return size, f"the record ends in {size} characters of newlines instead of CRLF CRLF"
        if size == len(rest) or rest.startswith(_MAGICS, size):
            return size, f"the record ends in {rest[:size]!r} instead of CRLF CRLF"
        raise Unreadable(f"behind the block stands {rest[:8]!r} instead of CRLF CRLF: the Content-Length is wrong")

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        return not odd  # four bytes are no accident

    def holds_start(self, block: bytes) -> bool:
        at = -1
        while (at := block.find(b"\r\n\r\nWARC/", at + 1)) >= 0:
            if self.plausible(block[at + 4 : at + 4 + PLAUSIBLE_BYTES]):
                return True
        return False

    def faults(self, record: Record) -> list[str]:
        return head_faults(record)

    def checks(self, record: Record, *, doubtful: bool = False) -> Checks | None:
        return digest_checks(record, thorough=doubtful or self._thorough)


def parse_fields(lines: list[str]) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """The fields in order, and the first of each name in lower case."""
    fields: list[tuple[str, str]] = []
    index: dict[str, str] = {}
    folded = False
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or line[0] in " \t":
            if not line:
                continue
            if line[0] not in " \t" or not fields:
                raise Unreadable(f"a line of the head is no field: {line[:40]!r}")
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}".lstrip())
            folded = True
            continue
        value = value.strip()
        fields.append((name, value))
        index.setdefault(name.lower(), value)
    if folded:
        index = {name.lower(): value for name, value in reversed(fields)}
    return fields, index
