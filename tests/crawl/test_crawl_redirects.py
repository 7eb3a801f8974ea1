"""Redirects that mean more than a new address: cookie walls, session ids, other hosts (W17)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from crawl_runs import crawled, make_archive

import holdfast
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind

_SESSION = "/s;jsessionid=0123456789ABCDEF0123456789ABCDEF"


class _Site(BaseHTTPRequestHandler):
    """Says 'in' to whoever brings the right cookie, and redirects the others."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        asked.append(self.path)
        cookies = self.headers.get("Cookie") or ""
        host = self.headers["Host"].partition(":")[0]
        match self.path:
            case "/robots.txt":
                self._answer(404, b"")
            case "/wall" if "wall=1" not in cookies:
                self._answer(302, b"", Location="/wall", Set_Cookie="wall=1; Path=/")
            case "/a" if "b=1" not in cookies:
                self._answer(302, b"", Location="/b")
            case "/b":
                self._answer(302, b"", Location="/a", Set_Cookie="b=1; Path=/")
            case "/never":
                self._answer(302, b"", Location="/never", Set_Cookie="n=1; Path=/")
            case "/loop":
                self._answer(302, b"", Location="/loop")
            case "/s":
                self._answer(302, b"", Location=_SESSION)
            case "/" if host == "old.test":
                self._answer(301, b"", Location=f"http://new.test:{self.server.server_port}/start")
            case "/":
                links = "".join(f"<a href={name}>" for name in ("wall", "a", "never", "loop", "s"))
                self._answer(200, links.encode())
            case "/start":
                self._answer(200, b"<a href=/within>")
            case _:
                self._answer(200, b"in")

    def _answer(self, status: int, body: bytes, **fields: str) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


asked: list[str] = []


@pytest.fixture
def port() -> Iterator[int]:
    asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


def job(*seeds: str, scope: ScopeKind = ScopeKind.HOST) -> CrawlJob:
    fetch = FetchSettings(delay=0.0, resolve=(("*.test", "127.0.0.1"),))
    return CrawlJob(seeds=seeds, name="site", scope=scope, sitemap=False, fetch=fetch)


def test_a_wall_that_sets_a_cookie_is_passed(archive: Path, port: int) -> None:
    base = f"http://site.test:{port}"
    crawled(archive, job(f"{base}/"))
    with holdfast.open(archive, read_only=True) as opened:
        for page in ("/wall", "/a", _SESSION):
            assert opened.get(base + page).payload() == b"in", page


def test_loops_end(archive: Path, port: int) -> None:
    crawled(archive, job(f"http://site.test:{port}/"))
    assert asked.count("/loop") == 1
    assert asked.count("/never") == 2  # once more, with its cookie


def test_where_a_seed_redirects_to_is_in_the_scope(archive: Path, port: int) -> None:
    crawled(archive, job(f"http://old.test:{port}/"))
    with holdfast.open(archive, read_only=True) as opened:
        assert opened.get(f"http://new.test:{port}/within").payload() == b"in"
