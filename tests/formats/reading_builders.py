"""Files to be read: whole ones in every format and coding, and the harm that may come to them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding, FindingKind, Record

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "warc"

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not on this machine")


def digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def warc_record(block: bytes, *fields: str, number: int = 1, kind: str = "response") -> bytes:
    head = [
        "WARC/1.1",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-{number:012d}>",
        "WARC-Date: 2020-01-02T03:04:05Z",
        f"WARC-Target-URI: http://example.com/{number}",
        "Content-Type: application/http; msgtype=response",
        *fields,
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join(head).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + block + b"\r\n\r\n"


def page(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body


def warc(number: int, body: bytes) -> bytes:
    return warc_record(page(body), number=number)


def arc(number: int, body: bytes) -> bytes:
    block = page(body)
    return b"http://example.com/%d 192.0.2.1 20200102030405 text/html %d\n" % (number, len(block)) + block + b"\n"


def tianwang(number: int, body: bytes) -> bytes:
    block = page(body)
    head = (
        f"version: 1.0\nurl: http://example.com/{number}\ndate: Thu, 02 Jan 2020 03:04:05 GMT\n"
        f"ip: 192.0.2.1\nlength: {len(block)}\n\n"
    )
    return head.encode() + block + b"\n"


BUILDERS: dict[str, Callable[[int, bytes], bytes]] = {"warc": warc, "arc": arc, "tianwang": tianwang}


def plain(record: bytes) -> bytes:
    return record


def gz(record: bytes) -> bytes:
    return gzip.compress(record, 6, mtime=0)


def zst(record: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(record)


CODINGS: dict[str, Callable[[bytes], bytes]] = {"plain": plain, "gz": gz, "zst": zst}


class Pipe(io.RawIOBase):
    """Gives what it likes, and cannot seek."""

    def __init__(self, data: bytes, step: int = 1000) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, self._step) if size >= 0 else -1)


def whole(record: Record) -> bytes:
    """The bytes of a record as they came."""
    block = record.block.read()
    record.finish()
    return record.head + block + record.tail


def read_all(file: bytes | BinaryIO, **options: bool) -> tuple[list[bytes], list[Record], list[Finding]]:
    """Bytes, records and findings of a file."""
    stream = io.BytesIO(file) if isinstance(file, bytes) else file
    findings: list[Finding] = []
    texts, records = [], []
    for record in open_records(stream, report=findings.append, **options):  # type: ignore[arg-type]
        texts.append(whole(record))
        records.append(record)
    return texts, records, findings


def assert_accounted(size: int, records: list[Record], findings: list[Finding]) -> None:
    """Ranges of records and lost ranges are the file, once."""
    ranges = [(record.offset, record.length) for record in records]
    ranges += [(finding.offset, finding.length) for finding in findings if finding.kind is FindingKind.LOST]
    at = 0
    for offset, length in sorted(each for each in ranges if each[1]):
        assert offset == at, ranges
        at = offset + length
    assert at == size
