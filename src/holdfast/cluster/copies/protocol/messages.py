"""The messages of the node protocol, on the frames of the volume server. All numbers are big-endian.

    frame     u32 length of the rest | u8 type | u32 request number | body
    body      u32 length of the head | head: a JSON object | raw bytes
    rows      for each record: u32 serial | u16 partition | 16 bytes of fingerprint
    entries   a zstd frame of journal entries (`batches.entry`); `serial` is that of the origin batch
    block     u8 length of codec | u32 dictionary | u64 size | u32 length of data | codec | data; size 2^64 - 1: none

`DONE` ends a request, `FAILED` has name and message of an error. Whatever is wrong with a message is MalformedInput.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

import zstandard

from holdfast.batches.entry import JournalEntry, encode, parse_entries
from holdfast.batches.frame import decompress, frame_compressor
from holdfast.env.files import Buffer
from holdfast.errors import Damaged, MalformedInput
from holdfast.storage.server.wire import WireReader, pack_encoded, read_encoded
from holdfast.storage.volume import Encoded

REQUEST_BYTES_MAX: Final = 1 << 20
RESPONSE_BYTES_MAX: Final = 128 << 20  # a block is at most a piece of a record
ENTRY_BYTES_MAX: Final = 96 << 20  # of entries in one response, decompressed
PAGE_BYTES: Final = 4 << 20  # a response is not continued beyond
PAGE_ENTRIES: Final = 1000
BUCKETS_MAX: Final = 64  # of which one request lists the records
SERIALS_MAX: Final = 4096  # that one request names
_LENGTH = struct.Struct(">I")
_ROW = struct.Struct(">IH16s")
_HELD = struct.Struct(">I16s")
_MISSING: Final = (1 << 64) - 1


class NodeMessage(IntEnum):
    """What a frame is."""

    HELLO = 1
    RECORDS = 2
    LIST = 3
    ENTRIES = 4
    BLOCKS = 5
    DICTIONARY = 6
    DIGESTS = 7
    HAVE = 8
    STATUS = 9
    DONE = 129
    FAILED = 130


class ListedRecord(NamedTuple):
    """A record of an origin batch."""

    serial: int
    partition: int
    fingerprint: bytes


def pack_body(head: dict[str, Any], *raw: Buffer) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *raw))


def unpack_body(body: Buffer) -> tuple[dict[str, Any], bytes]:
    reader = WireReader(body)
    try:
        head = json.loads(reader.take(reader.u32()))
    except (ValueError, RecursionError):
        raise MalformedInput("the head of a message is not JSON") from None
    if not isinstance(head, dict):
        raise MalformedInput("the head of a message is not an object")
    return head, reader.rest()


def number(head: dict[str, Any], name: str, most: int = (1 << 32) - 1) -> int:
    """An integer of a message's head, from 0 on."""
    value = head.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise MalformedInput(f"{name!r} of a message is {value!r}, not a number up to {most}")
    return value


def text(head: dict[str, Any], name: str) -> str:
    """A text of a message's head."""
    value = head.get(name)
    if not isinstance(value, str) or len(value) > 1000:
        raise MalformedInput(f"{name!r} of a message is not a short text")
    return value


def numbers(head: dict[str, Any], name: str, most: int) -> list[int]:
    """A list of integers of a message's head, at most so many."""
    values = head.get(name)
    if not isinstance(values, list) or len(values) > most:
        raise MalformedInput(f"{name!r} of a message is not a list of up to {most}")
    return [number({name: value}, name) for value in values]


def hexadecimal(head: dict[str, Any], name: str) -> bytes:
    """Bytes of a message's head."""
    value = head.get(name)
    try:
        return bytes.fromhex(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise MalformedInput(f"{name!r} of a message is not hexadecimal") from None


# -- rows, entries and blocks -----------------------------------------------------------------------------------------


def pack_rows(rows: Iterable[ListedRecord]) -> bytes:
    return b"".join([_ROW.pack(*row) for row in rows])


def unpack_rows(raw: bytes) -> list[ListedRecord]:
    if len(raw) % _ROW.size:
        raise MalformedInput("a list of records ends too early")
    return [ListedRecord(*row) for row in _ROW.iter_unpack(raw)]


def pack_held(rows: Iterable[tuple[int, bytes]]) -> bytes:
    """Serial numbers and fingerprints."""
    return b"".join([_HELD.pack(*row) for row in rows])


def unpack_held(raw: bytes) -> list[tuple[int, bytes]]:
    if len(raw) % _HELD.size or len(raw) > SERIALS_MAX * _HELD.size:
        raise MalformedInput("a list of fingerprints ends too early, or is too long")
    return list(_HELD.iter_unpack(raw))


def pack_entries(entries: Sequence[JournalEntry]) -> bytes:
    return frame_compressor().compress(b"".join(map(encode, entries))) if entries else b""


def unpack_entries(raw: bytes) -> list[JournalEntry]:
    if not raw:
        return []
    try:
        if zstandard.frame_content_size(raw) not in range(ENTRY_BYTES_MAX):
            raise MalformedInput(f"entries of more than {ENTRY_BYTES_MAX} bytes")
        return parse_entries(decompress(raw))
    except (Damaged, zstandard.ZstdError) as error:
        raise MalformedInput(f"entries that make no sense: {error}") from None


def pack_blocks(blocks: Iterable[Encoded | None]) -> list[Buffer]:
    parts: list[Buffer] = []
    for each in blocks:
        parts += pack_encoded(each if each is not None else Encoded("", 0, _MISSING, b""))
    return parts


def unpack_blocks(raw: bytes, count: int) -> list[Encoded | None]:
    reader = WireReader(raw)
    blocks = [read_encoded(reader) for _ in range(count)]
    reader.end()
    return [each if each.size != _MISSING else None for each in blocks]
