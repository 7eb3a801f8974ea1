"""One record in the journal, in Tianwang form, version 2.0 (I2).

    version: 2.0
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
laying them side by side gives the record as it was (N3). `refers-to` is a revisit's original, `extra` a JSON object.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from holdfast.errors import DamagedBatch, UsageError
from holdfast.formats.dates import MONTHS, mail_date

VERSION = "2.0"
REMOVED = "removed"  # type of what is left of a record that was taken away: its serial number
SOURCE = "source"  # type of the list of records that a file consisted of
REFERENCE = "reference"  # type of a record that lies in a file elsewhere: its data is a line of CDXJ
FILE_HEAD = "batch"  # type of the first entry of every file
_MONTH_DIGITS = {name: f"{number:02d}" for number, name in enumerate(MONTHS, 1)}
_DATES_KEPT = 4096
# A head as `encode` writes it: taken apart in one go, in half the time of looking at its lines one by one.
_HEAD = re.compile(
    rf"version: {re.escape(VERSION)}\nserial: (\d+)\ntype: ([^\n]*)\nurl: ([^\n]*)\ndate: ([^\n]{{29}})\n"
    r"(?:ip: ([^\n]*)\n)?(?:collection: ([^\n]*)\n)?(?:format: ([^\n]*)\n)?(?:status: ([^\n]*)\n)?"
    r"(?:mime: ([^\n]*)\n)?(?:digest: ([^\n]*)\n)?(?:size: (\d+)\n)?(?:contentkey: ([^\n]*)\n)?"
    r"(?:layout: ([^\n]*)\n)?(?:file: ([^\n]*)\nplace: (\d+)\+(\d+)\n)?(?:refers-to: ([^\n]*)\n)?"
    r"(?:extra: ([^\n]*)\n)?length: (\d+)",
    re.ASCII,
)


class JournalEntry(NamedTuple):
    """A record as the journal keeps it. Texts are `-` where there is nothing to say."""

    type: str
    url: str
    timestamp: str  # 14 digits, UTC
    data: bytes  # literals, one after the other
    serial: int = 0  # 0: not given yet
    ip: str = "-"
    collection: str = "-"
    format: str = "-"
    status: str = "-"
    mime: str = "-"
    digest: str = "-"
    size: int = 0  # of the payload
    contents: str = "-"  # contentkeys, parted by spaces
    layout: str = "-"
    filename: str = "-"  # of the file it came from
    offset: int = 0  # in that file
    length: int = 0  # there
    refers_to: str = "-"
    extra: str = "-"

    @property
    def contentkeys(self) -> list[str]:
        """The keys of the contents that its payload consists of, in their order; none if it has no content."""
        return [] if self.contents == "-" else self.contents.split(" ")


def encode(entry: JournalEntry) -> bytes:
    """The entry as it stands in a frame."""
    lines = [
        f"version: {VERSION}\nserial: {entry.serial}\ntype: {entry.type}\nurl: {entry.url}\n"
        f"date: {mail_date(entry.timestamp)}\n"
    ]
    attributes = (
        ("ip", entry.ip),
        ("collection", entry.collection),
        ("format", entry.format),
        ("status", entry.status),
        ("mime", entry.mime),
        ("digest", entry.digest),
    )
    lines += [f"{name}: {value}\n" for name, value in attributes if value != "-"]
    if entry.size:
        lines.append(f"size: {entry.size}\n")
    if entry.contents != "-":
        lines.append(f"contentkey: {entry.contents}\n")
    if entry.layout != "-":
        lines.append(f"layout: {entry.layout}\n")
    if entry.filename != "-":
        lines.append(f"file: {entry.filename}\nplace: {entry.offset}+{entry.length}\n")
    if entry.refers_to != "-":
        lines.append(f"refers-to: {entry.refers_to}\n")
    if entry.extra != "-":
        lines.append(f"extra: {entry.extra}\n")
    lines.append(f"length: {len(entry.data)}\n\n")
    head = "".join(lines)
    if head.count("\n") != len(lines) + 5 + (entry.filename != "-"):  # the first part has five lines, the last two
        raise UsageError(f"an attribute of the record of {entry.url!r} holds a line end")
    return head.encode("utf-8", "surrogateescape") + entry.data + b"\n"


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
    """The content of a frame, of which single entries are read: where they begin is noted as far as it was looked for.

    Any thread may call; those who look at the same time find the same.
    """

    __slots__ = ("_starts", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._starts = [0]

    def entry(self, index: int) -> JournalEntry | None:
        """The entry of that number, the others passed over; None if there are fewer. Raises DamagedBatch."""
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
        if (match := _HEAD.fullmatch(head)) is not None:
            end = start + int(match[19])
            if raw[end : end + 1] != b"\n":
                raise ValueError
            return _from_match(match, raw[start:end]), end + 1
        lines = head.split("\n")
        fields = dict([line.split(": ", 1) for line in lines])
        end = start + int(fields["length"])
        if lines[0] != f"version: {VERSION}" or raw[end : end + 1] != b"\n":
            raise ValueError
        return _from_fields(fields, raw[start:end]), end + 1
    except (ValueError, KeyError, IndexError):
        raise DamagedBatch(f"an entry at {at} of a frame of {len(raw)} bytes makes no sense") from None


def _from_match(match: re.Match[str], data: bytes) -> JournalEntry:
    (
        serial,
        kind,
        url,
        date,
        ip,
        collection,
        form,
        status,
        mime,
        digest,
        size,
        contents,
        layout,
        filename,
        offset,
        length,
        refers_to,
        extra,
        _,
    ) = match.groups("-")
    return JournalEntry(
        kind,
        url,
        digits(date),
        data,
        int(serial),
        ip,
        collection,
        form,
        status,
        mime,
        digest,
        int(size) if size != "-" else 0,
        contents,
        layout,
        filename,
        int(offset) if offset != "-" else 0,
        int(length) if length != "-" else 0,
        refers_to,
        extra,
    )


def _from_fields(fields: dict[str, str], data: bytes) -> JournalEntry:
    get = fields.get
    offset, _, length = get("place", "0+0").partition("+")
    return JournalEntry(
        type=fields["type"],
        url=fields["url"],
        timestamp=digits(fields["date"]),
        data=data,
        serial=int(fields["serial"]),
        ip=get("ip", "-"),
        collection=get("collection", "-"),
        format=get("format", "-"),
        status=get("status", "-"),
        mime=get("mime", "-"),
        digest=get("digest", "-"),
        size=int(get("size", "0")),
        contents=get("contentkey", "-"),
        layout=get("layout", "-"),
        filename=get("file", "-"),
        offset=int(offset),
        length=int(length),
        refers_to=get("refers-to", "-"),
        extra=get("extra", "-"),
    )


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
