"""An archive with everything that pages make pictures of: months, languages, near-duplicates, a crawl, a screenshot."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from pathlib import Path
from uuid import UUID

from pages_kept import html, kept

import holdfast
from holdfast import Capture, CaptureQuery
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.report.crawls import CrawlState, CrawlStatus, keep_job, log_path, progress_path, write_status
from holdfast.formats.warc.compose import WarcHead

HARBOUR = "http://harbour.example/"
CRAWLED, IMPORTED = "20240305101112", "20250405101112"
PROSE = {
    "en": "The harbour of the town lies behind the island, and the tides are low in the evening. " * 4,
    "de": "Der Hafen liegt hinter der Insel, und das Meer ist heute ganz ruhig und glatt. " * 4,
    "fr": "Le port se trouve derrière la petite île, et la mer est aujourd'hui très calme. " * 4,
}


def png(width: int = 12, height: int = 40) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x60\x80" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def screenshot(url: str, timestamp: str, body: bytes) -> bytes:
    """A WARC record as crawls with a browser keep it."""
    date = f"{timestamp[:4]}-{timestamp[4:6]}-{timestamp[6:8]}T{timestamp[8:10]}:{timestamp[10:12]}:{timestamp[12:]}Z"
    name = UUID(bytes=hashlib.sha256(url.encode() + body).digest()[:16])
    digest = "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    head = WarcHead("resource", date, f"<urn:uuid:{name}>", f"urn:view:{url}", "image/png", payload_digest=digest)
    return head.encode(len(body)) + body + b"\r\n\r\n"


def prose(language: str, title: str, more: str = "") -> str:
    return f"<!doctype html><html lang={language}><title>{title}</title><p>{PROSE[language]}{more}</p>"


def build(directory: Path) -> Path:
    """Pages of one crawl with one screenshot, and others of an import, over three years; indexed and ranked."""
    path = directory / "archive"
    kept(
        path,
        [
            html(HARBOUR, "20230105101112", prose("en", "The harbour")),
            html(HARBOUR, CRAWLED, prose("en", "The harbour", "A new lamp burns.")),
            html(f"{HARBOUR}de", CRAWLED, prose("de", "Der Hafen")),
            html(f"{HARBOUR}fr", CRAWLED, prose("fr", "Le port"), charset="utf-8"),
        ],
    )
    file = directory / "pictures.warc"
    file.write_bytes(
        screenshot(HARBOUR, CRAWLED, png()) + screenshot(f"{HARBOUR}fake", CRAWLED, b"<script>alert(1)</script>")
    )
    with holdfast.open(path) as archive:
        archive.import_files(file)
        crawled = [row.capture for row in archive.search(CaptureQuery(url="harbour.example/*", from_=CRAWLED))]
    crawl(path, crawled)
    kept(
        path,
        [
            html("http://town.example/", IMPORTED, prose("en", "The town")),
            html("http://mirror.example/", IMPORTED, prose("en", "The mirror")),
            html("http://plain.example/", IMPORTED, "<p>No title, and little text."),
        ],
        "imports",
    )
    with holdfast.open(path) as archive:
        archive.index.update()
        archive.index.rank()
    return path


def crawl(path: Path, captures: list[Capture]) -> None:
    """What a crawl leaves that has captured these."""
    keep_job(path, CrawlJob(seeds=(HARBOUR,), name="harbour"))
    rows = [
        {"event": "fetch", "time": 1709633472.0, "url": each.url, "mime": each.mime, "status": 200, "result": "new"}
        | {"size": each.size, "record": str(each.record)}
        for each in captures
    ]
    log_path(path, "harbour").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [[1, float(second), 3 * second, 100 - second, 1000 * second] for second in range(60)]
    progress_path(path, "harbour").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    tally = {"fetched": 177, "queued": 41, "errors": 2, "seconds": 59.0, "transferred_bytes": 59_000}
    write_status(path, CrawlStatus("harbour", CrawlState.STOPPED, 1, tally=tally, errors={"timed out": 2}))
