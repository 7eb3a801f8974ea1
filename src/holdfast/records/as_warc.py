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
from collections.abc import Iterator, Sequence
from hashlib import sha256

from holdfast.batches.entry import JournalEntry, runs
from holdfast.env.files import Buffer
from holdfast.formats.dates import warc_timestamp
from holdfast.formats.tianwang import unzipped
from holdfast.formats.warc.compose import ID_BYTES, RECORD_END, WarcHead, record_id, record_parts, warc_date, warc_head
from holdfast.formats.warc.rules import REQUIRED, WELL_FORMED
from holdfast.records.stored_record import StoredRecord, block_length, head_length

GATHERED_BYTES_MAX = 8 << 20  # records that are not written as they came are not gathered in memory beyond this
_MARKS = ('"block": ', '"dateFrom": ')  # in `extra`: what calls for another head
_NEEDED = (b"\r\nwarc-type:", b"\r\nwarc-record-id:", b"\r\nwarc-date:", b"\r\ncontent-length:")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*[0-9]+[ \t]*\r\n")
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


def is_warc(entry: JournalEntry) -> bool:
    return entry.format.startswith("warc/")


def is_writable(stored: StoredRecord) -> bool:
    """The first record of an ARC file tells of that file only."""
    return is_warc(stored.entry) or stored.entry.type == "response"


def is_well_formed(entry: JournalEntry) -> bool:
    """Whether a record can be written as it came: a WARC record with a head and an end as they should be."""
    if not is_warc(entry) or not entry.data.endswith(RECORD_END):
        return False
    head = entry.data[: head_length(entry.format, entry.data)]
    size = sum(map(int, entry.layout.split("+"))) - len(head) - len(RECORD_END)
    return _has_good_head(entry, head) and block_length(entry.format, head) == size


def _has_good_head(entry: JournalEntry, head: bytes) -> bool:
    if entry.extra != "-" and any(mark in entry.extra for mark in _MARKS):
        return False
    named = head.lower()
    if WELL_FORMED.fullmatch(head) is None or _LENGTH.search(named) is None:
        return False
    needed = (*_NEEDED, _TARGET) if entry.type in REQUIRED else _NEEDED
    return all(named.count(name) == 1 for name in needed)


def as_warc(stored: StoredRecord, parts: Sequence[Buffer]) -> list[Buffer]:
    """A record given in parts as they came, in parts as WARC has them."""
    entry = stored.entry
    if is_well_formed(entry):
        return list(parts)
    skip = len(stored.head)
    block = b"".join(parts)[skip : skip + stored.block_length]
    if is_warc(entry):
        return [_warc_head(stored), block, RECORD_END]
    return [*record_parts(_head(stored), [unzipped(block) if stored.is_zipped else block])]


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
    if _has_good_head(entry, stored.head):
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
        target = identity.strip("<>")  # nobody knows the address: the record stands for itself
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


def lay(literals: bytes, layout: str, payload: Buffer) -> list[Buffer]:
    """Literals and payload side by side, as the layout says."""
    if layout == "-" or "+" not in layout:
        return [literals]
    lengths = layout.split("+")
    if len(lengths) == 3:  # nearly always
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
