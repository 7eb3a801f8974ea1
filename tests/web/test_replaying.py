"""Captures as answers: as they were, and rewritten (W17, H8, P)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_kept import answer, html, kept
from serving import Served, ask, serving

import holdfast
from holdfast.archive.ingest.exchange import Exchange, page

A = "http://a.example"
TIME = "20240102030405"
POLICY = "Content-Security-Policy"
FORM = "application/x-www-form-urlencoded"
POST = f"POST /form HTTP/1.1\r\nHost: a.example\r\nContent-Type: {FORM}\r\n\r\nq=1".encode()
REVISIT = (
    b"WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
    b"WARC-Date: 2025-01-02T03:04:05Z\r\nWARC-Target-URI: http://a.example/same\r\nContent-Length: 29\r\n"
    b"WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n"
    b"WARC-Refers-To-Target-URI: http://a.example/same\r\nWARC-Refers-To-Date: 2024-01-02T03:04:05Z\r\n"
    b"Content-Type: application/http;msgtype=response\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n\r\n\r\n"
)
LARGE = bytes(range(256)) * (3 << 12)  # 3 MiB


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    zipped = gzip.compress(b"body { background: url(//cdn.example/b.png) }")
    first = "<html><head><title>t</title></head><body><a href='http://b.example/x'>x</a><img src=/i.png>"
    html_type, odd = "Content-Type: text/html", "Set-Cookie: a=b; Domain=a.example; Path=/x"
    captures = [
        html(f"{A}/", TIME, first),
        html(f"{A}/", "20250102030405", "<html>later"),
        page(f"{A}/i.png", b"\x89PNG", "image/png", TIME),
        answer(f"{A}/s.css", TIME, "200 OK", ["Content-Type: text/css", "Content-Encoding: gzip"], zipped),
        page(f"{A}/d.json", b'{"u": "http://b.example/"}', "application/json", TIME),
        page(f"{A}/film.mp4", LARGE, "video/mp4", TIME),
        answer(f"{A}/old", TIME, "301 Moved", ["Location: http://b.example/new?x=1"]),
        answer(f"{A}/gone", TIME, "404 Not Found", [html_type], b"<p>not here"),
        answer(f"{A}/odd", TIME, "200 OK", [html_type, odd, f"{POLICY}: default-src 'none'", "X-Powered-By: luck"]),
        Exchange(f"{A}/form", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"sent", TIME, POST),
    ]
    path = kept(tmp_path_factory.mktemp("replay") / "archive", captures)
    kept(path, [html("http://news.example/", TIME)], "news")
    with serving(path) as there:
        yield there


def test_a_page_comes_rewritten_with_its_memento_headers(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIME}mp_/{A}/")
    assert got.status == 200
    assert got.headers["memento-datetime"] == "Tue, 02 Jan 2024 03:04:05 GMT"
    assert f'<{A}/>; rel="original"' in got.headers["link"]
    assert f"/main/{TIME}mp_/http://b.example/x" in got.text
    assert f"/main/{TIME}im_/{A}/i.png" in got.text
    assert "/_hf/runtime.js" in got.text
    assert "connect-src 'self'" in got.headers["content-security-policy"]
    assert "http:" not in got.headers["content-security-policy"].partition("frame-ancestors")[0]
    assert got.headers["content-length"] == str(len(got.body))


def test_raw_bytes_are_those_of_the_capture_on_both_origins_and_run_nowhere(served: Served) -> None:
    for origin in (served.controls, served.replay):
        got = ask(f"{origin}/main/{TIME}id_/{A}/")
        assert got.body.startswith(b"<html><head><title>t</title></head>")
        assert got.headers["content-security-policy"].startswith("sandbox;")
        assert got.headers["memento-datetime"]


def test_a_document_is_asked_for_at_its_exact_time_first_and_its_parts_are_not(served: Served) -> None:
    page_ = ask(f"{served.replay}/main/2024mp_/{A}/", Sec_Fetch_Dest="iframe")
    assert (page_.status, page_.headers["location"]) == (302, f"/main/{TIME}mp_/{A}/")
    bare = ask(f"{served.replay}/main/{TIME}mp_/{A}", Sec_Fetch_Dest="iframe")
    assert (bare.status, bare.headers["location"]) == (302, f"/main/{TIME}mp_/{A}/")
    part = ask(f"{served.replay}/main/2023im_/{A}/i.png", Sec_Fetch_Dest="image")
    assert (part.status, part.body) == (200, b"\x89PNG")
    assert part.headers["memento-datetime"] == "Tue, 02 Jan 2024 03:04:05 GMT"


def test_encodings_are_kept_where_they_are_understood_and_undone_to_rewrite(served: Served) -> None:
    raw = ask(f"{served.replay}/main/{TIME}id_/{A}/s.css", Accept_Encoding="gzip")
    assert raw.headers["content-encoding"] == "gzip"
    assert b"//cdn.example" in gzip.decompress(raw.body)
    plain = ask(f"{served.replay}/main/{TIME}id_/{A}/s.css")
    assert (plain.headers["content-encoding"], plain.body[:4]) == (None, b"body")
    style = ask(f"{served.replay}/main/{TIME}cs_/{A}/s.css", Accept_Encoding="gzip")
    assert f"/main/{TIME}im_/http://cdn.example/b.png".encode() in style.body
    assert style.headers["content-encoding"] is None


def test_json_is_left_alone(served: Served) -> None:
    for modifier in ("mp_", "js_"):
        assert ask(f"{served.replay}/main/{TIME}{modifier}/{A}/d.json").body == b'{"u": "http://b.example/"}'


@pytest.mark.parametrize(
    ("wanted", "status", "begin", "end"),
    [
        ("bytes=0-99", 206, 0, 100),
        ("bytes=3000000-", 206, 3000000, len(LARGE)),
        ("bytes=-5", 206, len(LARGE) - 5, len(LARGE)),
        ("bytes=0-99999999", 206, 0, len(LARGE)),
        ("bytes=1-2,4-5", 200, 0, len(LARGE)),
        ("lines=1-2", 200, 0, len(LARGE)),
        ("bytes=5-2", 200, 0, len(LARGE)),
        ("bytes=0-" + "9" * 5000, 206, 0, len(LARGE)),
        ("bytes=-" + "9" * 5000, 206, 0, len(LARGE)),
        ("bytes=" + "0" * 5000 + "3-4", 206, 3, 5),
    ],
)
def test_ranges(served: Served, wanted: str, status: int, begin: int, end: int) -> None:
    got = ask(f"{served.replay}/main/{TIME}im_/{A}/film.mp4", Range=wanted)
    assert (got.status, got.body) == (status, LARGE[begin:end])
    if status == 206:
        assert got.headers["content-range"] == f"bytes {begin}-{end - 1}/{len(LARGE)}"


def test_a_range_beyond_the_end_is_refused(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIME}im_/{A}/film.mp4", Range="bytes=99999999-")
    assert (got.status, got.headers["content-range"]) == (416, f"bytes */{len(LARGE)}")
    assert ask(f"{served.replay}/main/{TIME}im_/{A}/film.mp4", Range="bytes=" + "9" * 5000 + "-").status == 416


def test_a_range_of_another_version_is_the_whole(served: Served) -> None:
    address = f"{served.replay}/main/{TIME}im_/{A}/film.mp4"
    tag = ask(address).headers["etag"]
    assert ask(address, Range="bytes=0-9", If_Range=tag).status == 206
    for other in ('"other"', f"W/{tag}", "Mon, 01 Jan 2024 00:00:00 GMT"):
        got = ask(address, Range="bytes=0-9", If_Range=other)
        assert (got.status, len(got.body)) == (200, len(LARGE))


def test_redirects_lead_into_the_archive_and_errors_are_what_they_were(served: Served) -> None:
    moved = ask(f"{served.replay}/main/{TIME}mp_/{A}/old")
    assert (moved.status, moved.headers["location"]) == (301, f"/main/{TIME}mp_/http://b.example/new?x=1")
    assert ask(f"{served.replay}/main/{TIME}mp_/{A}/gone").status == 404


def test_headers_of_the_server_do_nothing_here(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIME}mp_/{A}/odd")
    assert got.headers["x-archive-orig-x-powered-by"] == "luck"
    assert got.headers["x-archive-orig-content-security-policy"] == "default-src 'none'"
    assert len(got.headers.get_all("content-security-policy")) == 1
    assert f"Path=/main/{TIME}mp_/{A}/x".lower() in got.headers["set-cookie"].lower()
    assert "domain" not in got.headers["set-cookie"].lower()


def test_what_was_posted_is_found_by_its_body(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIME}mp_/{A}/form", "POST", b"q=1", Content_Type=FORM)
    assert (got.status, got.body) == (200, b"sent")
    assert ask(f"{served.replay}/main/{TIME}mp_/{A}/", "POST", b"q=1", Content_Type=FORM).status == 404


def test_an_unchanged_page_is_not_sent_again(served: Served) -> None:
    first = ask(f"{served.replay}/main/{TIME}mp_/{A}/")
    again = ask(f"{served.replay}/main/{TIME}mp_/{A}/", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_a_head_has_no_body(served: Served) -> None:
    for address in (f"{TIME}mp_/{A}/", f"{TIME}im_/{A}/film.mp4", f"{TIME}id_/{A}/s.css"):
        got, whole = (ask(f"{served.replay}/main/{address}", method) for method in ("HEAD", "GET"))
        assert (got.status, got.body) == (200, b"")
        assert got.headers["content-length"] == whole.headers["content-length"]


def test_an_address_that_a_script_made_up_leads_back_into_the_archive(served: Served) -> None:
    page_ = f"{served.replay}/main/{TIME}mp_/{A}/dir/"
    got = ask(f"{served.replay}/i.png?x=1", Referer=page_)
    assert (got.status, got.headers["location"]) == (307, f"/main/{TIME}mp_/{A}/i.png?x=1")
    assert ask(f"{served.replay}/i.png").status == 404
    assert ask(f"{served.replay}/i.png", Referer=f"http://evil.example/main/{TIME}mp_/{A}/").status == 404


def test_collections_are_apart_and_all_of_them_are_one(served: Served) -> None:
    address = "http://news.example/"
    assert ask(f"{served.replay}/news/{TIME}mp_/{address}").status == 200
    assert ask(f"{served.replay}/all/{TIME}mp_/{address}").status == 200
    assert ask(f"{served.replay}/main/{TIME}mp_/{address}").status == 404
    assert ask(f"{served.replay}/nowhere/{TIME}mp_/{address}").status == 404


def test_a_script_that_is_missing_is_no_error_of_types(served: Served) -> None:
    """A browser reports that it is missing, as it did live, and nothing else."""
    told = ask(f"{served.replay}/main/{TIME}js_/http://nowhere.example/s.js")
    assert (told.status, told.body) == (404, b"")
    assert told.headers["Content-Type"].startswith("text/javascript")


def test_the_controls_show_a_banner_to_people_and_send_programs_on(served: Served) -> None:
    banner = ask(f"{served.controls}/main/{TIME}/{A}/", Accept="text/html,*/*")
    assert banner.status == 200
    assert f"{served.replay}/_hf/enter" in banner.text
    assert banner.headers["memento-datetime"]
    program = ask(f"{served.controls}/main/{TIME}/{A}/", Accept="*/*")
    assert (program.status, program.headers["location"]) == (302, f"{served.replay}/main/{TIME}mp_/{A}/")
    picture = ask(f"{served.controls}/main/{TIME}/{A}/i.png", Accept="text/html,*/*")
    assert picture.headers["location"] == f"{served.replay}/main/{TIME}mp_/{A}/i.png"
    for modifier in ("mp_", "js_", "if_"):
        moved = ask(f"{served.controls}/main/{TIME}{modifier}/{A}/")
        assert moved.headers["location"] == f"{served.replay}/main/{TIME}{modifier}/{A}/"


def test_what_is_added_is_seen_and_what_is_removed_is_gone(served: Served, tmp_path: Path) -> None:
    from waiting import wait_until

    from holdfast.archive.removal import RemovalOptions
    from holdfast.records.selection import Selection

    address = "http://new.example/"
    path = kept(tmp_path / "archive", [html(f"{A}/", TIME)])
    with serving(path) as there:
        assert ask(f"{there.replay}/main/{TIME}mp_/{address}").status == 404
        kept(path, [html(address, TIME)])
        wait_until(lambda: ask(f"{there.replay}/main/{TIME}mp_/{address}").status == 200, "the new capture")
        with holdfast.open(path) as archive:
            archive.remove(Selection(holdfast.CaptureQuery(url=address)), RemovalOptions(reason="test"))
        wait_until(lambda: ask(f"{there.replay}/main/{TIME}mp_/{address}").status == 404, "its removal")


def test_an_unchanged_capture_is_shown_like_the_one_it_repeats(tmp_path: Path) -> None:
    """A revisit: with its banner, at its exact time, and with the runtime, also if a script had asked for it before."""
    first, again, address = TIME, "20250102030405", "http://a.example/same"
    path = kept(tmp_path / "archive", [html(address, first)])
    file = tmp_path / "again.warc"
    file.write_bytes(REVISIT)
    with holdfast.open(path) as archive:
        assert all(report.added for report in archive.import_files([file]))
    with serving(path) as there:
        banner = ask(f"{there.controls}/main/{again}/{address}", Accept="text/html")
        assert (banner.status, "/_hf/enter" in banner.text) == (200, True)
        moved = ask(f"{there.replay}/main/{int(again) + 1}mp_/{address}", Sec_Fetch_Dest="iframe")
        assert (moved.status, moved.headers["location"]) == (302, f"/main/{again}mp_/{address}")
        fetched = ask(f"{there.replay}/main/{again}mp_/{address}", Sec_Fetch_Dest="empty")
        page_ = ask(f"{there.replay}/main/{again}mp_/{address}", Sec_Fetch_Dest="iframe")
        assert ("/_hf/runtime.js" in fetched.text, "/_hf/runtime.js" in page_.text) == (False, True)
        assert fetched.headers["etag"] != page_.headers["etag"]
        original = ask(f"{there.replay}/main/{first}mp_/{address}", Sec_Fetch_Dest="iframe")
        assert page_.headers["content-security-policy"] == original.headers["content-security-policy"]
