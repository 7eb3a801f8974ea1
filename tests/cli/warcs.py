"""WARC files for the tests of commands."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "warc"
Page = tuple[str, str, bytes]  # URL, WARC-Date, body

PAGES: Sequence[Page] = (
    ("http://example.com/", "2020-01-02T03:04:05Z", b"<html>first</html>"),
    ("http://example.com/", "2021-01-02T03:04:05Z", b"<html>second</html>"),
    ("http://example.com/about", "2020-06-01T00:00:00Z", b"<html>about</html>"),
    ("http://www.example.com/copy", "2020-07-01T00:00:00Z", b"<html>about</html>"),
    ("http://other.org/", "2020-08-01T00:00:00Z", b"<html>other</html>"),
)


def write_warc(path: Path, pages: Sequence[Page] = PAGES) -> Path:
    """A response and its request for each page; bodies are sent gzipped if the URL ends in `/`."""
    pack = gzip.compress if path.suffix.lower() == ".gz" else bytes
    path.write_bytes(b"".join(pack(record) for page in pages for record in records(page)))
    return path


def records(page: Page) -> Iterator[bytes]:
    url, date, body = page
    coding = b""
    if url.endswith("/"):
        body, coding = gzip.compress(body, mtime=0), b"Content-Encoding: gzip\r\n"
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + coding + b"\r\n" + body
    yield record("response", url, date, response)
    yield record("request", url, date, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")


def record(kind: str, url: str, date: str, block: bytes) -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{_id(kind, url, date)}>\r\n"
        f"WARC-Concurrent-To: <urn:uuid:{_id('request' if kind == 'response' else 'response', url, date)}>\r\n"
        f"WARC-Date: {date}\r\nWARC-Target-URI: {url}\r\nContent-Type: application/http;msgtype={kind}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def _id(kind: str, url: str, date: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"{kind} {date} {url}"))


def many_pages(count: int, size: int = 2000) -> list[Page]:
    """Distinct pages, of which every fifth has the same body."""
    return [
        (
            f"http://site{number % 7}.com/{number}",
            f"2026-01-{number % 28 + 1:02}T00:00:00Z",
            b"the same" if number % 5 == 0 else b"%d " % number * (size // len(b"%d " % number)),
        )
        for number in range(count)
    ]
