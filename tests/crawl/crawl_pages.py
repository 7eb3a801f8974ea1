"""A few pages on a thread of this process, answered by a function: for what a generated web cannot be told to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = bytes | str | None  # a page; where a redirect leads; nothing there


@dataclass
class Pages:
    """What was asked for, and where it is."""

    answer: Callable[[str], Answer]  # of a path; several threads call it
    asked: list[str] = field(default_factory=list)
    url: str = ""  # without the slash at the end


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: Pages

    def do_GET(self) -> None:
        self.pages.asked.append(self.path)
        answer = self.pages.answer(self.path)
        self.send_response(200 if isinstance(answer, bytes) else 404 if answer is None else 302)
        if isinstance(answer, str):
            self.send_header("Location", answer)
        body = answer if isinstance(answer, bytes) else b""
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """The test looks at `asked`."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Crawls that are killed hang up."""


@contextmanager
def serving(answer: Callable[[str], Answer]) -> Iterator[Pages]:
    """The pages, for the length of the block."""
    pages = Pages(answer)
    server = _Server(("127.0.0.1", 0), type("HandlerOfPages", (_Handler,), {"pages": pages}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    pages.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield pages
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def links(*targets: str) -> bytes:
    """A page with links."""
    return "".join(f'<a href="{target}">x</a>' for target in targets).encode()
