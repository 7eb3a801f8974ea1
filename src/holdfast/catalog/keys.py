"""Keys and rows of the catalog's table, as bytes. The boxes are drawn in the package's docstring."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b
from typing import NamedTuple

from holdfast.model import Capture, RecordId
from holdfast.urls import page_id

CAPTURE, DIGEST, SPLIT, RECORD, FINGERPRINT, WHEN, PAGE = b"c", b"d", b"s", b"r", b"k", b"w", b"p"
MODIFIED, PAGE_ID, ORIGIN = b"l", b"i", b"o"
FRAME, BATCH, SOURCE, TOTALS, CHANGES, VERSION = b"f", b"b", b"m", b"t", b"n", b"v"
VERSION_NOW = b"4"
CAPTURES_PER_SPLIT = 1024  # on average: a capture begins a new block of pages if the checksum of its place says so
SERIAL = struct.Struct(">I")
NUMBER = struct.Struct(">Q")
_TOTAL = struct.Struct("<QQQQ")
SERIAL_DIGITS = 10
_DIGEST_BYTES = 1 + 8 + 8 + 14  # of a key below `digest_area`, before the record
NOT_MODIFIED = b"~"  # precedes the time of a capture without a modified date: sorts after all dates


class Total(NamedTuple):
    """Totals of a collection or a batch."""

    captures: int = 0
    payload_bytes: int = 0
    inline: int = 0  # captures that keep their payload in the batch
    inline_bytes: int = 0  # of these payloads

    def plus(self, capture: Capture, step: int) -> Total:
        """The total with the capture added (1) or removed (-1)."""
        inline = step if capture.is_inline else 0
        return Total(
            self.captures + step,
            self.payload_bytes + step * capture.size,
            self.inline + inline,
            self.inline_bytes + inline * capture.size,
        )


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def after(prefix: bytes) -> bytes:
    """The least key above all that begin with `prefix`."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes((short[-1] + 1,))


def place_of(capture: Capture) -> bytes:
    """The place of a capture in its collection: URL key, time, record."""
    return f"{capture.urlkey} {capture.timestamp} {capture.record}".encode("utf-8", "surrogateescape")


def area(kind: bytes, name: str) -> bytes:
    """The prefix of all keys of one collection, digest or batch."""
    return kind + encoded(name) + b"\0"


def record_key(record: RecordId) -> bytes:
    return RECORD + str(record).encode()


def origin_key(origin: RecordId) -> bytes:
    return ORIGIN + str(origin).encode()


def digest_area(digest: str) -> bytes:
    """The prefix of the keys of all captures with a payload of this digest; rarely, of another digest too."""
    return DIGEST + blake2b(encoded(digest), digest_size=8).digest()


def digest_page_area(digest: str, urlkey: str) -> bytes:
    """The same for captures of one page."""
    return digest_area(digest) + blake2b(encoded(urlkey), digest_size=8).digest()


def record_of_digest(key: bytes) -> RecordId:
    """The record that a key below `digest_area` names."""
    return record_of(key[_DIGEST_BYTES:])


def page_id_area(number: int) -> bytes:
    """The prefix of the keys of all captures with a page id."""
    return PAGE_ID + NUMBER.pack(number)


def page_area(page: int) -> bytes:
    """The prefix of the keys of all captures of a page, by its number."""
    return PAGE + NUMBER.pack(page)


def page_number(urlkey: bytes) -> int:
    """The page number: 64 bits that identify a URL key, as in index, links and ranks."""
    return int.from_bytes(blake2b(urlkey, digest_size=8).digest(), "big")


def pairs_of(capture: Capture) -> list[tuple[bytes, bytes]]:
    """The row of a capture, then all its other keys, each with its value."""
    place, collection, timestamp = place_of(capture), encoded(capture.collection), encoded(capture.timestamp)
    home, _, record = place.rpartition(b" ")
    page = blake2b(home[: -len(timestamp) - 1], digest_size=8).digest()
    number = page_id(capture.url.replace("\t", "%09"))  # of the URL as its row has it
    modified = NOT_MODIFIED + timestamp if capture.modified == "-" else capture.modified.encode()
    pairs = [
        (CAPTURE + collection + b"\0" + place, pack_row(capture)),
        (RECORD + record, collection + b"\0" + home),
        (WHEN + timestamp + b" " + record, b""),
        (PAGE + page + record, b""),
        (PAGE_ID + NUMBER.pack(number) + record, b""),
        (MODIFIED + modified + b" " + record, b""),
    ]
    if capture.digest != "-" and capture.type != "revisit":  # revisits have no payload of their own
        pairs.append((digest_area(capture.digest) + page + timestamp + record, collection))
    if zlib.crc32(place) % CAPTURES_PER_SPLIT == 0:
        pairs.append((SPLIT + collection + b"\0" + place, b""))
    return pairs


def record_of(text: bytes) -> RecordId:
    """The reverse of `str(record).encode()`."""
    return RecordId(text[: -SERIAL_DIGITS - 1].decode(), int(text[-SERIAL_DIGITS:]))


def pack_row(capture: Capture) -> bytes:
    _, _, url, mime, status, digest, length, offset, filename, kind, size, contents, _, _, *rest = capture
    fields = (url, mime, status, digest, length, offset, filename, kind, size, contents, *rest)
    row = "\t".join(map(str, fields))
    if row.count("\t") != len(fields) - 1:  # only a broken URL or header has tabs
        row = "\t".join([str(field).replace("\t", "%09") for field in fields])
    return row.encode("utf-8", "surrogateescape")


def unpack_row(collection: str, place: bytes, row: bytes) -> Capture:
    urlkey, timestamp, record = place.decode("utf-8", "surrogateescape").rsplit(" ", 2)
    url, mime, status, digest, length, offset, filename, kind, size, *rest = row.decode(
        "utf-8", "surrogateescape"
    ).split("\t")
    contents, refers_to, extra, modified = rest
    about = urlkey, timestamp, url, mime, status, digest, int(length), int(offset), filename, kind, int(size), contents
    number = RecordId(record[: -SERIAL_DIGITS - 1], int(record[-SERIAL_DIGITS:]))
    return Capture(*about, number, collection, refers_to, extra, modified)


def unpack_home(home: bytes, record: bytes) -> tuple[str, bytes]:
    """Collection and place of a record's capture, from the value of the record's key."""
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
