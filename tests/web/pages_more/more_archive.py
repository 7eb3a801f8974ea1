"""An archive for the pages that look at an archive from above: hosts, paths, captures that differ."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from pages_kept import answer, html, kept

from holdfast.archive.ingest.exchange import Exchange, page

URL = "http://example.com/"
MARKUP = 'http://example.com/<script>alert("path")</script>?q=<b>'
PARAGRAPHS = "".join(f"<p>Paragraph {number} tells of the sea." for number in range(20))
OLD = f"<title>Tides</title><a href='/map'>Map</a>{PARAGRAPHS}<p>The harbour opens at nine."
NEW = OLD.replace("nine", "ten").replace("/map", "/tickets").replace("Paragraph 7 ", "Section 7 ")


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x40\x80" * width for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def lines(word: str, count: int = 100_000) -> bytes:
    return "\n".join(f"{word} {number}" for number in range(count)).encode()


def revisit(url: str, timestamp: str, of: Exchange) -> Exchange:
    """The same again: the archive keeps it once."""
    return Exchange(url, of.head, of.body, timestamp)


def build(directory: Path) -> Path:
    old = answer(URL, "20200102030405", "200 OK", ("Content-Type: text/html", "Server: a", "X-Gone: 1"), OLD.encode())
    new = answer(URL, "20230102030405", "200 OK", ("Content-Type: text/html", "Server: b"), NEW.encode())
    exchanges = [
        *(old, new, revisit(URL, "20240102030405", new)),
        answer(URL + "moved", "20200102030405", "301 Moved", ("Location: /",)),
        html(URL + "moved", "20210102030405", "<p>Here again"),
        page(URL + "i.png", png(6, 4), "image/png", "20200102030405"),
        page(URL + "i.png", png(12, 8), "image/png", "20230102030405"),
        page(URL + "binary", bytes(range(256)) * 50, "text/html", "20200102030405"),
        page(URL + "binary", bytes(range(255, -1, -1)) * 50, "text/html", "20210102030405"),
        page(URL + "bomb", lines("old"), "text/plain", "20200102030405"),
        page(URL + "bomb", lines("new"), "text/plain", "20210102030405"),
        html(MARKUP, "20200102030405", "<p>&lt;img src=x onerror=alert(1)&gt;\u202eturned"),
        html(MARKUP, "20210102030405", "<p>&lt;/td&gt;&lt;script&gt;alert(2)&lt;/script&gt;"),
        html(URL + "once", "20200102030405"),
        *(html(f"{URL}news/{number:02}/story.html", "20200102030405") for number in range(3)),
        *(html(f"{URL}list?page={number}", "20200102030405") for number in range(3)),
        *(html(f"http://sub{number}.example.org/", "20200102030405") for number in range(2)),
        *(html(f"http://host{number}.net:8080/", "20200102030405") for number in range(60)),
    ]
    kept(directory / "archive", exchanges)
    kept(directory / "archive", [html("http://other.example/", "20200102030405")], "other")
    return directory / "archive"
