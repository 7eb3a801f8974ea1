"""A small web site on a thread of this process, for crawls by the real program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENDLESS = "/endless/"
_LONG_S = 60.0


@dataclass
class Site:
    """Pages by path, what was asked for, and where."""

    pages: dict[str, bytes]
    asked: list[str] = field(default_factory=list)
    url: str = ""
    slow: list[str] = field(default_factory=list)  # paths that are answered when `go_on` is set
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """Of a crawl that was given none."""
        return self.url.removeprefix("http://").rstrip("/").replace(":", "-")

    def answer(self, path: str) -> bytes | None:
        """Below ENDLESS, every page leads to two others."""
        self.asked.append(path)
        if path in self.slow:
            self.go_on.wait(_LONG_S)
        if path.startswith(ENDLESS):
            number = int(path.removeprefix(ENDLESS) or 1)
            return b"".join(b'<a href="%s%d">next</a>' % (ENDLESS.encode(), 2 * number + each) for each in (0, 1))
        return self.pages.get(path)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        body = self.site.answer(self.path)
        self.send_response(200 if body is not None else 404)
        body = b"nothing here" if body is None else body
        self.send_header("Content-Type", "text/plain" if self.path == "/robots.txt" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """The test looks at `asked`."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Crawls that are stopped hang up."""


@contextmanager
def serving(pages: dict[str, bytes]) -> Iterator[Site]:
    """The site, for the length of the block."""
    site = Site(pages)
    server = Server(("127.0.0.1", 0), type("HandlerOfSite", (Handler,), {"site": site}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
