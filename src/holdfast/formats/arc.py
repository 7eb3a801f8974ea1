"""ARC 1.0 and 1.1 files of the Internet Archive, read only.

filedesc://name ip date text/plain length LF          first line; its block describes the file:
1 1 InternetArchive LF                                version, and names of the fields of the lines to come
URL IP-address Archive-date Content-type Archive-length LF
(metadata)
LF
URL ip date content-type length LF                    version 1: five fields
URL ip date content-type status checksum location offset filename length LF      version 2: ten
block                                                 what the server sent
LF
"""

from __future__ import annotations

import re

from holdfast.formats.dates import arc_timestamp
from holdfast.formats.http import is_message
from holdfast.formats.io.record_block import BytesBlock
from holdfast.formats.io.salvage import Framing, Unreadable, newlines_at
from holdfast.formats.io.source import ByteSource
from holdfast.formats.record import Headers, Record

LINE_BYTES_MAX = 16 * 1024
_LENGTH_DIGITS_MAX = 15
_MESSAGE_LOOK = 64  # bytes of a block that show whether it is an HTTP message
NAMES_1 = ("URL", "IP-address", "Archive-date", "Content-type", "Archive-length")
NAMES_2 = (*NAMES_1[:4], "Result-code", "Checksum", "Location", "Offset", "Filename", NAMES_1[4])
_SCHEMES = (
    rb"(?:filedesc://|https?://|ftps?://|dns:|whois:|gopher://|nntp:|news:|mailto:|metadata:|warcinfo:|screenshot:)"
)
_SCHEME = re.compile(_SCHEMES)
_GLUED = re.compile(rb"[A-Za-z0-9+.-]+" + _SCHEMES)  # other bytes directly followed by a URL
# A line found in the midst of other bytes must look right in every field; limits keep the search linear.
_DATED = re.compile(rb" \d{12,17} [^\r\n ]{1,256}(?: [^\r\n]{0,1024})? \d{1,15}\r?\n")
_IP = re.compile(rb"[0-9a-fA-F.:]{2,45}|-")
_URL_LINE = re.compile(
    r"(?P<url>.*?) (?P<ip>\S+) (?P<date>\d{4,20}|-) (?P<type>\S*(?: \S+)*?)"
    r"(?: (?P<code>\d{3}|-) (?P<sum>\S+) (?P<loc>\S+) (?P<off>-|\d+) (?P<file>\S+))? (?P<length>-?\S+)"
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*|-")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*")
_MIME = re.compile(r"[^\s/;]+/[^\s/;]+(?:\s*;.*)?|-|no-type|unk|[\w.+-]+")


def looks_like_arc(begin: bytes) -> bool:
    """True if an ARC record begins here."""
    return begin.startswith(b"filedesc://") or (_SCHEME.match(begin) is not None and find_arc(begin, 0) == 0)


def find_arc(data: bytes, start: int) -> int:
    """Index of the next line of an ARC record; -1 if there is none."""
    # The end of a line, from the date on, is easy to find; its start is looked for backwards from there.
    for dated in _DATED.finditer(data, start):
        floor = max(start, dated.start() - LINE_BYTES_MAX)
        line = max(data.rfind(b"\n", floor, dated.start()) + 1, floor)
        address = data.rfind(b" ", line, dated.start())
        if address < 0 or not _IP.fullmatch(data, address + 1, dated.start()):
            continue
        schemes = [scheme.start() for scheme in _SCHEME.finditer(data, line, address)]
        if schemes:
            return line if schemes[0] == line else schemes[-1]
    return data.find(b"filedesc://", start)


class ArcFraming(Framing):
    """The framing of ARC records in a file."""

    usual_tail = b"\n"
    hold_bytes = LINE_BYTES_MAX

    def __init__(self) -> None:
        self._format = "arc/1"
        self._in_description = False  # the current record is the file's first

    def parse(self, source: ByteSource, *, found: bool = False) -> Record:
        head = _line(source)
        text = head.decode("utf-8", "surrogateescape").rstrip("\r\n")
        self._in_description = text.startswith("filedesc://")
        if self._in_description:
            return self._file_record(source, head, text)
        values = _values(text, found=found)
        if not values or not _URL.match(values[0]) or _GLUED.match(head):
            raise Unreadable(f"no line of an ARC record: {text[:60]!r}")
        length = _length(values[-1])
        names = NAMES_1 if len(values) == len(NAMES_1) else NAMES_2
        record = self._record(head, length, Headers(list(zip(names, values, strict=True))))
        record.has_http = is_message(_peek(source, len(head), _MESSAGE_LOOK))
        return record

    def _file_record(self, source: ByteSource, head: bytes, text: str) -> Record:
        values = text.split(" ")
        names = NAMES_2 if len(values) == len(NAMES_2) else NAMES_1
        if len(values) != len(names):
            raise Unreadable(f"no first line of an ARC file: {text[:60]!r}")
        length = _length(values[-1])
        version = _peek(source, len(head), 1)
        if version.isdigit():
            self._format = f"arc/{version.decode()}"
        record = self._record(head, length, Headers(list(zip(names, values, strict=True))))
        record.type = "warcinfo"
        return record

    def _record(self, head: bytes, length: int, headers: Headers) -> Record:
        fields = headers.items()
        ip = fields[1][1]
        return Record(
            self._format,
            "response",
            fields[0][1],
            arc_timestamp(fields[2][1]),
            headers,
            head,
            length,
            None,  # type: ignore[arg-type]  # the reader sets it
            0,
            "" if ip == "-" else ip,
        )

    def find(self, data: bytes, start: int) -> int:
        return find_arc(data, start)

    def plausible(self, begin: bytes) -> bool:
        return looks_like_arc(begin)

    def extent(self, begin: bytes) -> int:
        line = begin[: begin.find(b"\n") + 1]
        length = line.split()[-1] if line.strip() else b""
        return len(line) + int(length) if length.isdigit() and len(length) <= _LENGTH_DIGITS_MAX else -1

    def tail(self, rest: bytes) -> tuple[int, str]:
        size = newlines_at(rest)
        if rest[:size] == self.usual_tail or (self._in_description and rest[:size] == b"\n\n"):
            return size, ""  # tools differ whether the description's length counts its blank line
        if size or not rest or _SCHEME.match(rest):
            return size, f"the record ends in {rest[:size]!r} instead of LF"
        raise Unreadable(f"the block is followed by {rest[:8]!r} instead of LF: the length is wrong")

    def usual_start(self, rest: bytes, *, odd: bool) -> bool:
        return not odd and _URL.match(rest[:32].decode("latin-1")) is not None

    def holds_start(self, block: bytes) -> bool:
        return find_arc(block, 0) >= 0

    def faults(self, record: Record) -> list[str]:
        fields = dict(record.headers.items())
        found = []
        if not record.timestamp or len(fields["Archive-date"]) != 14:
            found.append(f"bad Archive-date {fields['Archive-date']!r}")
        if not _ADDRESS.fullmatch(fields["IP-address"]):
            found.append(f"bad IP-address {fields['IP-address']!r}")
        if not _URL.fullmatch(record.url):
            found.append(f"bad URL {record.url!r}")
        if not _MIME.fullmatch(fields["Content-type"]):
            found.append(f"bad Content-type {fields['Content-type']!r}")
        if b"\r" in record.head:
            found.append("the head ends in CR LF instead of LF")
        return found

    def block_faults(self, record: Record, block: BytesBlock, *, doubtful: bool = False) -> None:
        return None


def _line(source: ByteSource) -> bytes:
    """The line at the source's position."""
    size = 1024
    while (end := source.data.find(b"\n", source.pos)) < 0:
        if size > LINE_BYTES_MAX:
            raise Unreadable(f"no line of an ARC record within {LINE_BYTES_MAX} bytes")
        if not source.fill(size):
            if source.data.find(b"\n", source.pos) >= 0:
                continue
            raise Unreadable(source.broken or "the line of a record is cut off by the end of the file")
        size *= 2
    return source.data[source.pos : end + 1]


def _values(text: str, *, found: bool) -> list[str]:
    """The fields of the line of a record; none if it is another line.

    Where a record is due, the date may be anything.
    """
    match = _URL_LINE.fullmatch(text)
    if match is None:
        values = text.rsplit(" ", len(NAMES_1) - 1)
        return values if not found and len(values) == len(NAMES_1) and _ADDRESS.fullmatch(values[1]) else []
    values = [match["url"], match["ip"], match["date"], match["type"]]
    if match["code"] is not None:
        values += [match["code"], match["sum"], match["loc"], match["off"], match["file"]]
    return [*values, match["length"]]


def _peek(source: ByteSource, ahead: int, size: int) -> bytes:
    """The first bytes of the block."""
    source.fill(ahead + size)
    return source.data[source.pos + ahead : source.pos + ahead + size]


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _LENGTH_DIGITS_MAX:
        raise Unreadable(f"bad length {text[:40]!r} of an ARC record")
    return int(text)
