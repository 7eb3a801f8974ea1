"""W17, item 7 of the crawler: pages in a real Chromium. One crawl of one site, looked at from many sides."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from browser_site import OTHER, Answer, Crawled, Reply, Request, Site, crawled, job_of, needs_browser, serving
from hostile_web.picture import stripes

from holdfast.crawl.crawl import CrawlState

pytestmark = needs_browser

PICTURE = stripes(1)
GZIP = {"Content-Encoding": "gzip"}
APP = b"""
setTimeout(async () => {
  const told = await (await fetch('/late.json')).json();
  document.getElementById('told').textContent = told.text;
  const link = document.createElement('a');
  link.href = '/made-by-script';
  document.body.append(link);
}, 100);
fetch('/api?a=1', {method: 'POST', body: '{"q": 1}', headers: {'Content-Type': 'application/json', 'X-Own': 'yes'}});
fetch('/read-by-script.html');
"""
ESCAPES = b"""<link rel=preconnect href=http://127.0.0.1:%(tcp)d><link rel=dns-prefetch href=//%(other)s>
<link rel=prefetch href=http://127.0.0.1:%(port)d/prefetched><iframe src=http://%(other)s:%(port)d/frame></iframe>
<script>
new WebSocket('ws://127.0.0.1:%(tcp)d/');
new EventSource('/stream');
const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:%(udp)d'}]});
peer.createDataChannel('x');
peer.createOffer().then((offer) => peer.setLocalDescription(offer));
navigator.sendBeacon('/beacon', 'told');
new Worker('/worker.js');
new SharedWorker('/shared.js');
navigator.serviceWorker && navigator.serviceWorker.register('/service.js').catch(() => 0);
window.open('/popup');
navigator.geolocation.getCurrentPosition(() => fetch('/located'), () => fetch('/not-located'));
</script>"""


def robots(request: Request) -> Reply:
    return Reply(b"User-agent: *\nDisallow: /secret" if request.host.startswith(OTHER) else b"", "text/plain")


def with_cookie(request: Request) -> Reply:
    if "known=1" in request.headers.get("cookie", ""):
        return Reply(b"<p>you are known")
    return Reply(b"<script>document.cookie='known=1'; location.reload()</script>")


@dataclass
class Shown:
    site: Site
    crawl: Crawled
    outside: list[str]  # what came to those whom nothing should come to

    def url(self, path: str) -> str:
        return self.site.url(path)

    def body(self, path: str) -> bytes:
        return self.crawl.body(self.url(path))

    def text(self, path: str) -> str:
        return self.crawl.body(f"urn:text:{self.url(path)}").decode()


def pages(site: Site, tcp: int, udp: int) -> dict[str, Answer]:
    facts: dict[bytes, Any] = {b"tcp": tcp, b"udp": udp, b"port": site.port, b"other": OTHER.encode()}
    home = b"""<!doctype html><title>t</title><h1 id=told></h1><script src=/app.js></script>
    <img src=/hop1><div style="height: 5000px"></div><img loading=lazy src=/lazy.png>"""

    return {
        "/robots.txt": robots,
        "/": Reply(gzip.compress(home), headers=GZIP),
        "/app.js": Reply(APP, "text/javascript"),
        "/late.json": Reply(gzip.compress(b'{"text": "it has come"}'), "application/json", headers=GZIP),
        "/lazy.png": Reply(PICTURE, "image/png"),
        "/api": Reply(b'{"answer": 2}', "application/json"),
        "/read-by-script.html": Reply(b"<p>a page"),
        "/hop1": Reply(status=302, headers={"Location": "/hop2"}),
        "/hop2": Reply(status=301, headers={"Location": "/hop3.png"}),
        "/hop3.png": Reply(PICTURE + b"3", "image/png"),
        "/moved": Reply(status=302, headers={"Location": "/moved-to"}),
        "/moved-to": Reply(b"<p>here<img src=/of-moved.png>"),
        "/of-moved.png": Reply(PICTURE + b"4", "image/png"),
        "/goes": Reply(b"<p>going<script>location = '/gone-to'</script>"),
        "/gone-to": Reply(b"<p>there"),
        "/cookie": with_cookie,
        "/alert": Reply(b"<script>alert(1); confirm(2); onbeforeunload = () => 'stay'</script><p>after the dialogs"),
        "/never": Reply(b"<p>never done<script>setInterval(() => fetch('/tick'), 50)</script>"),
        "/loop": Reply(b"<p>loops<script>while (true);</script>"),
        "/download": Reply(b"<p>saved", headers={"Content-Disposition": "attachment; filename=x.html"}),
        "/frames-download": Reply(b"<p>page<iframe src=/download></iframe>"),
        "/paper.pdf": Reply(b"%PDF-1.4", "application/pdf"),
        "/missing.html": Reply(b"<p>not here", status=404),
        "/escapes": Reply(ESCAPES % facts),
        "/worker.js": Reply(b"fetch('/from-worker')", "text/javascript"),
        "/shared.js": Reply(b"fetch('/from-shared')", "text/javascript"),
        "/frame": Reply(b"<img src=/secret.png><img src=/free.png>"),
    }


SEEDS = (
    *("/", "/moved", "/goes", "/cookie", "/alert", "/never", "/loop"),
    *("/download", "/frames-download", "/paper.pdf", "/missing.html", "/escapes"),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    with tcp, udp, serving({}) as site:
        site.pages |= pages(site, tcp.getsockname()[1], udp.getsockname()[1])
        job = job_of(site, *SEEDS, browser={"screenshots": True, "tabs": 2, "page_timeout_s": 3.0})
        with crawled(tmp_path_factory.mktemp("shown"), job) as crawl:
            yield Shown(site, crawl, [*_came(tcp), *_came(udp)])


def _came(source: socket.socket) -> list[str]:
    source.setblocking(False)
    try:
        return [str(source.accept() if source.type == socket.SOCK_STREAM else source.recv(100))]
    except BlockingIOError:
        return []


def test_what_loads_late_is_in_the_archive(shown: Shown) -> None:
    assert gzip.decompress(shown.body("/late.json")) == b'{"text": "it has come"}'
    assert shown.body("/lazy.png") == PICTURE
    assert "it has come" in shown.text("/")


def test_bodies_stay_as_sent(shown: Shown) -> None:
    assert shown.body("/late.json")[:2] == b"\x1f\x8b"
    record = shown.crawl.archive.get(shown.url("/"))
    assert record.payload()[:2] == b"\x1f\x8b"
    assert b"content-encoding: gzip" in b"".join(record.raw()).lower()


def test_nothing_is_fetched_twice(shown: Shown) -> None:
    for path in ("/", "/app.js", "/late.json", "/lazy.png", "/hop1", "/hop2", "/hop3.png", "/moved", "/moved-to"):
        assert len(shown.site.asked(path)) == 1, path


def test_redirects_of_parts_are_kept_hop_by_hop(shown: Shown) -> None:
    archive = shown.crawl.archive
    statuses = [archive.get(shown.url(path)).entry.status for path in ("/hop1", "/hop2", "/hop3.png")]
    assert statuses == ["302", "301", "200"]


def test_a_page_that_redirects_leads_to_one_that_is_shown(shown: Shown) -> None:
    assert shown.crawl.archive.get(shown.url("/moved")).entry.status == "302"
    assert shown.text("/moved-to") == "here"
    assert shown.crawl.has(shown.url("/of-moved.png"))


def test_where_a_script_goes_is_a_link_of_the_page(shown: Shown) -> None:
    assert shown.text("/goes") == "going"
    assert shown.text("/gone-to") == "there"


def test_a_page_that_loads_itself_again_with_a_cookie_is_what_it_is_then(shown: Shown) -> None:
    assert [bool("known=1" in request.headers.get("cookie", "")) for request in shown.site.asked("/cookie")] == [
        False,
        True,
    ]
    assert shown.text("/cookie") == "you are known"


def test_other_methods_are_kept_under_their_own_key(shown: Shown) -> None:
    (asked,) = shown.site.asked("/api?a=1")
    assert (asked.method, asked.body, asked.headers["x-own"]) == ("POST", b'{"q": 1}', "yes")
    answer = shown.crawl.archive.get(shown.url("/api?a=1"))
    assert answer.payload() == b'{"answer": 2}'
    assert answer.capture.urlkey.endswith("/api?__wb_method=post&a=1&q=1")


def test_screenshot_rendered_page_and_text_are_records(shown: Shown) -> None:
    picture = shown.crawl.archive.get(f"urn:view:{shown.url('/')}")
    assert picture.payload().startswith(b"\x89PNG")
    assert picture.entry.mime == "image/png"
    assert picture.entry.type == "resource"
    assert int.from_bytes(picture.payload()[20:24]) > 5000  # pixels: the whole of it
    dom = shown.crawl.archive.get(f"urn:dom:{shown.url('/')}")
    assert b">it has come</h1>" in dom.payload()
    assert b"made-by-script" in dom.payload()


def test_dialogs_do_not_stop_a_page(shown: Shown) -> None:
    assert shown.text("/alert") == "after the dialogs"


def test_a_page_that_never_ends_is_kept_as_it_is_at_the_time_out(shown: Shown) -> None:
    assert "still loading after 3 s" in shown.crawl.note(shown.url("/never"))
    assert shown.text("/never") == "never done"


def test_a_page_that_hangs_is_kept_as_it_came(shown: Shown) -> None:
    assert "kept without rendering" in shown.crawl.note(shown.url("/loop"))
    assert b"loops" in shown.body("/loop")


def test_what_is_no_page_is_not_shown(shown: Shown) -> None:
    for path in ("/download", "/paper.pdf", "/missing.html"):
        assert shown.crawl.has(shown.url(path)), path
        assert not shown.crawl.has(f"urn:dom:{shown.url(path)}"), path
    assert shown.text("/frames-download") == "page"


def test_nothing_leaves_but_through_the_fetcher(shown: Shown) -> None:
    assert shown.outside == []
    assert {request.headers["user-agent"].partition("/")[0] for request in shown.site.requests} == {"Holdfast"}
    asked = {request.path for request in shown.site.requests}
    assert {"/from-worker", "/from-shared", "/beacon", "/frame", "/not-located"} <= asked
    assert not {"/stream", "/service.js", "/popup", "/located"} & asked


def test_robots_txt_of_other_hosts_holds_for_parts(shown: Shown) -> None:
    assert shown.site.asked("/free.png")
    assert not shown.site.asked("/secret.png")
    assert shown.crawl.has(f"http://{OTHER}:{shown.site.port}/robots.txt")


def test_it_ends_as_any_crawl(shown: Shown) -> None:
    assert shown.crawl.summary.state is CrawlState.FINISHED
    assert shown.crawl.summary.tally.queued == 0
