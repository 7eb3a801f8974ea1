"""Keys and rows of the catalog's table, as bytes. The boxes are drawn in the package's docstring."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from holdfast.model import Capture, RecordId
from holdfast.urls import page_id

CAPTURE, DIGEST, SPLIT, RECORD, FINGERPRINT, WHEN, PAGE = b"c", b"d", b"s", b"r", b"k", b"w", b"p"
MODIFIED, PAGE_ID = b"l", b"i"
FRAME, BATCH, SOURCE, TOTALS, CHANGES, VERSION = b"f", b"b", b"m", b"t", b"n", b"v"
VERSION_NOW = b"3"
CAPTURES_PER_SPLIT = 1024  # on average: a capture begins a new block of pages if the checksum of its place says so
SERIAL = struct.Struct(">I")
NUMBER = struct.Struct(">Q")
_TOTAL = struct.Struct("<QQ")
SERIAL_DIGITS = 10
_ROW_TABS = 12
NOT_MODIFIED = b"~"  # stands before the time of a capture whose modified date is not known: behind all that are


class Total(NamedTuple):
    """How much a collection or a batch holds."""

    captures: int = 0
    payload_bytes: int = 0


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def after(prefix: bytes) -> bytes:
    """The least key beyond all that begin with `prefix`."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes((short[-1] + 1,))


def place_of(capture: Capture) -> bytes:
    """Where a capture stands in its collection: by URL key, then time, then record."""
    return f"{capture.urlkey} {capture.timestamp} {capture.record}".encode("utf-8", "surrogateescape")


def area(kind: bytes, name: str) -> bytes:
    """What all keys of one collection, digest or batch begin with."""
    return kind + encoded(name) + b"\0"


def begins_split(place: bytes) -> bool:
    return zlib.crc32(place) % CAPTURES_PER_SPLIT == 0


def digest_key(capture: Capture, place: bytes) -> bytes | None:
    """Under which the capture is found by its payload; none for those that have not got it themselves."""
    if capture.digest == "-" or capture.type == "revisit":
        return None
    return area(DIGEST, capture.digest) + place


def record_key(record: RecordId) -> bytes:
    return RECORD + str(record).encode()


def when_key(timestamp: str, record: RecordId) -> bytes:
    """Under which a capture is found by its time."""
    return WHEN + f"{timestamp} {record}".encode()


def modified_key(capture: Capture, record: bytes) -> bytes:
    """Under which a capture is found by its modified date; where that is not known, by its time, behind all others."""
    if capture.modified == "-":
        return MODIFIED + NOT_MODIFIED + capture.timestamp.encode() + b" " + record
    return MODIFIED + capture.modified.encode() + b" " + record


def page_id_area(number: int) -> bytes:
    """What the keys of all captures with a page id begin with."""
    return PAGE_ID + NUMBER.pack(number)


def page_id_key(capture: Capture, record: bytes) -> bytes:
    """Under which a capture is found by WebBase's page id of its URL (B3)."""
    return PAGE_ID + NUMBER.pack(page_id(capture.url.replace("\t", "%09"))) + record  # as its row has it


def page_area(page: int) -> bytes:
    """What the keys of all captures of a page begin with, given its number."""
    return PAGE + NUMBER.pack(page)


def page_key(urlkey: bytes, record: bytes) -> bytes:
    """Under which a capture is found by the number of its page."""
    return PAGE + blake2b(urlkey, digest_size=8).digest() + record


def page_number(urlkey: bytes) -> int:
    """64 bits that name a URL key, as in index, links and ranks."""
    return int.from_bytes(blake2b(urlkey, digest_size=8).digest(), "big")


def secondary_keys(capture: Capture) -> Iterator[tuple[bytes, bytes]]:
    """Every key under which a capture is found besides that of its row, with its value."""
    place, record = place_of(capture), str(capture.record).encode()
    yield RECORD + record, pack_home(capture.collection, place)
    yield when_key(capture.timestamp, capture.record), b""
    yield page_key(encoded(capture.urlkey), record), b""
    yield page_id_key(capture, record), b""
    yield modified_key(capture, record), b""
    if key := digest_key(capture, place):
        yield key, encoded(capture.collection)
    if begins_split(place):
        yield area(SPLIT, capture.collection) + place, b""


def record_of(text: bytes) -> RecordId:
    """The reverse of `str(record).encode()`."""
    return RecordId(text[: -SERIAL_DIGITS - 1].decode(), int(text[-SERIAL_DIGITS:]))


def pack_row(capture: Capture) -> bytes:
    """All fields of a capture that are not in its key."""
    _, _, url, mime, status, digest, length, offset, filename, kind, size, contents, _, _, *rest = capture
    refers_to, extra, modified = rest
    row = (
        f"{url}\t{mime}\t{status}\t{digest}\t{length}\t{offset}\t{filename}\t{kind}\t{size}\t{contents}\t{refers_to}\t"
        f"{extra}\t{modified}"
    )
    if row.count("\t") != _ROW_TABS:  # only a broken URL or header has tabs
        texts = (url, mime, status, digest, str(length), str(offset), filename, kind, str(size), contents, refers_to)
        row = "\t".join([text.replace("\t", "%09") for text in (*texts, str(extra), str(modified))])
    return row.encode("utf-8", "surrogateescape")


def unpack_row(collection: str, place: bytes, row: bytes) -> Capture:
    urlkey, timestamp, record = place.decode("utf-8", "surrogateescape").rsplit(" ", 2)
    url, mime, status, digest, length, offset, filename, kind, size, contents, *rest = row.decode(
        "utf-8", "surrogateescape"
    ).split("\t")
    refers_to, extra, modified = rest
    return Capture(
        urlkey,
        timestamp,
        url,
        mime,
        status,
        digest,
        int(length),
        int(offset),
        filename,
        kind,
        int(size),
        contents,
        RecordId(record[: -SERIAL_DIGITS - 1], int(record[-SERIAL_DIGITS:])),
        collection,
        refers_to,
        extra,
        modified,
    )


def pack_home(collection: str, place: bytes) -> bytes:
    """What a record's key leads to: its capture's collection and place, without the record itself."""
    return encoded(collection) + b"\0" + place.rpartition(b" ")[0]


def unpack_home(home: bytes, record: bytes) -> tuple[str, bytes]:
    collection, _, place = home.partition(b"\0")
    return collection.decode(), place + b" " + record


def total_key(kind: bytes, name: str) -> bytes:
    """`kind` is CAPTURE for a collection, BATCH for a batch."""
    return TOTALS + kind + encoded(name)


def pack_total(total: Total) -> bytes:
    return _TOTAL.pack(*total)


def unpack_total(packed: bytes) -> Total:
    return Total(*_TOTAL.unpack(packed))


def source_key(filename: str, record: RecordId) -> bytes:
    return area(SOURCE, filename) + str(record).encode()


def frame_key(batch: str, first_serial: int) -> bytes:
    return area(FRAME, batch) + SERIAL.pack(first_serial)
