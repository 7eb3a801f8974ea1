"""What users of the Internet Archive, pywb and OutbackCDX are used to, at the addresses that they know (I10, W17)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pages_kept import answer, html, kept
from serving import Served, ask, serving

import holdfast
from holdfast.archive.ingest.exchange import page
from holdfast.config import AccessRule
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens

URL = "http://a.example/"
EARLY, LATE = "20200102030405", "20240102030405"
TOKEN = "a-token-for-writing-0123456789"
BEARER = f"Bearer {TOKEN}"


def line(number: int, filename: str = "a.warc.gz") -> str:
    return f"example,c)/{number} {LATE} http://c.example/{number} text/html 200 - - - 99 {number} {filename}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return kept(tmp_path / "archive", [html(URL, EARLY), html(URL, LATE)])


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with serving(path, tokens=Tokens(write=[TOKEN])) as there:
        yield there
        there.site.writer.settle()


def post(served: Served, target: str, *lines: str) -> tuple[int, str]:
    body = "".join(f"{each}\n" for each in lines).encode()
    answer = ask(f"{served.controls}{target}", "POST", body, Authorization=BEARER)
    return answer.status, answer.text


# -- the Internet Archive ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "found"), [("", LATE), ("&timestamp=2019", EARLY), ("&timestamp=20251399", LATE)])
def test_i10_whether_a_url_is_archived(served: Served, asked: str, found: str) -> None:
    told = json.loads(ask(f"{served.controls}/wayback/available?url=a.example{asked}").body)
    assert told["url"] == "a.example"
    assert told["archived_snapshots"]["closest"] == {
        "available": True,
        "status": "200",
        "timestamp": found,
        "url": f"{served.controls}/web/{found}/{URL}",
    }


def test_i10_what_is_not_archived_is_not_available_and_nonsense_is_named(served: Served) -> None:
    answer = ask(f"{served.controls}/wayback/available?url=b.example")
    assert (answer.status, json.loads(answer.body)) == (200, {"url": "b.example", "archived_snapshots": {}})
    for query in ("", "?url=", "?url=a.example&timestamp=yesterday"):
        refused = ask(f"{served.controls}/wayback/available{query}")
        assert refused.status == 400
        assert json.loads(refused.body)["error"]


def test_i10_a_timemap_that_is_asked_by_query_is_the_cdx_server(served: Served) -> None:
    rows = json.loads(ask(f"{served.controls}/web/timemap/json?url=a.example&fl=timestamp,original").body)
    assert rows == [["timestamp", "original"], [EARLY, URL], [LATE, URL]]
    assert ask(f"{served.controls}/web/timemap/link?url=a.example").headers["content-type"].startswith("application/l")


def test_i10_a_timemap_without_a_form_is_of_links(served: Served) -> None:
    short, long = (ask(f"{served.controls}/main/timemap/{form}{URL}") for form in ("", "link/"))
    assert (short.status, short.body) == (200, long.body)


# -- pywb and OutbackCDX -----------------------------------------------------------------------------------------------


def test_i10_the_index_of_a_collection_is_its_cdx_server(served: Served) -> None:
    one, other = (ask(f"{served.controls}/main/{name}?url={URL}&output=json") for name in ("index", "cdx"))
    assert (one.status, one.body) == (200, other.body)


def test_i10_bad_lines_are_skipped_if_that_is_asked_for(served: Served) -> None:
    assert post(served, "/main", line(1), "nonsense", line(2))[0] == 400
    assert post(served, "/main?badLines=skip", line(1), "nonsense", line(2)) == (200, "Added 2 records\n")


def test_i10_lines_that_are_posted_to_delete_are_gone(served: Served, path: Path) -> None:
    assert post(served, "/main", line(1), line(2), line(3))[1] == "Added 3 records\n"
    other = line(3, "b.warc.gz")
    assert post(served, "/main/delete", line(1), line(2), other) == (200, "Deleted 2 records\n")
    assert "c.example/1" not in ask(f"{served.controls}/main/cdx?url=c.example/*").text
    assert "c.example/3" in ask(f"{served.controls}/main/cdx?url=c.example/*").text
    assert post(served, "/main/delete", line(1)) == (200, "Deleted 0 records\n")
    assert post(served, "/main", line(1)) == (200, "Added 1 records\n")
    served.site.writer.settle()
    assert "/main/delete" in (path / "audit.log").read_text()
    with holdfast.open(path) as archive:
        archive.reindex()
        assert len(list(archive.search(holdfast.CaptureQuery(url="c.example/*")))) == 2


def test_i10_records_of_the_archive_itself_are_not_deleted_by_lines(served: Served) -> None:
    lines = ask(f"{served.controls}/main?url=a.example").text.splitlines()
    for status, text in (post(served, "/main/delete?badLines=skip", *lines), post(served, "/main/delete", *lines)):
        assert status == 400 or text == "Deleted 0 records\n"
    assert len(ask(f"{served.controls}/main/cdx?url={URL}").text.splitlines()) == 2


def test_only_writers_delete_and_only_by_post(served: Served) -> None:
    assert ask(f"{served.controls}/main/delete", "POST", line(1).encode()).status == 401
    assert ask(f"{served.controls}/main/delete", "POST", line(1).encode(), Authorization="Bearer no").status == 401
    assert ask(f"{served.controls}/main/delete").status == 400


def rows(served: Served, query: str, path: str = "/main/cdx") -> list[str]:
    got = ask(f"{served.controls}{path}?{query}&output=text&fl=timestamp,original,statuscode")
    assert got.status == 200, got.text
    return got.text.splitlines()


def test_i10_parameters_of_pywb_mean_what_they_mean_there(served: Served, path: Path) -> None:
    """`reverse`, `collapseTime` and filters without a field."""
    day = [("20210101010000", "200"), ("20210101020000", "200"), ("20210101030000", "404"), ("20210102000000", "404")]
    pages = [answer(f"{URL}p", time, f"{status} X", ["Content-Type: text/html"]) for time, status in day]
    kept(path, [*pages, page(f"{URL}p", b"x", "image/png", "20210103000000")])
    served.site.archive.catalog.refresh()
    times = [time for time, _ in day] + ["20210103000000"]

    def found(query: str) -> list[str]:
        return [row.split()[0] for row in rows(served, f"url={URL}p&{query}")]

    assert found("reverse=true") == times[::-1]
    assert found("reverse=1&limit=2") == times[:-3:-1]
    assert found("reverse=false") == times
    assert found("reverse=0&sort=reverse") == times[::-1], "as pywb: sort=reverse wins"
    assert found("reverse=true&closest=20210101&limit=1") == times[:1], "as pywb: a time wins"
    assert found("collapseTime=8") == [times[0], times[2], times[3], times[4]], "by day and status"
    assert found("collapseTime=4") == [times[0], times[2], times[4]], "by year and status"
    assert found("collapseTime=14") == times
    assert found("collapseTime=8&reverse=true") == [times[4], times[3], times[2], times[0]]
    assert found("collapse=timestamp:8%2Bstatus") == found("collapseTime=8")
    assert found("filter=image/png") == [times[4]]
    assert found("filter=!image/png") == times[:4]
    assert found("filter=~.*20210102") == [times[3]]
    assert (found("filter=~example,a"), found("filter=~p")) == (times, []), "an expression begins where the line does"
    assert found("from_ts=20210102&to=20210102") == [times[3]]
    for bad in ("collapseTime=x", "collapseTime=0", "reverse=perhaps", "allowFuzzy=perhaps"):
        refused = ask(f"{served.controls}/main/cdx?url={URL}&{bad}")
        assert (refused.status, bad.partition("=")[2] in refused.text) == (400, True)


def test_i10_a_url_without_captures_is_looked_for_without_its_cache_busters_if_that_is_allowed(
    served: Served, path: Path
) -> None:
    busted = [html(f"{URL}f?_={number}&q=1", f"202{number}0101000000") for number in range(3)]
    kept(path, [*busted, html(f"{URL}f?q=2", "20210101000000")])
    served.site.archive.catalog.refresh()
    asked = f"url={quote(f'{URL}f?q=1&_=9', safe='')}"
    assert rows(served, asked) == rows(served, f"{asked}&allowFuzzy=false") == []
    same = [f"202{number}0101000000 {URL}f?_={number}&q=1 200" for number in range(3)]
    assert rows(served, f"{asked}&allowFuzzy=true") == same
    assert rows(served, f"{asked}&allowFuzzy=1&reverse=true&limit=1") == same[2:]
    assert rows(served, f"{asked}&allowFuzzy=true&closest=2021&limit=1") == same[1:2]
    assert rows(served, f"{asked}&allowFuzzy=true&filter==timestamp:20200101000000") == same[:1]
    own = quote(f"{URL}f?_=1&q=1", safe="")
    assert rows(served, f"url={own}&allowFuzzy=true") == same[1:2], "it has captures of its own"
    served.site.access = Access((AccessRule(rule="exclude", url=f"{URL}f?_=1&q=1"),))
    assert rows(served, f"{asked}&allowFuzzy=true") == [same[0], same[2]]


def test_i10_the_list_of_collections_says_where_each_can_be_asked(served: Served, path: Path) -> None:
    kept(path, [html("http://n.example/", EARLY)], "news")
    served.site.archive.catalog.refresh()
    got = ask(f"{served.controls}/collinfo.json")
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    listed = {each["id"]: each for each in json.loads(got.body)}
    assert list(listed) == ["main", "news", "all"]
    assert listed["news"]["name"] == "news"
    assert EARLY in ask(f"{listed['news']['cdx-api']}?url=n.example").text
    assert ask(f"{listed['all']['timegate']}http://n.example/").status == 302
    assert "n.example" in ask(f"{listed['all']['timemap']}http://n.example/").text


def test_i10_what_pywb_calls_ir_is_the_capture_as_it_was(served: Served) -> None:
    for origin in (served.controls, served.replay):
        one, other = (ask(f"{origin}/main/{EARLY}{modifier}/{URL}") for modifier in ("ir_", "id_"))
        assert (one.status, one.body) == (200, other.body)
        assert "/_hf/" not in one.text
