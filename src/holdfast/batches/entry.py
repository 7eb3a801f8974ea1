"""One record in the journal, in Tianwang form, version 2.1 (I2).

    version: 2.1
    serial: 4711
    type: response
    url: http://www.pku.edu.cn/
    date: Tue, 15 Apr 2003 08:13:06 GMT
    ip: 162.105.129.12
    collection: main
    format: warc/1.1
    status: 200
    mime: text/html
    digest: sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ
    size: 18133
    contentkey: v0:3f0a...
    layout: 612+18133+4
    file: crawl.warc.gz
    place: 81920+7210
    length: 616
                                  a blank line
    WARC/1.1...                   the literal bytes: what stands before, between and after the payload
                                  a line feed ends the record

Attributes without a value are left out. `layout` gives the lengths of literal and payload runs in turn, literal first:
joining them gives the original record (N3). `refers-to` is a revisit's original, `extra` a JSON object.
`origin` is the id that a copy has on the node of a cluster where it was recorded first (I4, H6).
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from holdfast.env.files import Buffer
from holdfast.errors import DamagedBatch, UsageError
from holdfast.formats.dates import MONTHS, mail_date

VERSION = "2.1"
REMOVED = "removed"  # type of a removed record, of which only the serial number stays
SOURCE = "source"  # type of the list of records of a file
REFERENCE = "reference"  # type of a record by reference, in a file elsewhere: its data is a line of CDXJ
FILE_HEAD = "batch"  # type of the first entry of every file
CHECKPOINT = "checkpoint"  # type of a part of the log of a crawl over many nodes
_MONTH_DIGITS = {name: f"{number:02d}" for number, name in enumerate(MONTHS, 1)}
_DATES_KEPT = 4096
_ORDER = (
    *("version", "serial", "type", "url", "date", "ip", "collection", "format", "status", "mime", "digest", "size"),
    *("contentkey", "signature", "layout", "file", "place", "refers-to", "extra", "origin", "length"),
)
# A head as `encode` writes it, parsed by one match: twice as fast as line by line.
_PATTERN = (
    rf"version: {re.escape(VERSION)}\nserial: (?P<serial>\d+)\ntype: (?P<type>[^\n]*)\nurl: (?P<url>[^\n]*)\n"
    r"date: (?P<date>[^\n]{29})\n(?:ip: ([^\n]*)\n)?(?:collection: (?P<collection>[^\n]*)\n)?"
    r"(?:format: (?P<format>[^\n]*)\n)?(?:status: (?P<status>[^\n]*)\n)?(?:mime: (?P<mime>[^\n]*)\n)?"
    r"(?:digest: (?P<digest>[^\n]*)\n)?(?:size: (?P<size>-?\d+)\n)?(?:contentkey: (?P<contents>[^\n]*)\n)?"
    r"(?:signature: (?P<signature>[^\n]*)\n)?(?:layout: (?P<layout>[^\n]*)\n)?"
    r"(?:file: ([^\n]*)\nplace: (\d+)\+(\d+)\n)?(?:refers-to: ([^\n]*)\n)?"
    r"(?:extra: ([^\n]*)\n)?(?:origin: (?P<origin>[^\n]*)\n)?length: (?P<length>\d+)"
)
_HEAD = re.compile(_PATTERN, re.ASCII)
_HEAD_BYTES = re.compile(_PATTERN.encode() + rb"\n\n")
_BEGINNING = f"version: {VERSION}\nserial: ".encode()
Head = re.Match[bytes]


class JournalEntry(NamedTuple):
    """A record as the journal keeps it. An unknown text is `-`."""

    type: str
    url: str
    timestamp: str  # 14 digits, UTC
    data: bytes  # the literals; with a signature, the whole record
    serial: int = 0  # 0: not assigned yet
    ip: str = "-"
    collection: str = "-"
    format: str = "-"
    status: str = "-"
    mime: str = "-"
    digest: str = "-"
    size: int = 0  # of the payload
    contents: str = "-"  # contentkeys, separated by spaces
    signature: str = "-"  # of a payload in `data`, hexadecimal
    layout: str = "-"
    filename: str = "-"  # of the file it came from
    offset: int = 0  # in that file
    length: int = 0  # there
    refers_to: str = "-"
    extra: str = "-"
    origin: str = "-"  # of a copy: the record's id on the node that recorded it

    @property
    def contentkeys(self) -> list[str]:
        """The keys of the contents of its payload, in order; none if it has no content."""
        return [] if self.contents == "-" else self.contents.split(" ")

    @property
    def is_inline(self) -> bool:
        """True if the payload is in `data`."""
        return self.signature != "-"

    @property
    def payload(self) -> bytes:
        """The payload in `data`; empty if it is elsewhere."""
        return inline_payload(self.data, self.layout) if self.is_inline else b""

    @property
    def literals(self) -> bytes:
        """The record without its payload."""
        if not self.is_inline:
            return self.data
        literals = []
        at = 0
        for literal, payload in runs(self.layout):
            literals.append(self.data[at : at + literal])
            at += literal + payload
        return b"".join(literals)


_SERIAL, _CONTENTS = JournalEntry._fields.index("serial"), JournalEntry._fields.index("contents")
_END = "\n"  # which a part of a text in braces may not have


def encode(entry: JournalEntry) -> bytes:
    """The entry as written in a frame."""
    kind, url, timestamp, data, serial, ip, collection, form, status, mime, digest, size = entry[:12]
    contents, signature, layout, filename, offset, length, refers_to, extra, origin = entry[12:]
    about = kind, url, ip, collection, form, status, mime, digest
    if "\n" in "".join((*about, contents, signature, layout, filename, refers_to, extra, origin)):
        raise UsageError(f"an attribute of the record of {url!r} holds a line end")
    head = (
        f"version: {VERSION}\nserial: {serial}\ntype: {kind}\nurl: {url}\ndate: {mail_date(timestamp)}\n"
        f"{f'ip: {ip}{_END}' if ip != '-' else ''}"
        f"{f'collection: {collection}{_END}' if collection != '-' else ''}"
        f"{f'format: {form}{_END}' if form != '-' else ''}"
        f"{f'status: {status}{_END}' if status != '-' else ''}"
        f"{f'mime: {mime}{_END}' if mime != '-' else ''}"
        f"{f'digest: {digest}{_END}' if digest != '-' else ''}"
        f"{f'size: {size}{_END}' if size else ''}"
        f"{f'contentkey: {contents}{_END}' if contents != '-' else ''}"
        f"{f'signature: {signature}{_END}' if signature != '-' else ''}"
        f"{f'layout: {layout}{_END}' if layout != '-' else ''}"
        f"{f'file: {filename}{_END}place: {offset}+{length}{_END}' if filename != '-' else ''}"
        f"{f'refers-to: {refers_to}{_END}' if refers_to != '-' else ''}"
        f"{f'extra: {extra}{_END}' if extra != '-' else ''}"
        f"{f'origin: {origin}{_END}' if origin != '-' else ''}"
        f"length: {len(data)}\n\n"
    )
    return b"%b%b\n" % (head.encode("utf-8", "surrogateescape"), data)


def numbered(entry: JournalEntry, serial: int) -> JournalEntry:
    """The entry under a serial number."""
    return tuple.__new__(JournalEntry, (*entry[:_SERIAL], serial, *entry[_SERIAL + 1 :]))  # a third of `_replace`


def with_contents(entry: JournalEntry, contents: str) -> JournalEntry:
    """The entry with the keys of its contents."""
    return tuple.__new__(JournalEntry, (*entry[:_CONTENTS], contents, *entry[_CONTENTS + 1 :]))


def one_line(text: str) -> str:
    """`text` as the value of an attribute: without line breaks or empty ends, `-` if nothing is left."""
    if "\n" in text or "\r" in text:
        text = " ".join(text.split())
    return text.strip() or "-"


def parse_entries(raw: bytes) -> list[JournalEntry]:
    """All entries of a frame. Raises DamagedBatch if it does not consist of whole entries."""
    entries = []
    at = 0
    while at < len(raw):
        entry, at = parse_entry(raw, at)
        entries.append(entry)
    return entries


def _behind(raw: bytes, at: int) -> int:
    """Where the entry after that at `at` begins. Raises ValueError."""
    head_end = raw.index(b"\n\n", at)
    length = raw.rindex(b"\nlength: ", at, head_end) + 9  # the last line of every head
    return head_end + 3 + int(raw[length:head_end])


class OpenFrame:
    """The content of a frame, for reading single entries. Caches where entries begin, as far as was searched.

    Thread-safe.
    """

    __slots__ = ("_starts", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._starts = [0]

    def entry(self, index: int) -> JournalEntry | None:
        """The entry with this index, without parsing the others; None if there are fewer. Raises DamagedBatch."""
        starts = self._starts
        if index >= len(starts):
            starts = self._look_up_to(index)
        if index >= len(starts) or starts[index] >= len(self.content):
            return None
        return parse_entry(self.content, starts[index])[0]

    def _look_up_to(self, index: int) -> list[int]:
        raw, starts = self.content, list(self._starts)
        at = starts[-1]
        try:
            while len(starts) <= index and at < len(raw):
                at = _behind(raw, at)
                starts.append(at)
        except ValueError:
            raise DamagedBatch(f"an entry at {at} of a frame of {len(raw)} bytes makes no sense") from None
        self._starts = starts
        return starts


def parse_entry(raw: bytes, at: int) -> tuple[JournalEntry, int]:
    """The entry that begins at `at`, and where the next one begins."""
    try:
        head_end = raw.index(b"\n\n", at)
        start = head_end + 2
        head = raw[at:head_end].decode("utf-8", "surrogateescape")
        match = _HEAD.fullmatch(head) or _HEAD.fullmatch(_ordered(head))
        end = start + int(match["length"]) if match else len(raw)
        if match is None or raw[end : end + 1] != b"\n":
            raise ValueError
        return _from_match(match, raw[start:end]), end + 1
    except (ValueError, KeyError, IndexError):
        raise DamagedBatch(f"an entry at {at} of a frame of {len(raw)} bytes makes no sense") from None


def _ordered(head: str) -> str:
    """A head written by another program, with its attributes in our order; unknown ones are left out."""
    fields = dict([line.split(": ", 1) for line in head.split("\n")])
    return "\n".join(f"{name}: {fields[name]}" for name in _ORDER if name in fields)


def _from_match(match: re.Match[str], data: bytes) -> JournalEntry:
    serial, kind, url, date, ip, collection, form, status, mime, digest, size, *rest = match.groups("-")
    contents, signature, layout, filename, offset, length, refers_to, extra, origin, _ = rest
    begin, extent = (int(offset), int(length)) if filename != "-" else (0, 0)
    number, bytes_of = int(serial), int(size) if size != "-" else 0
    about = kind, url, digits(date), data, number, ip, collection, form, status, mime, digest, bytes_of
    place = contents, signature, layout, filename, begin, extent, refers_to, extra, origin
    return tuple.__new__(JournalEntry, about + place)  # half the time of the constructor


def find_heads(raw: bytes, serials: Container[int]) -> list[tuple[int, Head | JournalEntry]]:
    """The heads of a frame's entries that have one of these serials.

    A head knows where each attribute is in the frame; it takes a third of the time of parsing an entry. An entry that
    was not written by `encode` is returned parsed. Raises DamagedBatch.
    """
    found: list[tuple[int, Head | JournalEntry]] = []
    match, end = _HEAD_BYTES.match, len(raw)
    at = expected = 0
    while at < end:
        if expected not in serials and (passed := _passed(raw, at, serials)):  # requests, mostly
            serial, behind = passed
        elif (head := match(raw, at)) is None:
            entry, at = parse_entry(raw, at)
            if entry.serial in serials:
                found.append((entry.serial, entry))
            continue
        else:
            number, length = head.group("serial", "length")
            serial, behind = int(number), head.end() + int(length)
            if serial in serials:
                found.append((serial, head))
        if behind >= end or raw[behind] != 10:  # a line feed ends the record
            raise DamagedBatch(f"an entry at {at} of a frame of {end} bytes makes no sense")
        at, expected = behind + 1, serial + 1
    return found


def _passed(raw: bytes, at: int, serials: Container[int]) -> tuple[int, int] | None:
    """Serial number and end of an entry as `encode` writes it, if it is not wanted; a third of the time of a match."""
    number = at + len(_BEGINNING)
    if raw[at:number] != _BEGINNING:
        return None
    try:
        serial = int(raw[number : raw.index(b"\n", number)])
        return (serial, _behind(raw, at) - 1) if serial not in serials else None
    except ValueError:
        return None


def text_of(head: Head, name: str) -> str:
    """The value of an attribute; `-` if there is none."""
    value = head[name]
    return value.decode("utf-8", "surrogateescape") if value is not None else "-"


def payload_of(head: Head) -> bytes:
    """The payload that the entry keeps."""
    start = head.end()
    return inline_payload(head.string[start : start + int(head["length"])], head["layout"].decode())


@lru_cache(_DATES_KEPT)
def digits(date: str) -> str:
    """The reverse of `mail_date`; raises ValueError or KeyError."""
    if len(date) != 29:
        raise ValueError(f"bad date {date!r}")
    return f"{date[12:16]}{_MONTH_DIGITS[date[8:11]]}{date[5:7]}{date[17:19]}{date[20:22]}{date[23:25]}"


def runs(layout: str) -> list[tuple[int, int]]:
    """The pairs (literal, payload) of a layout; a literal that ends the record has a payload of 0."""
    lengths = [int(length) for length in layout.split("+")]
    if len(lengths) % 2:
        lengths.append(0)
    return list(pairwise(lengths))[::2]


def lay(literals: bytes, layout: str, payload: Buffer) -> list[Buffer]:
    """The record: literals and payload joined as the layout says."""
    if layout == "-" or "+" not in layout:
        return [literals]
    lengths = layout.split("+")
    if len(lengths) == 3:  # the usual case
        first = int(lengths[0])
        return [literals[:first], payload, literals[first:]]
    parts: list[Buffer] = []
    at = taken = 0
    for literal, length in runs(layout):
        parts.append(literals[at : at + literal])
        parts.append(payload[taken : taken + length])
        at += literal
        taken += length
    return parts


def with_payload(entry: JournalEntry, payload: bytes, signature: bytes) -> JournalEntry:
    """The entry of a record that keeps its payload."""
    return entry._replace(data=b"".join(lay(entry.data, entry.layout, payload)), signature=signature.hex())


def inline_payload(data: bytes, layout: str) -> bytes:
    """The payload of a record that is whole."""
    payloads = []
    at = 0
    for literal, payload in runs(layout):
        at += literal
        payloads.append(data[at : at + payload])
        at += payload
    return b"".join(payloads)
