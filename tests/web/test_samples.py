"""Real captures, replayed by the real server: contents, redirects, revisits, times and links (W17, H8, I10, P)."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from urllib.parse import quote, urljoin

import pytest
from sample_captures import COLLECTIONS, SAMPLES, Sampled, sampled
from serving import Answer, Served, ask, serving

import holdfast
from holdfast.archive.ingest.importer import ImportOptions
from holdfast.urls import url_key

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not on this machine")

# What a browser would fetch or go to; preconnections are taken out of a page, namespaces and the like are no links.
_LINKS = {
    "a": ("href",),
    "area": ("href",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "body": ("background",),
    "table": ("background",),
    "td": ("background",),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("samples") / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        for collection, names in COLLECTIONS.items():
            files = [SAMPLES / name for name in names]
            for report in archive.import_files(files, ImportOptions(collection=collection)):
                assert report.added, report.name
    with serving(path) as there:
        yield there


every_collection = pytest.mark.parametrize("collection", list(COLLECTIONS))


def replay(served: Served, each: Sampled, modifier: str, **headers: str) -> Answer:
    return ask(f"{served.replay}/{each.collection}/{each.timestamp}{modifier}/{each.url}", **headers)


def by_capture(collection: str) -> dict[tuple[str, str], list[Sampled]]:
    """Records with the same key and second are one capture to those who ask: any of them may come."""
    found = defaultdict(list)
    for each in sampled(collection):
        found[url_key(each.url), each.timestamp].append(each)
    return found


@every_collection
def test_raw_captures_have_the_bytes_status_and_time_that_were_captured(served: Served, collection: str) -> None:
    for same in by_capture(collection).values():
        if any(each.kind == "revisit" or leads_to_itself(each) for each in same):
            continue  # below
        got = replay(served, same[0], "id_")
        assert got.body in [each.payload for each in same], same[0]
        assert got.status in [each.status or 200 for each in same], same[0]
        assert stamp(got.headers["memento-datetime"]) == same[0].timestamp


@every_collection
def test_redirects_lead_to_where_they_led_and_stay_in_the_archive(served: Served, collection: str) -> None:
    redirects = [each for each in sampled(collection) if 300 <= each.status < 400 and each.location]
    keys = {url_key(each.url) for each in sampled(collection)}
    for each in redirects:
        target = urljoin(each.url, each.location)
        got = replay(served, each, "mp_")
        if leads_to_itself(each):  # as from http to https: what was reached is shown
            assert followed(served, got).status == 200
            continue
        assert got.status == each.status
        assert got.headers["location"].rstrip("/") == f"/{collection}/{each.timestamp}mp_/{target}".rstrip("/")
        if url_key(target) in keys:
            assert followed(served, got).headers["memento-datetime"]


def followed(served: Served, got: Answer) -> Answer:
    """What is at the end of redirects, all of which stay on the replay origin."""
    for _ in range(10):
        if got.status not in (301, 302, 303, 307, 308):
            return got
        location = got.headers["location"]
        assert location.startswith("/") and not location.startswith("//"), location
        got = ask(served.replay + location)
    raise AssertionError("too many redirects")


def leads_to_itself(each: Sampled) -> bool:
    return 300 <= each.status < 400 and url_key(urljoin(each.url, each.location)) == url_key(each.url)


def test_there_are_redirects_whose_targets_were_captured() -> None:
    keys = {url_key(each.url) for each in sampled("blackbook")}
    assert any(url_key(urljoin(each.url, each.location)) in keys for each in sampled("blackbook") if each.location)


def test_revisits_have_the_content_of_what_they_repeat_at_their_own_time(served: Served) -> None:
    revisits = [each for name in ("dedup", "others") for each in sampled(name) if each.kind == "revisit"]
    assert len(revisits) >= 4
    for each in revisits:
        records = sampled(each.collection)
        before = [other for other in records if other.kind == "response" and url_key(other.url) == url_key(each.url)]
        original = max((other for other in before if other.timestamp <= each.timestamp), key=lambda one: one.timestamp)
        raw = replay(served, each, "id_")
        assert (raw.status, raw.body) == (200, original.payload), each
        assert each.timestamp == stamp(raw.headers["memento-datetime"])
        page = replay(served, each, "mp_")
        assert page.status == 200
        if each.is_page or original.is_page:
            assert b"/_hf/runtime.js" in page.body


def test_a_compressed_capture_is_sent_as_it_is_to_those_who_understand(served: Served) -> None:
    (each,) = (each for each in sampled("others") if each.kind == "response" and each.url == "http://example.com/")
    got = replay(served, each, "id_", Accept_Encoding="gzip")
    assert got.headers["content-encoding"] == "gzip"
    assert gzip.decompress(got.body) == each.payload


@every_collection
def test_pages_keep_their_status_and_no_link_leads_out_of_the_archive(served: Served, collection: str) -> None:
    pages = 0
    for same in by_capture(collection).values():
        each = same[0]
        if not all(one.is_page and not 300 <= one.status < 400 for one in same):
            continue
        got = replay(served, each, "mp_")
        assert got.status in [one.status or 200 for one in same], each
        assert links_out(got.body.decode("latin-1")) == [], each.url
        pages += 1
    assert pages


def links_out(page: str) -> list[tuple[str, str, str]]:
    """Links to other places, by a parser that the server does not use."""
    found: list[tuple[str, str, str]] = []

    class Links(HTMLParser):
        CDATA_CONTENT_ELEMENTS = ("script", "style", "iframe", "noembed", "noframes", "xmp")  # as HTML has it

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            for name, value in attributes:
                address = (value or "").strip().lower()
                if name in _LINKS.get(tag, ()) and address.startswith(("http:", "https:", "//")):
                    found.append((tag, name, value or ""))

    parser = Links()
    parser.feed(page)
    parser.close()
    return found


@every_collection
def test_styles_and_scripts_of_pages_are_served_with_their_types(served: Served, collection: str) -> None:
    for each in sampled(collection):
        if each.kind == "response" and each.status == 200 and each.mime in ("text/css", "text/javascript"):
            got = replay(served, each, "cs_" if each.mime == "text/css" else "js_")
            assert got.status == 200
            assert (got.headers["content-type"] or "").startswith(each.mime)
            if each.mime == "text/css":
                assert b"url(http" not in got.body.replace(b"'", b"").replace(b'"', b"")


@every_collection
def test_cdx_server_and_timemap_tell_of_every_capture(served: Served, collection: str) -> None:
    expected = defaultdict(set)
    for each in sampled(collection):
        expected[url_key(each.url)].add((each.url, each.timestamp))
    for captures in expected.values():
        url = next(iter(captures))[0]
        times = {timestamp for _, timestamp in captures}
        lines = ask(f"{served.controls}/{collection}/cdx?matchType=exact&url={quote(url, safe='')}").text.splitlines()
        assert times <= {line.split()[1] for line in lines}
        for line in lines:
            assert json.loads(line.split(" ", 2)[2])["url"]
        timemap = ask(f"{served.controls}/{collection}/timemap/link/{url}")
        assert timemap.status == 200
        assert all(f"/{collection}/{time}/" in timemap.text for time in times)


def stamp(http_date: str | None) -> str:
    return f"{datetime.strptime(http_date or '', '%a, %d %b %Y %H:%M:%S GMT'):%Y%m%d%H%M%S}"
