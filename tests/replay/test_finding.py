"""Which capture is shown for a URL and a time (H8, P)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pages_kept import answer, html, kept

from holdfast.archive.exchange import Exchange
from holdfast.config import AccessRule, ServeSettings
from holdfast.errors import Blocked, CaptureNotFound, UnknownCollection
from holdfast.replay.access import Access
from holdfast.replay.finding import Finder
from holdfast.replay.server.counters import Counters
from holdfast.replay.site import Origins, Site, open_site
from holdfast.replay.tokens import Tokens

URL = "http://a.example/"


@contextmanager
def site_of(path: Path, exchanges: list[Exchange], *rules: AccessRule) -> Iterator[Site]:
    kept(path, exchanges)
    origins = Origins("http://127.0.0.1:1", "http://127.0.0.1:2")
    site = open_site(path, ServeSettings(), origins, Counters.make(), Tokens())
    try:
        if rules:
            site.access = Access(rules)
        yield site
    finally:
        site.archive.close()


def found(site: Site, url: str, timestamp: str = "") -> str:
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
