"""Tianwang 1.0, the format of China Web InfoMall (I2), and our 2.0 in the same grammar; read and written.

    version: 1.0 LF                                first, always
    url: http://www.pku.edu.cn/ LF                 required; names in lower case, no blank line within
    origin: http://www.somewhere.cn/ LF            where the page was redirected from
    date: Tue, 15 Apr 2003 08:13:06 GMT LF         required; RFC 822
    ip: 162.105.129.12 LF
    unzip-length: 30233 LF                         only if the data is compressed (zlib): its size before
    length: 18133 LF                               last, always: of the data as it lies here
    LF
    data LF

Records follow one another with nothing between. Version 2.0, of Holdfast's own batches, has other attributes.

Recovery as its authors give it (I3): find `version`, check the head, accept after three good records in a row, or
fewer if the file ends there. Beyond them, fewer will do if the first has a URL, a date that can be read, and a line
feed where its length ends: between two damaged heads there may be no three.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import BinaryIO

from holdfast.errors import UsageError
from holdfast.formats.dates import DIGITS, arc_timestamp, mail_date, mail_timestamp
from holdfast.formats.http import is_message
from holdfast.formats.io.record_block import BytesBlock, Checks
from holdfast.formats.io.salvage import Framing, HeadEnd, Unreadable, newlines_at
from holdfast.formats.io.source import ByteSource
from holdfast.formats.record import Headers, Record
from holdfast.formats.warc.compose import encoded

HEAD_BYTES_MAX = 64 * 1024
UNZIPPED_BYTES_MAX = 1 << 30
RUN = 3  # good records in a row that make a start believable
LOOK_BYTES_MAX = 4 * 1024 * 1024  # to see that run
_MESSAGE_LOOK = 64  # bytes of the data that show whether it is an HTTP message
_MAGIC = b"version:"
_HEAD = re.compile(rb"version:[ \t]*(\d+\.\d+)[ \t]*\r?\n(?:[^:\n]+:[^\n]*\n)*?length:[ \t]*(\d{1,15})[ \t]*\r?\n\r?\n")
_BLANK = re.compile(rb"\n\r?\n")
_NAME = re.compile(r"[a-z0-9._-]+")
_URL_LINE = re.compile(rb"\nurl:[ \t]*[A-Za-z][A-Za-z0-9+.-]*:[^\s]+[ \t]*\r?\n")
_DATE_LINE = re.compile(rb"\ndate:[ \t]*([^\r\n]+)")


class TianwangFraming(Framing):
    """The framing of Tianwang records in a file."""

    usual_tail = b"\n"
    hold_bytes = len(_MAGIC) - 1

    def __init__(self) -> None:
        self._aligned = -1  # a record that ended here was good
        self._blank = HeadEnd(_BLANK, (_MAGIC,), bytes_max=HEAD_BYTES_MAX)

    def parse(self, source: ByteSource, *, found: bool = False) -> Record:
        head, version, length = self._head(source)
        start = source.position
        if self._aligned != start and start:
            self._see_run(source)
        text = head.decode("utf-8", "surrogateescape")
        fields = []
        for line in text.splitlines():
            name, colon, value = line.partition(":")
            if colon:
                fields.append((name, value.strip()))
        headers = Headers(fields)
        size = len(head) + length
        compressed = "unzip-length" in headers
        source.fill(len(head) + _MESSAGE_LOOK)
        begin = source.data[source.pos + len(head) :][: min(length, _MESSAGE_LOOK)]
        self._aligned = start + size + 1
        return Record(
            f"tianwang/{version}",
            headers.get("type") or "response",
            headers.get("url") or "",
            mail_timestamp(headers.get("date") or ""),
            headers,
            head,
            length,
            None,  # type: ignore[arg-type]  # the reader sets it
            0,
            headers.get("ip") or "",
            is_message(begin) and not compressed,
        )

    def _head(self, source: ByteSource) -> tuple[bytes, str, int]:
        """The bytes through the blank line, version and length."""
        if not source.fill(len(_MAGIC)) or not source.data.startswith(_MAGIC, source.pos):
            raise Unreadable(f"no record begins with {source.data[source.pos : source.pos + 16]!r}")
        head = self._blank.head(source)
        if b"\n" + _MAGIC in head:
            raise Unreadable("the head is cut off by another record")
        match = _HEAD.fullmatch(head)
        if match is None:
            raise Unreadable(f"no head of a Tianwang record begins with {head[:40]!r}")
        return head, match[1].decode(), int(match[2])

    def _see_run(self, source: ByteSource) -> None:
        """Raises Unreadable unless good records follow each other from here, or the first is sound by itself."""
        at = 0  # from the source's position
        sound = False  # the first one
        for number in range(RUN):
            if at > LOOK_BYTES_MAX:
                return
            source.fill(at + HEAD_BYTES_MAX)
            head = _HEAD.match(source.data, source.pos + at)
            if head is None:
                if at and source.pos + at >= len(source.data):
                    return  # the file ends
                break
            at += head.end() - head.start() + int(head[2])
            if at > LOOK_BYTES_MAX:
                return
            if not source.fill(at + 1):
                if source.pos + at <= len(source.data):
                    return
                break
            ends_well = source.data.startswith(b"\n", source.pos + at)
            if not number:
                sound = ends_well and _is_sound(head[0])
            at += ends_well
        else:
            return
        if not sound:
            raise Unreadable("no three good records follow each other from here")

    def find(self, data: bytes, start: int) -> int:
        return data.find(_MAGIC, start)

    def plausible(self, begin: bytes) -> bool:
        return _HEAD.match(begin) is not None

    def extent(self, begin: bytes) -> int:
        head = _HEAD.match(begin)
        return head.end() + int(head[2]) if head is not None else -1

    def tail(self, rest: bytes) -> tuple[int, str]:
        size = newlines_at(rest)
        if size == len(rest) or rest.startswith(_MAGIC, size):
            return size, "" if rest[:size] == b"\n" else f"the record ends in {rest[:size]!r} instead of LF"
        if size:
            return 1, ""
        raise Unreadable(f"the data is followed by {rest[:8]!r} instead of LF: the length is wrong")

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        return not odd and rest.startswith(_MAGIC)

    def holds_start(self, block: bytes) -> bool:
        at = -1
        while (at := block.find(_MAGIC, at + 1)) >= 0:
            if _HEAD.match(block, at, at + HEAD_BYTES_MAX):
                return True
        return False

    def faults(self, record: Record) -> list[str]:
        headers = record.headers
        found = []
        if not record.url:
            found.append("no url")
        if not record.timestamp:
            found.append(f"bad date {headers.get('date')!r}")
        odd = dict.fromkeys(name for name, _ in headers if not _NAME.fullmatch(name))
        found += [f"bad name of an attribute {name[:40]!r}" for name in odd]
        size = headers.get("unzip-length")
        if size is not None and size and not size.isdigit():
            found.append(f"bad unzip-length {size!r}")
        if b"\r" in record.head:
            found.append("lines end in CR LF instead of LF")
        return found

    def checks(self, record: Record) -> Checks | None:
        size = record.headers.get("unzip-length")
        if size is None or not record.format.endswith("/1.0"):
            return None
        return _Unzip(int(size) if size.isdigit() else None)

    def block_faults(self, record: Record, block: BytesBlock, *, doubtful: bool = False) -> list[str] | None:
        checks = self.checks(record)
        if checks is None:
            return None
        checks.feed(block.view())
        return checks.faults()


def _is_sound(head: bytes) -> bool:
    """True if a head has what a record needs."""
    url, date = _URL_LINE.search(head), _DATE_LINE.search(head)
    return url is not None and date is not None and mail_timestamp(date[1].decode("latin-1")) != ""


def unzipped(data: bytes) -> bytes:
    """The data of a compressed Tianwang record, at most `UNZIPPED_BYTES_MAX`; as it is if it cannot be inflated."""
    try:
        return zlib.decompressobj().decompress(data, UNZIPPED_BYTES_MAX)
    except zlib.error:
        return data


class _Unzip:
    """Checks that data inflates, and to the size that the head says."""

    def __init__(self, size: int | None) -> None:
        self._expected = size
        self._size = 0
        self._error = ""
        self._inflater = zlib.decompressobj()

    def feed(self, piece: bytes | memoryview) -> None:
        given: bytes | memoryview = piece
        while given and not self._error and not self._inflater.eof:
            try:
                self._size += len(self._inflater.decompress(given, HEAD_BYTES_MAX))
            except zlib.error as error:
                self._error = str(error)
            given = self._inflater.unconsumed_tail

    def faults(self) -> list[str]:
        if self._error or not self._inflater.eof:
            return [f"the data cannot be inflated: {self._error or 'it ends too early'}"]
        if self._expected is not None and self._expected != self._size:
            return [f"the data inflates to {self._size} bytes instead of {self._expected}"]
        return []


Attributes = Sequence[tuple[str, str]]

_ZLIB_LEVEL = 6
_WRITTEN_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_RESERVED = frozenset(("version", "unzip-length", "length"))  # written by `tianwang_record` itself
_NEEDED = frozenset(("url", "date"))  # by version 1.0


def tianwang_record(attributes: Attributes, data: bytes, *, compress: bool = False) -> bytes:
    """One record of version 1.0. `version`, `unzip-length` and `length` are added in their places.

    Raises UsageError for a value with a line end in it, a name not in lower case, a record without URL or date.
    """
    body = "".join([f"{name}: {value}\n" for name, value in attributes])
    if body.count("\n") != len(attributes) or "\r" in body:
        _refuse_line_ends(attributes)
    for name, _ in attributes:
        _check_name(name)
    missing = _NEEDED.difference(name for name, value in attributes if value)
    if missing:
        raise UsageError(f"a Tianwang record of version 1.0 needs the attribute {min(missing)!r}")
    unzip_length = ""
    if compress:
        unzip_length = f"unzip-length: {len(data)}\n"
        data = zlib.compress(data, _ZLIB_LEVEL)
    head = f"version: 1.0\n{body}{unzip_length}length: {len(data)}\n\n"
    return b"".join((encoded(head), data, b"\n"))


def page_attributes(url: str, timestamp: str, *, origin: str = "", ip: str = "") -> list[tuple[str, str]]:
    """The attributes of a page in the order of the definition; `timestamp` is 14 digits."""
    pairs = [("url", url), ("origin", origin), ("date", mail_date(_checked(timestamp))), ("ip", ip)]
    return [pair for pair in pairs if pair[1]]


def _checked(timestamp: str) -> str:
    if len(timestamp) != DIGITS or arc_timestamp(timestamp) != timestamp:
        raise UsageError(f"malformed time {timestamp!r}: expected 14 digits such as '20030415081306'")
    return timestamp


class TianwangWriter:
    """Appends records to a sink, which stays the caller's. One thread at a time."""

    def __init__(self, sink: BinaryIO, *, compress: bool = False) -> None:
        self._sink = sink
        self._compress = compress
        self.offset = 0  # of the next record, from where the sink stood

    def write(self, attributes: Attributes, data: bytes) -> tuple[int, int]:
        """Writes a record of version 1.0; returns its offset and length."""
        record = tianwang_record(attributes, data, compress=self._compress)
        self._sink.write(record)
        offset, self.offset = self.offset, self.offset + len(record)
        return offset, len(record)


@lru_cache(1000)  # there are few names
def _check_name(name: str) -> None:
    if name in _RESERVED:
        raise UsageError(f"attribute {name!r} cannot be given: it is written in its place by itself")
    if _WRITTEN_NAME.fullmatch(name) is None:
        raise UsageError(f"malformed attribute name {name!r}: only a-z, 0-9, '-' and '_' may be in it")


def _refuse_line_ends(attributes: Attributes) -> None:
    for name, value in attributes:
        _check_name(name)
        if "\n" in value or "\r" in value:
            raise UsageError(f"attribute {name!r} has a line end in its value {value[:80]!r}; encode it (%0A, %0D)")
