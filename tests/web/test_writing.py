"""Captures taken in over HTTP: durable when answered, known the second time, nothing changed by bad input."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pages_kept import html, kept
from serving import Answer, Served, ask, serving
from waiting import wait_until

import holdfast
from holdfast import Archive
from holdfast.archive.export import ExportOptions
from holdfast.config import ServeSettings
from holdfast.records.selection import Selection
from holdfast.web.api.write import writer
from holdfast.web.auth.tokens import Tokens

TOKEN = "w" * 32
BEARER = f"Bearer {TOKEN}"
URL = "http://example.com/page"
CDX = f"com,example)/page 20200102030405 {URL} text/html 200 {'A' * 32} - - 9 0 a.gz"
LIMIT = 100_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    holdfast.init(tmp_path / "archive")
    return tmp_path / "archive"


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with serving(path, ServeSettings(body_bytes_max=LIMIT), Tokens([], [TOKEN])) as found:
        yield found
        found.site.writer.settle()


def put(served: Served, body: bytes, query: str = "", content_type: str = "text/html", **headers: str) -> Answer:
    address = f"{served.controls}/api/captures?url={quote(URL, safe='')}{query}"
    return ask(address, "PUT", body, **{"Authorization": BEARER, "Content_Type": content_type, **headers})


def captures(path: Path) -> int:
    with Archive(path, read_only=True) as archive:
        return sum(total.captures for total in archive.catalog.totals()[0].values())


def test_a_payload_becomes_a_capture_that_replay_shows(served: Served, path: Path) -> None:
    answer = put(served, b"<p>hello</p>", "&timestamp=20200102030405")
    assert answer.status == 201, answer.text
    values = json.loads(answer.body)
    assert values["outcome"] == "added"
    assert values["new_content"] is True
    assert values["page"] == f"{served.controls}/main/20200102030405/{URL}"
    raw = ask(f"{served.replay}/main/20200102030405id_/{URL}")
    assert (raw.status, raw.body, raw.headers["content-type"]) == (200, b"<p>hello</p>", "text/html")
    served.site.writer.settle()
    with holdfast.open(path) as archive:
        assert str(archive.get(URL).id) == values["record"]
        assert archive.get(URL).payload() == b"<p>hello</p>"


def test_the_same_capture_again_is_known_and_the_same_content_is_stored_once(served: Served) -> None:
    first, again = (put(served, b"same", "&timestamp=20200102030405") for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert json.loads(again.body)["outcome"] == "known"
    assert json.loads(again.body)["record"] == json.loads(first.body)["record"]
    later = json.loads(put(served, b"same", "&timestamp=20210102030405").body)
    assert (later["outcome"], later["new_content"]) == ("added", False)


def test_a_whole_response_keeps_its_status_and_headers(served: Served) -> None:
    body = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX-Own: yes\r\n\r\ngone"
    answer = put(served, body, "&timestamp=20200102030405", "application/http;msgtype=response")
    assert answer.status == 201, answer.text
    raw = ask(f"{served.replay}/main/20200102030405id_/{URL}")
    assert (raw.status, raw.body, raw.headers["x-archive-orig-x-own"]) == (404, b"gone", "yes")


def test_the_address_of_a_page_is_one_whatever_its_url_holds(served: Served) -> None:
    url = "http://example.com/a b/ü?q=<x>"
    target = f"/api/captures?url={quote(url, safe='')}&timestamp=20200102030405"
    put_ = ask(f"{served.controls}{target}", "PUT", b"x", Authorization=BEARER, Content_Type="text/html")
    page = json.loads(put_.body)["page"]
    assert page == put_.headers["location"]
    assert page.isascii()
    assert not set(page) & set(' <>"')
    assert ask(page, Accept="text/html").status == 200
    listed = json.loads(ask(f"{served.controls}/api/captures?url=example.com/*").body)["captures"][0]
    assert listed["page"] == page
    assert ask(listed["raw"]).body == b"x"


def test_a_capture_goes_to_the_collection_that_is_named(served: Served) -> None:
    assert put(served, b"news", "&timestamp=20200102030405&collection=news").status == 201
    assert ask(f"{served.replay}/news/20200102030405id_/{URL}").body == b"news"
    assert ask(f"{served.controls}/main/20200102030405id_/{URL}").status == 404


@pytest.mark.parametrize(
    ("query", "content_type", "body"),
    [
        ("&timestamp=2020", "text/html", b"x"),
        ("&timestamp=20201399999999", "text/html", b"x"),
        ("&collection=all", "text/html", b"x"),
        ("&collection=api", "text/html", b"x"),
        ("&collection=No%20Name", "text/html", b"x"),
        ("&colection=a", "text/html", b"x"),
        ("&url=twice", "text/html", b"x"),
        ("&wait_safe=60", "text/html", b"x"),  # no node of a cluster
        ("&wait_safe=soon", "text/html", b"x"),
        ("", "application/http", b"no response"),
        ("", "application/http; msgtype=response", b"GET / HTTP/1.1\r\n\r\n"),
    ],
)
def test_bad_input_changes_nothing(served: Served, path: Path, query: str, content_type: str, body: bytes) -> None:
    answer = put(served, body, query, content_type)
    assert answer.status == 400, answer.text
    assert json.loads(answer.body)["status"] == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert captures(path) == 0


@pytest.mark.parametrize("url", ["", "no url", "http://exa mple.com/", "http://a.com/\r\nX: y"])
def test_what_is_no_url_is_refused(served: Served, path: Path, url: str) -> None:
    address = f"{served.controls}/api/captures?url={quote(url, safe='')}"
    assert ask(address, "PUT", b"x", Authorization=BEARER).status == 400
    assert captures(path) == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_nobody_else_writes(served: Served, path: Path, headers: dict[str, str], status: int) -> None:
    answer = put(served, b"x", **headers)
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
    posted = ask(f"{served.controls}/main", "POST", CDX.encode(), **{"Authorization": BEARER, **headers})
    assert posted.status == status
    assert captures(path) == 0


def test_nobody_writes_without_tokens(path: Path) -> None:
    with serving(path) as served:
        assert put(served, b"x").status == 403


def test_too_long_a_body_is_refused(served: Served, path: Path) -> None:
    answer = put(served, b"x" * (LIMIT + 1))
    assert answer.status == 413
    assert captures(path) == 0
    assert put(served, b"x" * LIMIT).status == 201


def test_many_writers_at_once_all_get_theirs(served: Served, path: Path) -> None:
    answers: list[Answer] = []

    def write(number: int) -> None:
        answers.append(put(served, b"%d" % number, f"&timestamp=202001020304{number:02d}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {201}
    assert len({json.loads(answer.body)["record"] for answer in answers}) == 24
    assert captures(path) == 24


def test_who_writes_meanwhile_is_named(served: Served, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.api.write.writer.WAIT_S", 0.2)
    with holdfast.open(path):
        answer = put(served, b"x")
    assert answer.status == 409
    assert answer.headers["retry-after"]
    assert "is being written by another process (pid " in json.loads(answer.body)["detail"]
    assert put(served, b"x").status == 201


def test_the_archive_is_let_go_when_nothing_is_written(served: Served, path: Path) -> None:
    assert put(served, b"x").status == 201

    def is_free() -> bool:
        try:
            with holdfast.open(path):
                return True
        except holdfast.errors.Busy:
            return False

    wait_until(is_free, "the archive to be closed")


def test_a_file_is_imported(served: Served, path: Path, tmp_path: Path) -> None:
    holdfast.init(tmp_path / "other")
    with holdfast.open(tmp_path / "other") as other:
        other.add([holdfast.page(URL, b"from a file", timestamp="20200102030405")])
        other.export(holdfast.Selection(), tmp_path / "a.warc.gz", holdfast.ExportOptions("warc.gz"))
    address = f"{served.controls}/api/warc?name=a.warc.gz"
    data = (tmp_path / "a.warc.gz").read_bytes()
    first, again = (ask(address, "POST", data, Authorization=BEARER) for _ in range(2))
    assert first.status == 200, first.text
    assert json.loads(first.body)["added"] == 2
    assert json.loads(again.body)["known"] == 2
    assert ask(f"{served.replay}/main/20200102030405id_/{URL}").body == b"from a file"


@pytest.mark.parametrize("how", ["cut", "none", "empty"])
def test_a_damaged_file_is_refused_as_a_whole(served: Served, path: Path, tmp_path: Path, how: str) -> None:
    holdfast.init(tmp_path / "other")
    with holdfast.open(tmp_path / "other") as other:
        other.add([holdfast.page(f"{URL}{number}", b"%d" % number * 999) for number in range(9)])
        other.export(holdfast.Selection(), tmp_path / "a.warc", holdfast.ExportOptions("warc"))
    whole = (tmp_path / "a.warc").read_bytes()
    data = {"cut": whole[: len(whole) // 2], "none": b"nothing of that kind\n" * 99, "empty": b""}[how]
    answer = ask(f"{served.controls}/api/warc", "POST", data, Authorization=BEARER)
    assert answer.status == 400, answer.text
    assert "nothing was imported" in json.loads(answer.body)["detail"]
    assert captures(path) == 0


def test_lines_of_cdx_are_taken_as_outbackcdx_does(served: Served, path: Path) -> None:
    for expected in ("Added 1 records\n", "Added 0 records\n"):
        answer = ask(
            f"{served.controls}/main", "POST", f" CDX N b a m s k r M S V g\n{CDX}\n".encode(), Authorization=BEARER
        )
        assert (answer.status, answer.text) == (200, expected)
    found = ask(f"{served.controls}/main/cdx?url={URL}&output=text")
    assert "20200102030405" in found.text
    shown = ask(f"{served.replay}/main/20200102030405id_/{URL}")
    assert shown.status == 404
    assert "a.gz" in shown.text


def test_a_bad_line_is_named_and_nothing_is_stored(served: Served, path: Path) -> None:
    answer = ask(f"{served.controls}/main", "POST", f"{CDX}\nnonsense\n".encode(), Authorization=BEARER)
    assert answer.status == 400
    assert "line 2" in answer.text
    assert captures(path) == 0


def test_what_was_removed_for_good_is_refused(served: Served, path: Path) -> None:
    assert put(served, b"x", "&timestamp=20200102030405").status == 201
    served.site.writer.settle()
    with holdfast.open(path) as archive:
        selection = holdfast.Selection(holdfast.CaptureQuery(url=URL))
        archive.remove(selection, holdfast.RemovalOptions("asked to", refuse=True))
    answer = put(served, b"x", "&timestamp=20200102030405")
    assert answer.status == 403
    assert "removed" in json.loads(answer.body)["detail"]


# -- the index ---------------------------------------------------------------------------------------------------------


def found(served: Served, word: str) -> list[str]:
    answer = ask(f"{served.controls}/api/search?q={word}")
    if answer.status == 404:  # there is no index yet
        return []
    return sorted(hit["url"] for hit in json.loads(answer.body)["hits"])


def test_what_is_put_is_found_by_its_words(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By PUT, by POST of a file; and while `index.automatic` is off, not."""
    assert put(served, b"<p>unseen walrus", "&timestamp=20190102030405").status == 201
    monkeypatch.setenv("HOLDFAST_INDEX_AUTOMATIC", "true")
    monkeypatch.setattr(writer, "_PAUSE_MAX_S", 1.0)  # however long an update takes on a busy machine
    assert put(served, b"<p>a grey whale", "&timestamp=20200102030405").status == 201
    wait_until(lambda: found(served, "whale") == [URL], "the page that was put is found")
    other = tmp_path / "other"
    kept(other, [html("http://b.example/", "20210102030405", "<p>another whale")])
    with holdfast.open(other, read_only=True) as archive:
        archive.export(Selection(), tmp_path / "b.warc", ExportOptions("warc"))
    sent = ask(f"{served.controls}/api/warc", "POST", (tmp_path / "b.warc").read_bytes(), Authorization=BEARER)
    assert sent.status == 200, sent.text
    wait_until(lambda: found(served, "whale") == ["http://b.example/", URL], "the page of the file is found, too")
    assert found(served, "walrus") == [URL], "indexed with what came after it"
