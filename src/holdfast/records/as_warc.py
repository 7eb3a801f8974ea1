"""Records as WARC, whatever they came as: those that were WARC byte for byte, others as WARC 1.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from holdfast.batches.entry import Entry, runs
from holdfast.env.files import Buffer
from holdfast.formats.compose import ID_BYTES, WarcHead, record_id, record_parts
from holdfast.formats.tianwang import unzipped
from holdfast.records.stored import StoredRecord

CONVERTED_AT_ONCE = 8 << 20  # records of other formats beyond this are not gathered in memory


def is_warc(entry: Entry) -> bool:
    return entry.format.startswith("warc/")


def is_writable(stored: StoredRecord) -> bool:
    """The first record of an ARC file tells of that file only."""
    return is_warc(stored.entry) or stored.entry.type == "response"


def converted(stored: StoredRecord, parts: Sequence[Buffer]) -> list[bytes]:
    """A record of another format as WARC 1.1."""
    whole = b"".join(parts)
    skip = len(stored.head)
    block = whole[skip : skip + stored.block_length]
    if stored.is_zipped:
        block = unzipped(block)
    return record_parts(_head(stored), [block])


def warc_parts(stored: StoredRecord) -> Iterator[bytes]:
    """A record as WARC, whatever it came as, in parts of bounded size."""
    if is_warc(stored.entry):
        return stored.raw()
    if stored.payload_size > CONVERTED_AT_ONCE:
        return converted_large(stored)
    return iter(converted(stored, list(stored.raw())))


def converted_large(stored: StoredRecord) -> Iterator[bytes]:
    yield _head(stored).encode(stored.block_length)
    yield from stored.block()
    yield b"\r\n\r\n"


def _head(stored: StoredRecord) -> WarcHead:
    entry = stored.entry
    identity = sha256(f"{stored.id} {entry.url} {entry.timestamp} {entry.digest}".encode("utf-8", "replace")).digest()
    is_http = stored.http_head is not None
    return WarcHead(
        "response" if is_http else "resource",
        entry.timestamp,
        record_id(identity[:ID_BYTES]),
        url=entry.url,
        ip=entry.ip if entry.ip != "-" else "",
        payload_digest=entry.digest if entry.digest != "-" else "",
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
