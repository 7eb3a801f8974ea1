"""A site that keeps what it was asked, and crawls of it with a browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast.archive import Archive
from holdfast.archive.create import init
from holdfast.crawl.browser.open import available
from holdfast.crawl.crawl import Crawl, Summary
from holdfast.crawl.job.job import BrowserSettings, CrawlJob, FetchSettings, ScopeKind
from holdfast.errors import HoldfastError

missing = available(BrowserSettings())
needs_browser = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")

OTHER = "other.test"  # another name for the same server


class Request(NamedTuple):
    """What the server was asked."""

    method: str
    host: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass
class Reply:
    """What it answers."""

    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answer = Reply | Callable[[Request], Reply]


@dataclass
class Site:
    """Paths and what is there. Requests are kept in their order."""

    port: int = 0
    pages: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        found = self.pages.get(request.path) or self.pages.get(request.path.partition("?")[0])
        if found is None:
            return Reply(b"nothing here", "text/plain", 404)
        return found if isinstance(found, Reply) else found(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fields = {name.lower(): value for name, value in self.headers.items()}
        reply = self.site.answer(Request(self.command, fields.get("host", ""), self.path, fields, body))
        self.send_response(reply.status)
        for name, value in {"Content-Type": reply.kind, **reply.headers, "Content-Length": len(reply.body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_OPTIONS = do_HEAD = _serve

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(pages: dict[str, Answer]) -> Iterator[Site]:
    site = Site(pages=pages)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    server.daemon_threads = True
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Crawled:
    """What is in the archive after a crawl."""

    archive: Archive
    summary: Summary
    log: list[dict[str, Any]]

    def body(self, url: str) -> bytes:
        return self.archive.get(url).payload()

    def has(self, url: str) -> bool:
        try:
            self.archive.get(url)
        except HoldfastError:
            return False
        return True

    def rows(self, url: str) -> list[dict[str, Any]]:
        return [row for row in self.log if row["event"] == "fetch" and row["url"] == url]

    def note(self, url: str) -> str:
        return " ".join(row.get("note", "") for row in self.rows(url))


def job_of(site: Site, *seeds: str, **changes: Any) -> CrawlJob:
    """As fast as it may be; changes of `browser` and `fetch` are dictionaries."""
    browser = {"enabled": True, "tabs": 1, "idle_s": 0.2, "scroll_s": 10.0, "page_timeout_s": 30.0}
    fetch = {"delay": 0.0, "private": True, "resolve": ((OTHER, "127.0.0.1"),), "retries": 0, "per_host": 4}
    job = CrawlJob(
        seeds=tuple(site.url(seed) for seed in seeds or ("/",)),
        name="shown",
        scope=ScopeKind.PAGE,
        sitemap=False,
        readers=1,
        browser=BrowserSettings(**(browser | changes.pop("browser", {}))),
        fetch=FetchSettings(**(fetch | changes.pop("fetch", {}))),
    )
    return replace(job, **changes)


@contextmanager
def crawled(directory: Path, job: CrawlJob) -> Iterator[Crawled]:
    path = directory / "archive"
    if not path.exists():
        init(path)
    with holdfast.open(path) as archive:
        summary = Crawl(archive, job).run()
        lines = (path / "crawls" / job.name / "log.jsonl").read_text().splitlines()
        yield Crawled(archive, summary, [json.loads(line) for line in lines])
