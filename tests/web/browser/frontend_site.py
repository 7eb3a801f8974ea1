"""The live side of built pages: one server on loopback for all of them, told apart by host name, with a small API."""

from __future__ import annotations

import json
import mimetypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

ITEMS = [
    {"id": number, "name": f"The {word}", "text": f"What the {word} of them says."}
    for number, word in enumerate(("first", "second", "third", "fourth"), 1)
]
_JSON = "application/json"
_FRAGMENT = b'<div><img src="/missing.png" alt=""><span id="inner">A part of a <a href="/x">page</a></span></div>'


class Answer(NamedTuple):
    kind: str
    body: bytes
    status: int = 200


def api(path: str, query: Mapping[str, list[str]], body: bytes) -> Answer:
    """What `/api/` answers: lists, single items, a search by POST, JSONP, a piece of HTML."""
    match path.removeprefix("/api/").split("/"):
        case ["items"]:
            return Answer(_JSON, json.dumps(ITEMS).encode())
        case ["items", number]:
            return Answer(_JSON, json.dumps(ITEMS[int(number) - 1]).encode())
        case ["search"]:
            wanted = json.loads(body)["query"]
            return Answer(_JSON, json.dumps([item for item in ITEMS if wanted in str(item["name"])]).encode())
        case ["jsonp"]:
            return Answer("text/javascript", f"{query['callback'][0]}({json.dumps(ITEMS[:2])})".encode())
        case ["fragment"]:
            return Answer("text/html; charset=utf-8", _FRAGMENT)
    return Answer("text/plain", b"nothing here", 404)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    roots: Mapping[str, Path]  # by host name

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        if url.path.startswith("/api/"):
            answer = api(url.path, parse_qs(url.query), body)
        else:
            answer = self._file(url.path)
        self.send_response(answer.status)
        for name, value in (("Content-Type", answer.kind), ("Content-Length", str(len(answer.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def _file(self, path: str) -> Answer:
        """A file of the site; any other path without a suffix is one of the application's own."""
        root = self.roots[(self.headers["Host"] or "").partition(":")[0]]
        for each in (root / path.strip("/"), root / path.strip("/") / "index.html"):
            if each.is_file():
                return Answer(mimetypes.guess_type(each.name)[0] or "application/octet-stream", each.read_bytes())
        if "." in path.rpartition("/")[2] or path == "/robots.txt":
            return Answer("text/plain", b"nothing here", 404)
        return Answer("text/html", (root / "index.html").read_bytes())

    do_GET = do_POST = _serve

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def live(sites: Mapping[str, Path]) -> Iterator[int]:
    """The port of a server for these sites, by host name, until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"roots": sites}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
