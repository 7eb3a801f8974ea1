"""An archive to look at: a page with a long history, one with ten thousand captures, two collections, and strangers.

The strangers are addresses that try to be markup, to turn the direction of writing, or to be very long.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import holdfast
from holdfast.archive.ingest.importer import ImportOptions

HOME = "http://museum.example/"
BUSY = "http://news.example/ticker"
MARKUP = "http://hostile.example/\"><script>alert(1)</script>?a='&b=<img src=x onerror=alert(2)>"
TURNED = "http://hostile.example/\u202egnp.exe"
CONTROLS = "http://hostile.example/a%00\x07\x1bb"
LONG = "http://hostile.example/long/" + "x" * 8000
STRANGERS = (MARKUP, TURNED, CONTROLS, LONG)
REVISIT = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def record(number: int, url: str, time: datetime, page: str, status: str = "200 OK", more: str = "") -> bytes:
    """One WARC record of a response; an empty page with `more` is a revisit or a redirect."""
    http = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n{more}\r\n{page}".encode()
    head = (
        f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{UUID(int=number)}>\r\n"
        f"WARC-Date: {time:%Y-%m-%dT%H:%M:%SZ}\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: application/http;msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def page(title: str, text: str) -> str:
    return f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><p>{text}</p></html>'


def museum(number: int) -> Iterator[bytes]:
    """Eight years of a page: changed now and then, moved and gone for some days."""
    time = datetime(2018, 3, 4, 9, 30)
    for visit in range(160):
        time += timedelta(days=5 + visit * 37 % 29, hours=visit % 7)
        edition = visit // 4
        if visit % 41 == 40:
            yield record(number + visit, HOME, time, "", "302 Found", "Location: http://museum.example/moved\r\n")
        elif visit % 29 == 28:
            yield record(number + visit, HOME, time, "gone for a while", "503 Service Unavailable")
        else:
            yield record(number + visit, HOME, time, page("The museum", f"Exhibition {edition} is open."))


def neighbours(number: int) -> Iterator[bytes]:
    time = datetime(2024, 5, 6, 7, 8, 9)
    for index, path in enumerate(("about", "rooms/east", "rooms/west", "rooms/north?floor=2", "visit.html", "shop")):
        url = HOME + path
        yield record(number + index, url, time + timedelta(minutes=index), page(path, "A room of the museum."))


def ticker(number: int, captures: int) -> Iterator[bytes]:
    """Very many captures, four hundred of them on one day."""
    for index in range(captures):
        time = datetime(2025, 1, 1) + timedelta(minutes=50 * index)
        if index < 400:
            time = datetime(2025, 3, 3) + timedelta(minutes=3 * index, seconds=7)
        yield record(number + index, BUSY, time, page("Ticker", f"News {index // 3}"))


def gallery(number: int) -> Iterator[bytes]:
    """Pictures whose addresses stand before that of their page."""
    time = datetime(2023, 1, 2)
    for index, name in enumerate("abc"):
        url = f"http://gallery.example/{name}.png"
        yield record(number + index, url, time, "not really").replace(b"text/html", b"image/png")
    yield record(number + 3, "http://gallery.example/z-page", time, page("Gallery", "Three pictures"))


def lookalikes(number: int) -> Iterator[bytes]:
    """Two captures of one second, and a host in letters of its own."""
    yield record(number, "http://twins.example/", datetime(2023, 2, 3), page("Twins", "one"))
    yield record(number + 1, "https://twins.example/", datetime(2023, 2, 3), page("Twins", "other"))
    yield record(number + 2, "http://xn--bcher-kva.example/%C3%BC", datetime(2024, 1, 2), page("Bücher", "Regale"))


def strangers(number: int) -> Iterator[bytes]:
    time = datetime(2026, 1, 2, 3, 4, 5)
    for index, url in enumerate(STRANGERS):
        yield record(number + index, url, time + timedelta(seconds=index), page("<script>alert(3)</script>", "x"))


def build(path: Path, *, captures: int = 500) -> Path:
    """Makes the archive; returns its directory."""
    archive = path / "archive"
    holdfast.init(archive)
    files = {
        "main": [*museum(1000), *neighbours(2000), *strangers(3000), *gallery(4000), *lookalikes(4100)],
        "news": [*ticker(10_000, captures), record(9000, "http://only.example/", datetime(2020, 2, 2), page("x", "y"))],
    }
    with holdfast.open(archive) as opened:
        for name, records in files.items():
            file = path / f"{name}.warc"
            file.write_bytes(b"".join(records))
            for _ in opened.import_files([file], ImportOptions(collection=name)):
                pass
    return archive
