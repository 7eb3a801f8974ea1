"""Rules of WARC (ISO 28500) for the head of a record: required, forbidden and unique fields, and the form of values.

One message per fault; none for fields that WARC does not define. Real files break many rules and are read all the same:
faults are reported, never a reason to refuse.
"""

from __future__ import annotations

import codecs
import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from holdfast.formats.dates import warc_timestamp
from holdfast.formats.http import media_type
from holdfast.formats.record import Record
from holdfast.formats.warc.digests import ALGORITHMS, decode_digest

VERSIONS = ("warc/0.17", "warc/0.18", "warc/1.0", "warc/1.1")  # drafts were in use for years
_ALWAYS = frozenset({"warc-type", "warc-record-id", "warc-date", "content-length"})
_TARGETED = frozenset({"warc-target-uri"})
REQUIRED = {
    "response": _ALWAYS | _TARGETED,
    "resource": _ALWAYS | _TARGETED,
    "request": _ALWAYS | _TARGETED,
    "conversion": _ALWAYS | _TARGETED,
    "revisit": _ALWAYS | _TARGETED | {"warc-profile"},
    "continuation": _ALWAYS | _TARGETED | {"warc-segment-number", "warc-segment-origin-id"},
}
_CAPTURE_ONLY = frozenset({"warc-concurrent-to", "warc-ip-address"})
_CONTINUED_ONLY = frozenset({"warc-segment-origin-id", "warc-segment-total-length"})
_ELSEWHERE = _CONTINUED_ONLY | {"warc-filename", "warc-profile"}
_REFERRING = frozenset({"warc-refers-to"})
FORBIDDEN = {
    "warcinfo": _CONTINUED_ONLY | _CAPTURE_ONLY | _REFERRING | _TARGETED | {"warc-warcinfo-id", "warc-profile"},
    "response": _ELSEWHERE | _REFERRING,
    "resource": _ELSEWHERE | _REFERRING,
    "request": _ELSEWHERE | _REFERRING,
    "metadata": _ELSEWHERE,
    "revisit": _ELSEWHERE - {"warc-profile"},
    "conversion": _ELSEWHERE | _CAPTURE_ONLY,
    "continuation": (_ELSEWHERE - _CONTINUED_ONLY) | _CAPTURE_ONLY | _REFERRING,
}
REPEATABLE = frozenset({"warc-concurrent-to"})
_NO_CONTENT_TYPE = ("continuation",)  # it goes on with the block of another record

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]+")
_LOOSE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>]*")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA = re.compile(rf"{_TOKEN}/{_TOKEN}(?:\s*;\s*{_TOKEN}\s*=\s*(?:{_TOKEN}|\"(?:[^\"\\]|\\.)*\"|[^;\s]+))*\s*;?")
_SHA1 = re.compile(r"sha1:(?:[A-Z2-7]{32}|[0-9a-f]{40})")  # as nearly all are written
_DIGEST = re.compile(rf"{_TOKEN}:[A-Za-z0-9+/_=-]+")
_MESSAGE = re.compile(r"msgtype=\"?([^\";\s]+)", re.IGNORECASE)
_VERSION_LINE = re.compile(rb"WARC/\d+\.\d+\r*\n", re.IGNORECASE)
# What every reader of WARC takes: lines that end in CR LF and are fields. Lines that go on with one are right, but some
# readers of today take them for fields.
WELL_FORMED = re.compile(rb"WARC/1\.[01]\r\n(?:[!#-'*+\-.0-9A-Z^-z|~]+:[^\r\n\0]*\r\n)+\r\n")
_WORD = re.compile(r"=\?([^?\s]+)\?[QB]\?(?:[^?\s]*(\?=))?", re.IGNORECASE)
_FULL_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII | re.IGNORECASE)
_DATE_11 = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z)?)?)?", re.ASCII | re.IGNORECASE)


def head_faults(record: Record) -> list[str]:
    """What is wrong with the head, in words."""
    fields = record.headers.items()
    shape = _shape(record.type, tuple([field for field, _ in fields]))
    faults = list(shape.faults)
    for check, (field, value) in zip(shape.checks, fields, strict=True):
        if check is not None and not (value and check(value)):
            faults.append(f"bad {field} {value[:120]!r}" if value else f"empty {field}")
    if record.content_length and "content-type" not in shape.names and record.type not in _NO_CONTENT_TYPE:
        faults.append("a block without Content-Type")
    if record.format not in VERSIONS:
        faults.append(f"unknown version '{record.format}'")
    return faults + _special_faults(record, shape.names)


class _Shape(NamedTuple):
    """What follows from the names of the fields alone: the records of a file have very few sequences of them."""

    names: frozenset[str]  # in lower case
    checks: tuple[Callable[[str], bool] | None, ...]  # one for each field
    faults: tuple[str, ...]


@lru_cache(maxsize=1024)
def _shape(kind: str, fields: tuple[str, ...]) -> _Shape:
    faults: list[str] = []
    names: set[str] = set()
    for field in fields:
        name = field.lower()
        if name in names and name in _CHECKS and name not in REPEATABLE:
            faults.append(f"more than one {field}")
        names.add(name)
    missing = REQUIRED.get(kind, _ALWAYS) - names
    if missing:
        faults.append(f"a record of type '{kind}' needs {_listed(missing)}")
    forbidden = FORBIDDEN.get(kind)
    if forbidden is None:
        faults.append(f"unknown WARC-Type '{kind[:40]}'")
    elif not forbidden.isdisjoint(names):
        faults.append(f"a record of type '{kind}' must not have {_listed(forbidden & names)}")
    return _Shape(frozenset(names), tuple(_CHECKS.get(field.lower()) for field in fields), tuple(faults))


def _special_faults(record: Record, names: frozenset[str]) -> list[str]:
    """Rules that tie a value to a type or version, and the form of the lines."""
    faults = []
    headers = record.headers
    fields = headers.first()
    date = fields.get("warc-date", "")
    if record.format != "warc/1.1" and date and record.timestamp and not _FULL_DATE.fullmatch(date):
        faults.append(f"bad WARC-Date {date[:40]!r} in {record.format}")
    if record.type == "warcinfo":
        media = fields.get("content-type")
        if media and media_type(media) != "application/warc-fields":
            faults.append("a record of type 'warcinfo' should be of Content-Type 'application/warc-fields'")
    if "warc-segment-number" in names:
        number = fields.get("warc-segment-number", "")
        first = number.isdigit() and int(number) == 1
        if number.isdigit() and first == (record.type == "continuation"):
            faults.append(f"bad WARC-Segment-Number {number[:20]!r} for a record of type '{record.type}'")
    elif record.has_http and record.type in ("request", "response"):
        spoken = _message(fields.get("content-type", ""))
        if spoken and spoken.lower() != record.type:
            faults.append(f"a record of type '{record.type}' has a block of msgtype '{spoken}'")
    head = record.head
    if not head.isascii() and any("\udc80" <= sign <= "\udcff" for _, value in headers for sign in value):
        faults.append("the head is not UTF-8")
    if b"=?" in head and any(_is_odd_word(value) for _, value in headers):
        faults.append("a malformed encoded word (RFC 2047)")
    if not WELL_FORMED.fullmatch(head):
        faults += _line_faults(head)
    if record.has_http and not fields.get("content-type", "application/http").lower().startswith("application/http"):
        faults.append(f"an HTTP message of Content-Type {fields['content-type'][:60]!r}")
    return faults


def _line_faults(head: bytes) -> list[str]:
    """What is wrong with the lines of a head."""
    faults = []
    if head.count(b"\n") != head.count(b"\r\n"):
        faults.append("lines of the head end in LF instead of CR LF")
    if b"\r\r\n" in head:
        faults.append("lines of the head end in CR CR LF instead of CR LF")
    if not _VERSION_LINE.match(head):
        faults.append(f"bad line of the version {head[:20]!r}")
    for line in head.splitlines()[1:]:
        name, colon, _ = line.partition(b":")
        if line.strip() and not line.startswith((b" ", b"\t")) and (not colon or name != name.rstrip()):
            faults.append(f"a line of the head is not a field: {line[:40]!r}")
    return faults


@lru_cache(maxsize=256)
def _message(media: str) -> str:
    """What a Content-Type says of the kind of message."""
    spoken = _MESSAGE.search(media)
    return spoken[1] if spoken else ""


def _is_odd_word(value: str) -> bool:
    """True if the value has a malformed encoded word (RFC 2047), which WARC allows."""
    for word in _WORD.finditer(value):
        try:
            codecs.lookup(word[1])
        except LookupError:
            return True
        if not word[2]:
            return True
    return False


def _listed(names: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(names))


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit()


def _is_segment(value: str) -> bool:
    return _is_number(value) and int(value[:18]) >= 1


def _is_date(value: str) -> bool:
    return _DATE_11.fullmatch(value) is not None and warc_timestamp(value) != ""


def _is_id(value: str) -> bool:
    """A URI between angle brackets."""
    if value[0] != "<" or value[-1] != ">":
        return False
    # Some tools append a number to the UUID, so any URI is accepted.
    return _URI.fullmatch(value[1:-1]) is not None


def _is_target(value: str) -> bool:
    # The grammar of 1.0 puts it between angle brackets, its examples do not; wget follows the grammar.
    if value[0] == "<" and value[-1] == ">":
        value = value[1:-1]
    return _LOOSE_URI.fullmatch(value) is not None


@lru_cache(maxsize=4096)
def is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def is_media(value: str) -> bool:
    return _MEDIA.fullmatch(value) is not None


def _is_digest(value: str) -> bool:
    if _SHA1.fullmatch(value):
        return True
    if value.partition(":")[0].lower() in ALGORITHMS:
        return decode_digest(value) is not None
    return _DIGEST.fullmatch(value) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "warc-type": bool,
    "warc-record-id": _is_id,
    "warc-date": _is_date,
    "content-length": _is_number,
    "content-type": is_media,
    "warc-concurrent-to": _is_id,
    "warc-block-digest": _is_digest,
    "warc-payload-digest": _is_digest,
    "warc-ip-address": is_address,
    "warc-refers-to": _is_id,
    "warc-refers-to-target-uri": _is_target,
    "warc-refers-to-date": _is_date,
    "warc-target-uri": _is_target,
    "warc-truncated": bool,
    "warc-warcinfo-id": _is_id,
    "warc-filename": bool,
    "warc-profile": _is_target,
    "warc-identified-payload-type": is_media,
    "warc-segment-number": _is_segment,
    "warc-segment-origin-id": _is_id,
    "warc-segment-total-length": _is_number,
}
