"""Records as WARC that every reader takes, whatever they came as.

A WARC record whose head and end are well formed stays as it came, byte for byte. One whose head is not (line ends other
than CR LF, lines that are no fields or go on with another, a required field that stands twice, a wrong Content-Length,
a date that cannot be read, no URL where one is needed), or that does not end in CR LF CR LF, gets a new head with the
same fields, corrected; one without a URL has its own id as its URL. If a part of a record is missing, WARC-Truncated
says so, and its digests are left out: they are those of the whole. Records of other formats become WARC 1.1.
`StoredRecord.raw` and `export --exact` give the bytes that came in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256

from holdfast.batches.entry import JournalEntry
from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.formats.dates import warc_timestamp
from holdfast.formats.tianwang import unzipped
from holdfast.formats.warc.compose import (
    ID_BYTES,
    RECORD_END,
    Version,
    WarcHead,
    older_head,
    record_id,
    record_parts,
    warc_date,
    warc_head,
    warcinfo_parts,
)
from holdfast.formats.warc.rules import REQUIRED, WELL_FORMED
from holdfast.records.stored_record import StoredRecord

GATHERED_BYTES_MAX = 8 << 20  # records that are not written as they came are not gathered in memory beyond this
_MARKS = ('"block": ', '"dateFrom": ')  # in `extra`: what calls for another head
_NEEDED = (b"\r\nwarc-type:", b"\r\nwarc-record-id:", b"\r\nwarc-date:", b"\r\ncontent-length:")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n")
_LENGTH_NAME = b"content-length"
_TARGET = b"\r\nwarc-target-uri:"
_NAMES = (
    "WARC-Type",
    "WARC-Record-ID",
    "WARC-Target-URI",
    "WARC-Date",
    "WARC-Truncated",
    "Content-Length",
)  # corrected
_CORRECTED = frozenset(name.lower() for name in _NAMES)
_DIGESTS = ("warc-block-digest", "warc-payload-digest")
_NOT_IN_NAME = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_NOT_IN_VALUE = re.compile(r"[\x00\r\n]")


WARCINFO = (("software", "Holdfast"),)


def warcinfo(env: Environment, filename: str = "", version: Version = "1.1") -> list[bytes]:
    """The record that begins a WARC file of ours, in parts."""
    now = datetime.fromtimestamp(env.clock(), UTC).strftime("%Y%m%d%H%M%S")
    head = WarcHead("warcinfo", now, record_id(env.random_bytes(ID_BYTES)), filename=filename)
    return warcinfo_parts(head, WARCINFO, version)


def is_warc(entry: JournalEntry) -> bool:
    return entry.format.startswith("warc/")


def is_writable(stored: StoredRecord) -> bool:
    """False for the first record of an ARC file, which describes only that file."""
    return is_warc(stored.entry) or stored.entry.type == "response"


def is_well_formed(entry: JournalEntry) -> bool:
    """True if a record can be written as it came: a WARC record whose head and end are as they should be."""
    data = entry.data
    if not is_warc(entry) or not data.endswith(RECORD_END) or _is_marked(entry):
        return False
    shapes = _SHAPES.setdefault(entry.type, [])
    for shape in shapes:
        head = shape.match(data)
        if head is not None:
            break
    else:
        head = _learned(entry, shapes)
        if head is None:
            return False
    return sum(map(int, entry.layout.split("+"))) - head.end() - len(RECORD_END) == int(head[1])


# Records differ in their values, seldom in the names and the order of their fields: a pattern of each such shape of a
# sound head recognizes the next one in a sixth of the time. Any thread may add one.
_SHAPES: dict[str, list[re.Pattern[bytes]]] = {}  # by type of record
_SHAPES_MAX = 16


def _learned(entry: JournalEntry, shapes: list[re.Pattern[bytes]]) -> re.Match[bytes] | None:
    """The head, if it is sound, by the pattern of its shape, which is kept while there is room."""
    head = WELL_FORMED.match(entry.data)
    if head is None or _good_length(entry, head[0]) < 0:
        return None
    first, *lines = head[0][:-4].split(b"\r\n")
    names = [line.partition(b":")[0] for line in lines]
    values = [rb"[ \t]*([0-9]+)[ \t]*" if name.lower() == _LENGTH_NAME else rb"[^\r\n\0]*" for name in names]
    fields = [re.escape(name) + b":" + value for name, value in zip(names, values, strict=True)]
    shape = re.compile(b"\r\n".join([re.escape(first), *fields, b"", b""]))
    if len(shapes) < _SHAPES_MAX:
        shapes.append(shape)
    return shape.match(entry.data)


def _is_marked(entry: JournalEntry) -> bool:
    """Whether its head must be corrected, whatever its form."""
    return entry.extra != "-" and any(mark in entry.extra for mark in _MARKS)


def _good_length(entry: JournalEntry, head: bytes) -> int:
    """The Content-Length of a well-formed head that has what it needs, once; -1 if the head must be corrected."""
    if _is_marked(entry):
        return -1
    named = head.lower()
    needed = (*_NEEDED, _TARGET) if entry.type in REQUIRED else _NEEDED
    for name in needed:
        if named.count(name) != 1:
            return -1
    length = _LENGTH.search(named)
    return int(length[1]) if length is not None else -1


def as_warc(stored: StoredRecord, parts: Sequence[Buffer]) -> Sequence[Buffer]:
    """The parts of a record as WARC, from its parts as they came in."""
    entry = stored.entry
    if is_well_formed(entry):
        return parts
    skip = len(stored.head)
    block = b"".join(parts)[skip : skip + stored.block_length]
    if is_warc(entry):
        return [_warc_head(stored), block, RECORD_END]
    return [*record_parts(_head(stored), [unzipped(block) if stored.is_zipped else block])]


def as_older_warc(parts: Iterable[Buffer]) -> Iterator[Buffer]:
    """The parts of a WARC record, the first of which has the whole head, as WARC 1.0."""
    others = iter(parts)
    head, end, block = bytes(next(others)).partition(RECORD_END)
    yield older_head(head + end) + block
    yield from others


def warc_parts(stored: StoredRecord) -> Iterator[bytes]:
    """A record as WARC, in parts of bounded size."""
    if is_well_formed(stored.entry):
        return stored.raw()
    if stored.payload_size > GATHERED_BYTES_MAX or is_warc(stored.entry):
        return _streamed(stored)
    return map(bytes, as_warc(stored, list(stored.raw())))


def _streamed(stored: StoredRecord) -> Iterator[bytes]:
    yield _warc_head(stored) if is_warc(stored.entry) else _head(stored).encode(stored.block_length)
    yield from stored.block()
    yield RECORD_END


def _warc_head(stored: StoredRecord) -> bytes:
    """The head of a WARC record: as it came, or with the same fields, corrected."""
    entry = stored.entry
    if WELL_FORMED.fullmatch(stored.head) and _good_length(entry, stored.head) >= 0:
        return stored.head
    fields = stored.headers
    index = fields.first()
    version = "1.0" if entry.format < "warc/1.1" else "1.1"
    marks = {} if entry.extra == "-" else json.loads(entry.extra)
    date = index.get("warc-date", "")
    identity = index.get("warc-record-id", "")
    if not identity or _NOT_IN_VALUE.search(identity):
        identity = _made_id(stored)
    target = index.get("warc-target-uri", "")
    if not target and entry.type in REQUIRED:
        target = identity.strip("<>")  # the URL is lost: the record names itself
    values = (
        _NOT_IN_VALUE.sub(" ", index.get("warc-type", "")) or entry.type,
        identity,
        _NOT_IN_VALUE.sub(" ", target),
        date if warc_timestamp(date) else warc_date(entry.timestamp),
        _NOT_IN_VALUE.sub(" ", index.get("warc-truncated") or marks.get("truncated", "")),
        str(stored.block_length),
    )
    corrected = {name.lower(): (name, value) for name, value in zip(_NAMES, values, strict=True)}
    left_out = _DIGESTS if "truncated" in marks and "block" in marks else ()
    lines = []
    for name, value in fields:
        if name.lower() in _CORRECTED:
            lines += [corrected.pop(name.lower())] if name.lower() in corrected else []
        elif name.lower() not in left_out and name:
            lines.append((_NOT_IN_NAME.sub("-", name), _NOT_IN_VALUE.sub(" ", value)))
    return warc_head([pair for pair in (*lines, *corrected.values()) if pair[1]], version)


def _made_id(stored: StoredRecord) -> str:
    """An id for a record that has none: the same each time."""
    entry = stored.entry
    identity = sha256(f"{stored.id} {entry.url} {entry.timestamp} {entry.digest}".encode("utf-8", "replace")).digest()
    return record_id(identity[:ID_BYTES])


def _head(stored: StoredRecord) -> WarcHead:
    """The head of a record of another format."""
    entry = stored.entry
    is_http = stored.http_head is not None
    marks = {} if entry.extra == "-" else json.loads(entry.extra)
    return WarcHead(
        "response" if is_http else "resource",
        entry.timestamp,
        _made_id(stored),
        url=_NOT_IN_VALUE.sub(" ", entry.url),
        ip=_NOT_IN_VALUE.sub(" ", entry.ip) if entry.ip != "-" else "",
        payload_digest=entry.digest if entry.digest != "-" else "",
        truncated=marks.get("truncated", ""),
        content_type="" if is_http else (entry.mime if entry.mime != "-" else "application/octet-stream"),
    )
