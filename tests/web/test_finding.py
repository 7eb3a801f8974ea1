"""Which capture is shown for a URL and a time (H8, P)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pages_kept import answer, html, kept
from serving import ask, serving

import holdfast
from holdfast.archive.ingest.exchange import Exchange
from holdfast.catalog import CaptureQuery
from holdfast.config import AccessRule, ServeSettings
from holdfast.errors import Blocked, CaptureNotFound, UnknownCollection
from holdfast.streams.options import StreamOptions
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Origins, WebContext, open_site
from holdfast.web.replay.find import Finder
from holdfast.web.server.counters import Counters

URL = "http://a.example/"


@contextmanager
def site_of(path: Path, exchanges: list[Exchange], *rules: AccessRule) -> Iterator[WebContext]:
    kept(path, exchanges)
    origins = Origins("http://127.0.0.1:1", "http://127.0.0.1:2")
    site = open_site(path, ServeSettings(), origins, Counters.make(), Tokens())
    try:
        if rules:
            site.access = Access(rules)
        yield site
    finally:
        site.archive.close()


def found(site: WebContext, url: str, timestamp: str = "") -> str:
    return Finder(site).find("main", url, timestamp).timestamp


def test_the_nearest_in_time_is_shown_and_without_a_time_the_newest(tmp_path: Path) -> None:
    pages = [html(URL, "20200101000000"), html(URL, "20220101000000"), html(URL, "20240101000000")]
    with site_of(tmp_path / "a", pages) as site:
        assert found(site, URL, "202012") == "20200101000000"
        assert found(site, URL, "202107") == "20220101000000"
        assert found(site, URL, "1999") == "20200101000000"
        assert found(site, URL) == "20240101000000"
        with pytest.raises(CaptureNotFound, match=r"'http://b\.example/' is not archived"):
            found(site, "http://b.example/")


def test_redirects_by_way_of_another_url_do_not_lead_in_a_circle(tmp_path: Path) -> None:
    """www leads to /index, and that to https without www, which has the key of the first."""
    pages = [
        answer("http://www.a.example/", "20240101000000", "302 Found", ["Location: http://a.example/index"]),
        answer("http://a.example/index", "20240101000000", "301 Moved", ["Location: https://a.example/"]),
        html("https://a.example/", "20240101000002"),
        answer("http://www.a.example/index", "20240101000009", "302 Found", ["Location: http://a.example/index"]),
        html("http://a.example/index", "20080101000000"),
    ]
    with site_of(tmp_path / "a", pages) as site:
        assert found(site, "http://www.a.example/", "20240101000000") == "20240101000000"
        assert found(site, "https://a.example", "20240101000000") == "20240101000002"
        assert found(site, "http://www.a.example/index", "20240101000009") == "20240101000000"
        assert found(site, "http://a.example/index", "2008") == "20080101000000"


def test_a_redirect_to_itself_is_passed_over(tmp_path: Path) -> None:
    """From http to https the key stays the same: the redirect would lead to itself for ever."""
    pages = [
        answer(URL, "20240101000000", "301 Moved", ["Location: https://a.example/"]),
        html("https://a.example/", "20240101000500"),
        answer("http://a.example/x", "20240101000000", "302 Found", ["Location: /y"]),
    ]
    with site_of(tmp_path / "a", pages) as site:
        assert found(site, URL, "20240101000000") == "20240101000500"
        assert found(site, "http://a.example/x", "2024") == "20240101000000"


def test_a_redirect_to_itself_that_is_alone_is_shown(tmp_path: Path) -> None:
    with site_of(tmp_path / "a", [answer(URL, "20240101000000", "301 Moved", ["Location: /"])]) as site:
        assert found(site, URL, "2024") == "20240101000000"


@pytest.mark.parametrize(
    ("kept_as", "asked_as"),
    [
        ("http://a.example/d.json?id=7&_=1700000000000", "http://a.example/d.json?id=7&_=1800000000000"),
        ("http://a.example/d.json?id=7", "http://a.example/d.json?id=7&cb=99"),
        ("http://a.example/d.json?id=7&_=1700000000000", "http://a.example/d.json?id=7"),
        ("http://a.example/i.png?1700000000", "http://a.example/i.png?1800000000"),
    ],
)
def test_parameters_against_caches_do_not_matter(tmp_path: Path, kept_as: str, asked_as: str) -> None:
    with site_of(tmp_path / "a", [answer(kept_as, "20240101000000", "200 OK", body=b"{}")]) as site:
        assert found(site, asked_as, "2024") == "20240101000000"


def test_other_parameters_do(tmp_path: Path) -> None:
    pages = [answer("http://a.example/d.json?id=7&_=1", "20240101000000", "200 OK", body=b"{}")]
    with site_of(tmp_path / "a", pages) as site, pytest.raises(CaptureNotFound):
        found(site, "http://a.example/d.json?id=8&_=1")


def test_an_excluded_capture_is_passed_over_and_a_blocked_one_refused(tmp_path: Path) -> None:
    pages = [html(URL, "20200101000000"), html(URL, "20240101000000"), html("http://b.example/", "20240101000000")]
    rules = (
        AccessRule("exclude", prefix=URL, from_="2024"),
        AccessRule("block", domain="b.example"),
    )
    with site_of(tmp_path / "a", pages, *rules) as site:
        assert found(site, URL, "2024") == "20200101000000"
        with pytest.raises(Blocked, match=r"'http://b\.example/' is blocked"):
            found(site, "http://b.example/")


def test_a_request_with_a_body_is_found_by_it(tmp_path: Path) -> None:
    def posted(body: bytes, timestamp: str) -> Exchange:
        request = (
            b"POST /s HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n" + body
        )
        response = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
        return Exchange("http://a.example/s", response, b"answer to " + body, timestamp, request)

    pages = [posted(b"q=one", "20240101000000"), posted(b"q=two", "20240102000000")]
    form = "application/x-www-form-urlencoded"
    with site_of(tmp_path / "a", pages) as site:
        finder = Finder(site)
        one = finder.find_posted("main", "http://a.example/s", "", "POST", (b"q=one", form))
        other = finder.find_posted("main", "http://a.example/s", "", "POST", (b"q=none", form))
        assert (one.timestamp, other.timestamp) == ("20240101000000", "20240102000000")
        with pytest.raises(CaptureNotFound):
            finder.find_posted("main", "http://a.example/s", "", "PUT", (b"q=one", form))


def test_collections_have_names(tmp_path: Path) -> None:
    with site_of(tmp_path / "a", [html(URL, "2024")]) as site:
        assert site.collection("web") == site.collection("main") == "main"
        assert site.collection("all") is None
        with pytest.raises(UnknownCollection, match="no collection 'other': known are main"):
            site.collection("other")


# -- revisits with an answer of their own ------------------------------------------------------------------------------

EMPTY = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


def revisit(url: str, time: str, head: str, *, digest: str = EMPTY, refers_to: str = "") -> bytes:
    """A record of a revisit that has the head of an answer, as crawlers write it."""
    block = head.replace("\n", "\r\n").encode() + b"\r\n\r\n"
    date = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[8:10]}:{time[10:12]}:{time[12:]}Z"
    lines = [
        "WARC/1.1",
        "WARC-Type: revisit",
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{time[2:]}>",
        f"WARC-Date: {date}",
        f"WARC-Target-URI: {url}",
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
        f"WARC-Payload-Digest: {digest}",
        *([f"WARC-Refers-To-Target-URI: {refers_to}", f"WARC-Refers-To-Date: {date}"] if refers_to else []),
        "Content-Type: application/http;msgtype=response",
        f"Content-Length: {len(block)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + block + b"\r\n\r\n"


def with_records(path: Path, exchanges: list[Exchange], *records: bytes) -> Path:
    """An archive with these captures, and with records as they are."""
    kept(path, exchanges)
    file = path.with_suffix(".warc")
    file.write_bytes(b"".join(records))
    with holdfast.open(path) as archive:
        assert sum(report.added for report in archive.import_files([file])) == len(records)
    return path


def test_a_redirect_that_is_a_revisit_does_not_lead_to_itself(tmp_path: Path) -> None:
    """Its payload, which is empty, was seen before; it is a redirect all the same, here from http to https."""
    moved = revisit(URL, "20240101000000", "HTTP/1.1 301 Moved\nLocation: https://a.example/\nContent-Type: text/html")
    on = revisit(f"{URL}x", "20240102000000", "HTTP/1.1 302 Found\nLocation: /y\nContent-Type: text/html")
    pages = [
        html("https://a.example/", "20200101000000"),
        html(f"{URL}x", "20230101000000"),
        html(f"{URL}y", "20240101000000"),
    ]
    path = with_records(tmp_path / "a", pages, moved, on)
    with serving(path) as there:
        address, seen = f"{there.replay}/main/20240101000000mp_/{URL}", set[str]()
        while (got := ask(address)).status == 302 or got.status == 301:
            assert address not in seen, "an endless redirect"
            seen.add(address)
            address = there.replay + got.headers["location"]
        assert (got.status, got.headers["memento-datetime"]) == (200, "Wed, 01 Jan 2020 00:00:00 GMT")
        led = ask(f"{there.replay}/main/20240102000000mp_/{URL}x")
        assert (led.status, led.headers["location"]) == (302, f"/main/20240102000000mp_/{URL}y")
        raw = ask(f"{there.replay}/main/20240102000000id_/{URL}x")
        assert (raw.status, raw.body) == (302, b""), "the payload of the redirect, not that of the page before it"
        rows = ask(f"{there.controls}/main/cdx?url={URL}x&resolveRevisits=true&fl=timestamp,status&output=text").text
        assert rows.splitlines() == ["20230101000000 200", "20240102000000 302"]


def test_a_redirect_that_is_a_revisit_of_nothing_that_is_here_still_leads_on(tmp_path: Path) -> None:
    body = "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    head = "HTTP/1.1 302 Found\nLocation: http://a.example/y\nContent-Length: 20"
    path = with_records(
        tmp_path / "a",
        [html(f"{URL}y", "20240101000001")],
        revisit(URL, "20240101000000", head, digest=body),
        revisit(f"{URL}empty", "20240101000002", "HTTP/1.1 404 Not Found"),
        revisit(f"{URL}gone", "20240101000003", "HTTP/1.1 200 OK\nContent-Type: text/html", digest=body),
    )
    with serving(path) as there:
        got = ask(f"{there.replay}/main/20240101000000mp_/{URL}")
        assert (got.status, got.headers["location"]) == (302, f"/main/20240101000000mp_/{URL}y")
        assert (got.body, got.headers["content-length"]) == (b"", "0")
        assert ask(f"{there.replay}/main/20240101000002mp_/{URL}empty").body == b"", "nothing is the whole of it"
        assert ask(f"{there.replay}/main/20240101000002id_/{URL}empty").headers["memento-datetime"]
        gone = ask(f"{there.replay}/main/20240101000003mp_/{URL}gone")
        assert (gone.status, "repeats one that is not in this archive" in gone.text) == (404, True)
        with holdfast.open(path, read_only=True) as archive:
            assert archive.get(f"{URL}empty").payload() == b""
            with archive.stream(StreamOptions(captures=CaptureQuery(url=f"{URL}empty"))) as stream:
                assert [(page.payload, page.unresolved) for page in stream] == [(b"", False)]


def test_a_revisit_that_is_found_without_its_cache_buster_is_a_page(tmp_path: Path) -> None:
    again = revisit(f"{URL}p?_=1", "20250101000000", "HTTP/1.1 304 Not Modified")
    path = with_records(tmp_path / "a", [html(f"{URL}p?_=1", "20200101000000")], again)
    with serving(path) as there:
        found = Finder(there.site).find("main", f"{URL}p?_=2", "2025")
        assert (found.timestamp, found.mime, found.status) == ("20250101000000", "text/html", "200")
