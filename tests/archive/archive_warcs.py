"""WARC records made by hand, byte by byte, so that the archive's own writer proves nothing about itself."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import zstandard

DATE = "2026-11-02T03:04:05Z"
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
CODINGS = ("plain", "gzip", "zstd")
_TYPES = {
    "response": "application/http; msgtype=response",
    "request": "application/http; msgtype=request",
    "revisit": "application/http; msgtype=response",
    "warcinfo": "application/warc-fields",
    "metadata": "application/warc-fields",
}


@dataclass(frozen=True, slots=True)
class Look:
    """How the head of a record is written."""

    version: str = "WARC/1.1"
    end: bytes = b"\r\n"  # of a line
    date: str = DATE


PLAIN = Look()


def warc_id(name: object) -> str:
    return f"<urn:uuid:{UUID(bytes=hashlib.md5(str(name).encode(), usedforsecurity=False).digest())}>"


def sha1(payload: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode()}"


def record(kind: str, url: str, block: bytes, fields: Iterable[tuple[str, str]] = (), look: Look = PLAIN) -> bytes:
    """One record; `fields` come after the usual ones and may repeat each other, but replace the usual ones."""
    given = [*fields]
    names = {name.lower() for name, _ in given}
    usual = [
        ("WARC-Type", kind),
        ("WARC-Record-ID", warc_id((kind, url, look, block[:512], len(block)))),
        ("WARC-Date", look.date),
        ("WARC-Target-URI", url),
        ("Content-Type", _TYPES.get(kind, "text/plain")),
    ]
    lines = [look.version]
    lines += [f"{name}: {value}" for name, value in usual if value and name.lower() not in names]
    lines += [f"{name}: {value}" for name, value in given]
    lines += [f"Content-Length: {len(block)}"]
    head = b"".join(line.encode("utf-8", "surrogateescape") + look.end for line in lines)
    return head + look.end + block + look.end * 2


def response(url: str, payload: bytes, date: str = DATE, http: bytes = HTTP) -> bytes:
    return record("response", url, http + payload, [("WARC-Payload-Digest", sha1(payload))], Look(date=date))


def exchange(url: str, payload: bytes, date: str = DATE) -> list[bytes]:
    """A response with its request and its metadata, tied to it."""
    own = warc_id((url, payload[:512], date))
    tied, look = [("WARC-Concurrent-To", own)], Look(date=date)
    return [
        record("response", url, HTTP + payload, [("WARC-Record-ID", own)], look),
        record("request", url, b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", tied, look),
        record("metadata", url, b"via: http://elsewhere.example/\r\n", tied, look),
    ]


def revisit(url: str, digest: str, date: str, fields: Iterable[tuple[str, str]] = (), block: bytes = HTTP) -> bytes:
    profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    usual = [("WARC-Profile", profile), *([("WARC-Payload-Digest", digest)] if digest else [])]
    return record("revisit", url, block, [*usual, *fields], Look(date=date))


def chunked(payload: bytes, step: int, trailer: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    steps = [payload[at : at + step] for at in range(0, len(payload), step)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in steps) + b"0\r\n" + trailer + b"\r\n"


def write(path: Path, records: Iterable[bytes], coding: str = "plain") -> Path:
    """Each record by itself in its gzip member or zstd frame."""
    path.write_bytes(b"".join(packed(each, coding) for each in records))
    return path


def packed(data: bytes, coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(data, 1, mtime=0)
    return zstandard.ZstdCompressor(write_content_size=True).compress(data) if coding == "zstd" else data
