"""A site to crawl, and an archive whose server starts and stops crawls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from serving import Served, serving
from waiting import wait_until

import holdfast
from holdfast.crawl.report.crawls import crawl_directory, crawl_status, request_stop
from holdfast.web.auth.tokens import Tokens

TOKEN = "a-token-for-writing-1234"
BEARER = f"Bearer {TOKEN}"


class _Site(BaseHTTPRequestHandler):
    """A page that links to more pages than a polite crawl fetches while a test runs."""

    def do_GET(self) -> None:
        found = self.path != "/robots.txt"
        links = "".join(f'<a href="/page{number}">{number}</a>' for number in range(500)) if self.path == "/" else ""
        body = f"<!doctype html><title>{self.path}</title>{links}".encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def linked_pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def writable(path: Path) -> Iterator[Served]:
    holdfast.init(path)
    with serving(path, tokens=Tokens((), (TOKEN,))) as served:
        yield served


@contextmanager
def stopped_at_the_end(path: Path, name: str) -> Iterator[None]:
    try:
        yield
    finally:
        if crawl_directory(path, name).joinpath("job.toml").is_file():
            request_stop(path, name)
            wait_until(lambda: not crawl_status(path, name).running, "the crawl to end")
