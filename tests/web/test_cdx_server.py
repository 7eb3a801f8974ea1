"""The CDX server: one grammar in three habits, whole or streamed, bounded and with rules obeyed (I10, P)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest
from pages_kept import answer, html, kept
from serving import Served, ask, serving
from waiting import wait_until

from holdfast.archive.ingest.exchange import page
from holdfast.config import AccessRule, ServeSettings
from holdfast.errors import TooLarge
from holdfast.web.api.cdx import server
from holdfast.web.auth.access import Access
from holdfast.web.server.bounded_scan import ScanBudget, ScanWatch, Spent

A = "http://a.example"
FIRST, SECOND, THIRD = "20240102030405", "20240203040506", "20250102030405"
MANY = 700


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    captures = [
        html(f"{A}/", FIRST, "one"),
        html(f"{A}/", SECOND, "two"),
        html(f"{A}/", THIRD, "two"),
        answer(f"{A}/gone", FIRST, "404 Not Found", ["Content-Type: text/html"]),
        page(f"{A}/i.png?x=1&y=2", b"\x89PNG", "image/png", FIRST),
        html("http://sub.a.example/", FIRST),
        *(html(f"{A}/often", str(20200101000000 + n)) for n in range(60)),
        *(html(f"http://many.example/{n:04}", FIRST) for n in range(MANY)),
    ]
    path = kept(tmp_path_factory.mktemp("cdx") / "archive", captures)
    return kept(path, [html("http://news.example/", FIRST)], "news")


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with serving(path) as there:
        yield there


def cdx(served: Served, *, at: str = "/main/cdx", **params: str | list[str]) -> str:
    got = ask(f"{served.controls}{at}?{urlencode(params, doseq=True)}")
    assert got.status == 200, got.text
    return got.text


def stamps(text: str) -> list[str]:
    return [line.split(" ")[1] for line in text.splitlines()]


def test_lines_are_cdxj_unless_another_form_is_asked_for(served: Served) -> None:
    lines = cdx(served, url=f"{A}/").splitlines()
    assert [line.split(" ", 2)[:2] for line in lines] == [["example,a)/", each] for each in (FIRST, SECOND, THIRD)]
    told = json.loads(lines[0].split(" ", 2)[2])
    assert (told["url"], told["mime"], told["status"]) == (f"{A}/", "text/html", "200")
    assert ask(f"{served.controls}/main/cdx?url={A}/").headers["content-type"] == "text/x-cdxj"


@pytest.mark.parametrize(
    ("output", "content_type"),
    [
        ("cdxj", "text/x-cdxj"),
        ("json", "application/x-ndjson"),
        ("text", "text/plain; charset=utf-8"),
        ("cdx", "text/plain; charset=utf-8"),
        ("link", "application/link-format"),
    ],
)
def test_every_form_has_its_type_and_is_the_same_at_once_and_streamed(
    served: Served, monkeypatch: pytest.MonkeyPatch, output: str, content_type: str
) -> None:
    at_once = ask(f"{served.controls}/main/cdx?url={A}/&output={output}")
    assert at_once.headers["content-type"] == content_type
    assert "content-length" in at_once.headers
    monkeypatch.setattr(server, "_AT_ONCE", 1)
    streamed = ask(f"{served.controls}/main/cdx?url={A}/&output={output}")
    assert streamed.headers["transfer-encoding"] == "chunked"
    assert streamed.body == at_once.body
    assert streamed.headers["content-type"] == content_type


def test_pywbs_json_is_an_object_a_line_and_the_archives_an_array_with_a_header(served: Served) -> None:
    objects = [json.loads(line) for line in cdx(served, url=f"{A}/", output="json").splitlines()]
    assert [each["timestamp"] for each in objects] == [FIRST, SECOND, THIRD]
    assert list(objects[0])[:4] == ["urlkey", "timestamp", "url", "mime"]
    rows = json.loads(cdx(served, at="/cdx/search/cdx", url=f"{A}/", output="json"))
    assert rows[0] == ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
    assert [row[1] for row in rows[1:]] == [FIRST, SECOND, THIRD]
    assert cdx(served, at="/cdx/search/cdx", url="http://nowhere.example/", output="json") == "[]\n"


def test_the_archives_form_is_text_of_seven_fields_and_its_filters_are_expressions_for_whole_fields(
    served: Served,
) -> None:
    lines = cdx(served, at="/cdx/search/cdx", url="a.example/*").splitlines()
    assert all(len(line.split(" ")) == 7 for line in lines)
    found = cdx(served, at="/cdx/search/cdx", url="a.example/*", filter="statuscode:4..", fl="original")
    assert found == f"{A}/gone\n"
    assert cdx(served, at="/cdx/search/cdx", url="a.example/*", filter="statuscode:4") == ""
    others = cdx(served, at="/cdx/search/cdx", url="a.example/*", filter=["!mimetype:text/.*"], fl="mimetype")
    assert others == "image/png\n"


def test_a_collection_asked_as_outbackcdx_gives_cdx_lines_without_a_header(served: Served) -> None:
    lines = cdx(served, at="/main", url=f"{A}/").splitlines()
    assert [len(line.split(" ")) for line in lines] == [11, 11, 11]
    assert lines[0].startswith(f"example,a)/ {FIRST} {A}/ text/html 200 ")


def test_the_grammar_reaches_the_catalog(served: Served) -> None:
    assert stamps(cdx(served, url=f"{A}/", limit="1")) == [FIRST]
    assert stamps(cdx(served, url=f"{A}/", limit="-1")) == [THIRD]
    assert stamps(cdx(served, url=f"{A}/", sort="reverse")) == [THIRD, SECOND, FIRST]
    assert stamps(cdx(served, url=f"{A}/", closest="202402", limit="1")) == [SECOND]
    assert stamps(cdx(served, url=f"{A}/", closest="202402")) == [SECOND, FIRST, THIRD]
    assert stamps(cdx(served, url=f"{A}/", sort="closest", closest="")) == [FIRST, SECOND, THIRD]
    assert stamps(cdx(served, url=f"{A}/", to="2024")) == [FIRST, SECOND]
    assert stamps(cdx(served, url=f"{A}/", collapse="digest")) == [FIRST, SECOND]
    assert cdx(served, url="a.example/*", filter=["=status:200", "~mime:image/"], fl="url", output="text") == (
        f"{A}/i.png?x=1&y=2\n"
    )
    assert cdx(served, url="*.a.example", fl="urlkey", output="text", collapse="urlkey").splitlines() == [
        "example,a)/",
        "example,a)/gone",
        "example,a)/i.png?x=1&y=2",
        "example,a)/often",
        "example,a,sub)/",
    ]


def test_collections_are_apart_and_all_is_all_of_them(served: Served) -> None:
    assert cdx(served, at="/news/cdx", url=f"{A}/") == ""
    assert stamps(cdx(served, at="/all/cdx", url="news.example/")) == [FIRST]
    assert stamps(cdx(served, at="/web/cdx", url="a.example/", limit="1")) == [FIRST]
    unknown = ask(f"{served.controls}/nothing-like-it/cdx?url=a.example")
    assert (unknown.status, unknown.text.count("\n")) == (404, 1)


def test_a_long_answer_is_streamed_and_parted_by_resume_keys(served: Served) -> None:
    whole = cdx(served, url="many.example/*")
    assert whole.count("\n") == MANY
    parts: list[str] = []
    params = {"url": "many.example/*", "limit": "300", "showResumeKey": "true"}
    while True:
        lines = cdx(served, **params).splitlines()
        more = "" in lines
        parts += lines[:-2] if more else lines
        if not more:
            break
        params["resumeKey"] = lines[-1]
    assert parts == whole.splitlines()


def test_the_servers_own_limit_ends_an_answer_with_a_key_so_that_it_does_not_look_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.web.api.cdx.server.LINES_MAX", 100)
    with serving(path) as there:
        lines = cdx(there, url="many.example/*").splitlines()
        assert (len(lines), lines[-2]) == (102, "")
        assert cdx(there, url="many.example/*", resumeKey=lines[-1]).splitlines()[0].startswith("example,many)/0100 ")


def test_pages_are_numbered_and_end_as_clients_of_each_habit_expect(served: Served) -> None:
    told = json.loads(cdx(served, url="many.example/*", showNumPages="true"))
    assert told["pages"] >= 1
    assert told["pageSize"] == 10
    assert cdx(served, at="/cdx/search/cdx", url="many.example/*", showNumPages="true") == f"{told['pages']}\n"
    together = "".join(cdx(served, url="many.example/*", page=str(n)) for n in range(told["pages"]))
    assert together == cdx(served, url="many.example/*")
    assert ask(f"{served.controls}/main/cdx?url=many.example/*&page={told['pages']}").status == 400
    assert cdx(served, at="/cdx/search/cdx", url="many.example/*", page=str(told["pages"])) == ""


def test_a_query_may_be_posted_and_headers_asked_for_alone(served: Served) -> None:
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    body = urlencode({"url": "a.example/*", "filter": "~url:.*" + "(x|y)" * 150 + "|.*gone$"}).encode()
    got = ask(f"{served.controls}/main/cdx", "POST", body, **form)
    assert (got.status, got.text.count("\n")) == (200, 1)
    assert ask(f"{served.controls}/main/cdx", "POST", b"{}", Content_Type="application/json").status == 400
    for url in (f"{A}/", "many.example/*"):
        head = ask(f"{served.controls}/main/cdx?url={url}", "HEAD")
        assert (head.status, head.body, head.headers["content-type"]) == (200, b"", "text/x-cdxj")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("url=a.example&sort=up", 400),
        ("url=a.example&output=xml", 400),
        ("url=a.example&limit=many", 400),
        ("url=a.example&limit=" + "9" * 5000, 400),
        ("url=a.example&limit=-" + "9" * 30, 400),
        ("url=a.example&page=999999999999&pageSize=999999999999", 400),
        ("url=a.example&closest=eleven", 400),
        ("url=a.example&closest=eleven&limit=1", 400),
        ("url=a.example&filter=~url:(?=a)", 400),
        ("url=a.example&" + "&".join(["filter=~url:a"] * 33), 400),
        ("url=a.example&" + "&".join(["gzip=false"] * 300), 400),
        ("url=*&limit=-100000", 413),
        ("url=*&sort=closest&closest=2024&limit=1&offset=99999", 413),
        ("url=a.example&from=2024&colapse=digest", 400),
        ("url=a.example&resumeKey=zzz", 400),
    ],
)
def test_what_makes_no_sense_or_asks_too_much_is_one_line_that_says_so(served: Served, query: str, status: int) -> None:
    got = ask(f"{served.controls}/main/cdx?{query}")
    assert (got.status, got.text.count("\n")) == (status, 1), got.text
    assert got.headers["content-type"] == "text/plain; charset=utf-8"
    told = ask(f"{served.controls}/main/cdx?{query.replace('output=xml', 'sort=up')}&output=json")
    assert told.status == status
    assert json.loads(told.text)["error"]


def test_odd_bytes_in_urls_come_through(served: Served) -> None:
    assert ask(f"{served.controls}/main/cdx?url=a.example/%ff%00%0d%0a").status == 200
    assert ask(f"{served.controls}/main/cdx?url={quote('http://a.example/%ff<>')}&output=link").status == 200


def test_what_a_rule_excludes_is_not_there_and_what_one_blocks_is(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [AccessRule("exclude", prefix=f"{A}/gone"), AccessRule("exclude", to="20240102"), AccessRule("block")]
    monkeypatch.setattr(served.site, "access", Access(rules))
    assert stamps(cdx(served, url=f"{A}/")) == [SECOND, THIRD]
    assert stamps(cdx(served, url=f"{A}/", limit="1", closest="2024")) == [SECOND]
    assert cdx(served, url="many.example/*") == ""
    assert json.loads(cdx(served, url="many.example/*", showNumPages="true"))["pages"] == 0


def test_a_query_that_takes_too_long_is_refused_however_little_it_finds(path: Path) -> None:
    with serving(path, ServeSettings(query_seconds_max=0.0)) as there:
        got = ask(f"{there.controls}/main/cdx?url=*&filter=~url:.*never.*")
        assert (got.status, "takes longer than 0 s" in got.text) == (413, True)
        assert there.site.counters.total("queries_cut") == 1
        assert ask(f"{there.controls}/main/cdx?url={A}/").status == 200


def test_a_look_ends_when_its_client_has_gone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[ScanWatch] = []
    stop = ScanWatch.stop

    def noted(watch: ScanWatch) -> None:
        stopped.append(watch)
        stop(watch)

    monkeypatch.setattr(ScanWatch, "stop", noted)
    monkeypatch.setattr("holdfast.web.server.bounded_scan.LINES_PER_PIECE", 1)
    parts = urlsplit(served.controls)
    with socket.create_connection((parts.hostname, parts.port)) as client:
        client.sendall(f"GET /main/cdx?url=* HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        assert client.recv(10)
    wait_until(lambda: bool(stopped), "the look to end")


def test_a_watch_ends_a_look_by_time_by_number_and_by_word(served: Served) -> None:
    capture = served.site.archive.catalog.lookup(f"{A}/")[0]
    budget = ScanBudget(2, lambda each: each.status == "404")
    assert [budget(capture), budget(capture)] == [False, False]
    with pytest.raises(Spent):
        budget(capture)
    watch = ScanWatch(None, 60, captures_max=0)
    assert watch(capture)
    with pytest.raises(TooLarge, match="needs more than 0 captures"):
        watch.check()
    watch.stop()
    with pytest.raises(Spent):
        watch.check()
