"""What a crawl extracts while it parses is what the index extracts from the archive (B12)."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from index_samples import everything, finds, new_archive, pdf, reading, rows

import holdfast
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.errors import HoldfastError
from holdfast.index import updater as keeper_module
from holdfast.index.extract.extract import Extracted, OutLinks
from holdfast.index.updater import IndexUpdater
from holdfast.index.workers import pool
from holdfast.model import RecordId

PAGES: dict[str, tuple[int, str, bytes]] = {
    "/": (
        200,
        "text/html; charset=utf-8",
        "<html lang=de-AT><title>Übersicht common</title><meta name=date content=2020-03-04><link rel=next href=/next>"
        "<a href=/text.txt>Ein <b>Text</b></a><a href=/old>alt</a><a href=/gone>fort</a><a href=/report.pdf>"
        "<img alt=PDF></a><a href=/feed.xml>feed</a><img src=/dot.png><script src=/code.js></script>"
        "<a href=/packed>packed</a>"
        "<a href=/latin>latin</a><a href=/#part>here</a><a href=/unknown>unknown</a><form action=/found><input name=q>"
        "</form><p>漢字 und common zebra1".encode(),
    ),
    "/next": (200, "text/html", b"<title>Next</title><p>common zebra7 The quick brown fox jumps over the lazy dog"),
    "/text.txt": (200, "text/plain", "common zebra19 caf\u00e9".encode("latin-1")),
    "/old": (301, "text/html", b"<a href=/next>moved</a> common"),
    "/gone": (404, "text/html", b"<title>Gone</title>common"),
    "/report.pdf": (200, "application/pdf", pdf("common words of a report")),
    "/feed.xml": (
        200,
        "application/rss+xml",
        b"<rss><title>Feed</title><language>fr</language><item>common</item></rss>",
    ),
    "/dot.png": (200, "image/png", b"\x89PNG common"),
    "/code.js": (200, "text/javascript", b"load('/data.json')"),
    "/data.json": (200, "application/json", b'{"a": "/next"}'),
    "/packed": (200, "text/html", gzip.compress(b"<title>Packed</title>common <a href=/next>n</a>", mtime=0)),
    "/latin": (200, "text/html; charset=iso-8859-1", "<title>Ol\u00e9</title>common \u00fcber".encode("latin-1")),
    "/unknown": (200, "application/octet-stream", b"<!doctype html><title>Unknown</title>common"),
    "/found?q=": (200, "text/html", b"<title>Found</title>common"),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, kind, body = PAGES.get(self.path, (404, "text/html", b"none"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Last-Modified", "Wed, 01 Jan 2020 00:00:00 GMT")
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip")
        if status == 301:
            self.send_header("Location", "/next")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def crawl(path: Path, url: str, every_s: float = 300.0, **chosen: Any) -> tuple[int, int]:
    """Crawls and indexes; how many captures were indexed at the end, and the bytes of payload that were read for it."""
    job = CrawlJob((url,), "web", fetch=FetchSettings(delay=0.0, per_host=4), **chosen)
    with IndexUpdater(path, every_s) as updater:
        with holdfast.open(path) as archive:
            Crawl(archive, job, updater=updater).run()
        updater.finish()
        report = updater.result(lambda _: None)
        return report.captures, report.bytes


def compared(path: Path) -> dict[str, Any]:
    with reading(path) as archive:
        words = ("common", "zebra7", "zebra19", "über", "漢字", "quick", "words of a report", "none")
        return everything(archive.index) | {word: finds(archive.index, word) for word in words}


def rebuilt(path: Path) -> dict[str, Any]:
    with reading(path) as archive:
        archive.index.build()
    return compared(path)


def test_an_index_filled_by_a_crawl_is_the_one_that_is_built(tmp_path: Path) -> None:
    """Pages are parsed once; a PDF is left to the workers; a second visit has revisits and unchanged pages."""
    path = new_archive(tmp_path / "archive")
    with serving() as url:
        captures, read_bytes = crawl(path, url)
        first = compared(path)
        assert captures == len(PAGES) + 2  # robots.txt and the sitemap
        assert read_bytes == len(PAGES["/report.pdf"][2])
        assert first == rebuilt(path)
        crawl(path, url)
    assert compared(path) == rebuilt(path)
    with reading(path) as archive:
        assert {row["title"] for row in rows(archive.index, "captures")} >= {
            "Übersicht common",
            "Packed",
            "Olé",
            "Feed",
        }


@pytest.mark.parametrize("lost", ["all", "half"])
def test_what_the_keeper_was_not_given_is_read_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A backlog that overflows costs time, and nothing else."""
    path = new_archive(tmp_path / "archive")
    add = IndexUpdater.add

    def forgetful(self: IndexUpdater, pages: Sequence[tuple[RecordId, bytes]]) -> None:
        add(self, [page for page in pages if lost == "half" and page[0].serial % 2])

    monkeypatch.setattr(IndexUpdater, "add", forgetful)
    with serving() as url:
        captures, read_bytes = crawl(path, url, sitemap=False)
    assert captures == len(PAGES) + 1
    assert read_bytes > len(PAGES["/report.pdf"][2])
    assert compared(path) == rebuilt(path)


def test_the_keeper_indexes_while_the_crawl_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive")
    with serving() as url:
        crawl(path, url, every_s=0.01)
    assert compared(path) == rebuilt(path)


def test_a_keeper_that_died_is_reported_and_its_work_is_done_later(tmp_path: Path) -> None:
    path = new_archive(tmp_path / "archive")
    with serving() as url, IndexUpdater(path, 300.0) as updater:
        updater._process.kill()
        updater._process.wait()
        with holdfast.open(path) as archive:
            Crawl(archive, CrawlJob((url,), "web", fetch=FetchSettings(delay=0.0)), updater=updater).run()
        with pytest.raises(HoldfastError, match="index update"):
            updater.finish()
    with reading(path) as archive:
        assert archive.index.pending() > 0
        archive.index.update()
    assert compared(path) == rebuilt(path)


def test_prepared_documents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_PREPARED_BYTES_MAX", 10)
    prepared = pool.PreparedDocuments(None)  # type: ignore[arg-type]
    prepared.add("b", 1, bytes(6))
    prepared.add("b", 2, bytes(6))
    assert prepared.bytes == 6
    prepared.clear()
    prepared.add("b", 2, bytes(6))
    assert prepared.bytes == 6


def test_sending_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an updater does not take is dropped beyond a limit."""
    monkeypatch.setattr(keeper_module, "_UNSENT_BYTES_MAX", 1 << 20)
    with IndexUpdater(new_archive(tmp_path / "archive"), 300.0) as updater:
        os.kill(updater._process.pid, signal.SIGSTOP)
        for serial in range(64):
            updater.add([(RecordId("b", serial), bytes(1 << 17))])
        assert updater._unsent_bytes < 3 << 20
        os.kill(updater._process.pid, signal.SIGCONT)
        assert updater.finish() == 0


def test_extracted_survives_the_way_between_processes() -> None:
    links = OutLinks(("http://b.example/",), ("link",), ("b",))
    found = Extracted("t", "te\udc80xt", "de", "20200101000000", links, "damaged", (0, 1))
    assert Extracted.unpack(found.pack()) == found
