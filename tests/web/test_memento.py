"""Memento (RFC 7089): headers of mementos, TimeGates and TimeMaps (I10)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_kept import html, kept
from serving import Answer, Served, ask, serving

from holdfast.archive.ingest.exchange import page
from holdfast.catalog.timestamps import http_date
from holdfast.config import AccessRule
from holdfast.web.auth.access import Access
from holdfast.web.request import uri

A = "http://a.example"
TIMES = ("20240102030405", "20240203040506", "20240304050607", "20250102030405")
DATES = (
    "Tue, 02 Jan 2024 03:04:05 GMT",
    "Sat, 03 Feb 2024 04:05:06 GMT",
    "Mon, 04 Mar 2024 05:06:07 GMT",
    "Thu, 02 Jan 2025 03:04:05 GMT",
)
_LINK = re.compile(r'<([^>]*)>((?:;\s*\w+="[^"]*")*)')


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    captures = [
        *(html(f"{A}/", each) for each in TIMES),
        html(f"{A}/once?b=2&a=1&u=http://x/", TIMES[0]),
        page(f"{A}/i.png", b"\x89PNG", "image/png", TIMES[1]),
        *(html(f"{A}/often", f"2020010100{n // 60:02}{n % 60:02}") for n in range(500)),
    ]
    path = kept(tmp_path_factory.mktemp("memento") / "archive", captures)
    return kept(path, [html(f"{A}/", "20230101000000")], "news")


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with serving(path) as there:
        yield there


def links(text: str) -> list[tuple[str, dict[str, str]]]:
    """Targets and attributes of a Link header or a TimeMap, as the RFC's grammar has them."""
    found = [(each[1], dict(re.findall(r'(\w+)="([^"]*)"', each[2]))) for each in _LINK.finditer(text)]
    assert ", ".join(f"<{where}>" for where, _ in found)
    return found


def by_relation(text: str, relation: str) -> list[tuple[str, str]]:
    return [(where, named.get("datetime", "")) for where, named in links(text) if relation in named["rel"].split(" ")]


def memento(served: Served, number: int) -> tuple[str, str]:
    return f"{served.controls}/main/{TIMES[number]}/{A}/", DATES[number]


def test_a_memento_tells_its_time_its_original_and_its_neighbours(served: Served) -> None:
    got = ask(f"{served.replay}/main/{TIMES[1]}mp_/{A}/")
    assert got.headers["memento-datetime"] == DATES[1]
    assert "accept-datetime" not in got.headers.get("vary", "").lower()
    link = got.headers["link"]
    assert by_relation(link, "original") == [(f"{A}/", "")]
    assert by_relation(link, "timegate") == [(f"{served.controls}/main/timegate/{A}/", "")]
    assert by_relation(link, "timemap") == [(f"{served.controls}/main/timemap/link/{A}/", "")]
    expected = {"first": 0, "prev": 0, "next": 2, "last": 3}
    assert {each: by_relation(link, each) for each in expected} == {
        each: [memento(served, number)] for each, number in expected.items()
    }
    assert by_relation(link, "memento") == [memento(served, number) for number in range(4)]


@pytest.mark.parametrize(("number", "relation"), [(0, "first memento"), (3, "last memento")])
def test_the_first_and_the_last_say_so_of_themselves(served: Served, number: int, relation: str) -> None:
    link = ask(f"{served.replay}/main/{TIMES[number]}id_/{A}/").headers["link"]
    assert (memento(served, number)[0], relation) in [(where, named["rel"]) for where, named in links(link)]
    assert not by_relation(link, "prev" if number == 0 else "next")


def test_parts_of_pages_name_no_neighbours(served: Served) -> None:
    link = ask(f"{served.replay}/main/2024im_/{A}/i.png").headers["link"]
    assert [named["rel"] for _, named in links(link)] == ["original", "timegate", "timemap", "memento"]


@pytest.mark.parametrize("place", ["timegate/", ""])
@pytest.mark.parametrize(
    ("accepted", "number"),
    [
        (None, 3),
        (DATES[1], 1),
        ("Sat, 03 Feb 2024 04:05:05 GMT", 1),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Mon, 01 Jan 2060 00:00:00 GMT", 3),
        ("Sun, 04 Feb 2024 00:00:00 +0000", 1),
    ],
)
def test_a_timegate_leads_to_the_memento_nearest_to_the_time(
    served: Served, place: str, accepted: str | None, number: int
) -> None:
    asked = {"Accept_Datetime": accepted} if accepted is not None else {}
    got = ask(f"{served.controls}/main/{place}{A}/", **asked)
    assert (got.status, got.headers["location"]) == (302, memento(served, number)[0])
    assert got.headers["vary"] == "accept-datetime, x-holdfast-pick"
    assert "memento-datetime" not in got.headers
    assert by_relation(got.headers["link"], "original") == [(f"{A}/", "")]
    assert by_relation(got.headers["link"], "memento")[0] == memento(served, 0)


def test_a_timegate_keeps_the_query_and_mends_lost_slashes(served: Served) -> None:
    exact = f"{A}/once?b=2&a=1&u=http://x/"
    for asked in (exact, exact.replace("http://a", "http:/a"), "a.example/once?b=2&a=1&u=http://x/"):
        got = ask(f"{served.controls}/main/timegate/{asked}")
        assert got.headers["location"] == f"{served.controls}/main/{TIMES[0]}/{exact}"


@pytest.mark.parametrize("accepted", ["yesterday", "2024-01-01", "Thu, 99 May 2007 20:35:00 GMT"])
def test_a_time_that_cannot_be_read_is_refused(served: Served, accepted: str) -> None:
    got = ask(f"{served.controls}/main/timegate/{A}/", Accept_Datetime=accepted)
    assert got.status == 400
    assert "Accept-Datetime" in got.text


def test_what_is_not_archived_is_404_with_a_link_to_its_timemap(served: Served) -> None:
    got = ask(f"{served.controls}/main/timegate/http://b.example/")
    assert got.status == 404
    assert by_relation(got.headers["link"], "timemap") == [
        (f"{served.controls}/main/timemap/link/http://b.example/", "")
    ]
    for form in ("link", "json", "cdxj"):
        assert ask(f"{served.controls}/main/timemap/{form}/http://b.example/").status == 404


def test_only_reading_makes_sense(served: Served) -> None:
    for place in ("timegate", "timemap/link"):
        assert ask(f"{served.controls}/main/{place}/{A}/", "POST", b"").status >= 400
        head = ask(f"{served.controls}/main/{place}/{A}/", "HEAD")
        assert (head.status in (200, 302), head.body) == (True, b"")


def test_a_timemap_lists_every_memento_in_order_with_its_ends_named(served: Served) -> None:
    got = ask(f"{served.controls}/main/timemap/link/{A}/")
    assert got.headers["content-type"] == "application/link-format"
    assert "memento-datetime" not in got.headers
    assert by_relation(got.text, "memento") == [memento(served, number) for number in range(4)]
    assert [by_relation(got.text, each) for each in ("first", "last")] == [[memento(served, 0)], [memento(served, 3)]]
    (where, named) = next(each for each in links(got.text) if each[1]["rel"] == "self")
    assert (where, named["from"], named["until"]) == (f"{served.controls}/main/timemap/link/{A}/", DATES[0], DATES[3])
    assert not got.text.rstrip().endswith(",")


def test_a_timemap_in_json_and_cdxj_says_the_same(served: Served) -> None:
    told = json.loads(ask(f"{served.controls}/main/timemap/json/{A}/").text)
    assert told["original_uri"] == f"{A}/"
    assert told["timegate_uri"] == f"{served.controls}/main/timegate/{A}/"
    listed = told["mementos"]["list"]
    assert [each["uri"] for each in listed] == [memento(served, number)[0] for number in range(4)]
    assert (told["mementos"]["first"], told["mementos"]["last"]) == (listed[0], listed[-1])
    assert listed[0]["datetime"] == "2024-01-02T03:04:05Z"
    lines = ask(f"{served.controls}/main/timemap/cdxj/{A}/").text.splitlines()
    rows = [line.split(" ", 2) for line in lines if not line.startswith("!")]
    assert [row[:2] for row in rows] == [["example,a)/", each] for each in TIMES]
    assert [json.loads(row[2])["uri"] for row in rows] == [memento(served, number)[0] for number in range(4)]
    assert json.loads(rows[0][2])["rel"] == "first memento"


def test_a_timemap_of_all_collections_has_each_of_them(served: Served) -> None:
    text = ask(f"{served.controls}/all/timemap/link/{A}/").text
    assert len(by_relation(text, "memento")) == 5
    assert by_relation(text, "first") == [(f"{served.controls}/all/20230101000000/{A}/", http_date("20230101000000"))]


@pytest.mark.parametrize("form", ["link", "json", "cdxj"])
def test_a_long_timemap_comes_in_pages_that_together_are_all_of_it(
    path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.web.memento.timemap.MEMENTOS_MAX", 120)
    with serving(path) as there:
        address: str | None = f"{there.controls}/main/timemap/{form}/{A}/often"
        seen: list[str] = []
        pages = 0
        while address is not None:
            got = ask(address)
            assert got.status == 200, got.text
            found = re.findall(r"/main/(\d{14})/http://a", got.text)
            seen += dict.fromkeys(found)
            address = _next_page(got, form)
            pages += 1
        assert (len(seen), pages) == (500, 5)
        assert seen == sorted(set(seen))


def _next_page(got: Answer, form: str) -> str | None:
    if form == "json":
        told = json.loads(got.text).get("next")
        return told["uri"] if told else None
    if form == "cdxj":
        metas = [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("!meta ")]
        return next((each["next"]["uri"] for each in metas if "next" in each), None)
    own = next(named["until"] for _, named in links(got.text) if named["rel"] == "self")
    later = [where for where, named in links(got.text) if named["rel"] == "timemap" and "until" in named]
    assert own
    return later[0] if later else None


def test_what_a_rule_excludes_is_nobodys_neighbour(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.site, "access", Access([AccessRule("exclude", from_="202402", to="202403")]))
    link = ask(f"{served.replay}/main/{TIMES[0]}id_/{A}/").headers["link"]
    assert by_relation(link, "memento") == [memento(served, 0), memento(served, 3)]
    assert by_relation(ask(f"{served.controls}/main/timemap/link/{A}/").text, "memento") == [
        memento(served, 0),
        memento(served, 3),
    ]
    got = ask(f"{served.controls}/main/timegate/{A}/", Accept_Datetime=DATES[1])
    assert got.headers["location"] == memento(served, 0)[0]


def test_new_captures_become_neighbours(tmp_path: Path) -> None:
    path = kept(tmp_path / "archive", [html(f"{A}/", TIMES[0])])
    with serving(path) as there:
        address = f"{there.controls}/main/{TIMES[0]}id_/{A}/"
        assert len(by_relation(ask(address).headers["link"], "memento")) == 1
        kept(path, [html(f"{A}/", TIMES[1])])
        there.site.archive.catalog.refresh()
        assert by_relation(ask(address).headers["link"], "next") == [
            (f"{there.controls}/main/{TIMES[1]}/{A}/", DATES[1])
        ]


def test_nothing_in_a_url_ends_a_link_or_a_line() -> None:
    assert uri(f"{A}/a?b=c,d;e#f'(g)|h") == f"{A}/a?b=c,d;e#f'(g)|h"
    assert uri('x>; rel="evil"\r\nSet-Cookie: a') == "x%3E;%20rel=%22evil%22%0D%0ASet-Cookie:%20a"
    assert uri("http://é/\udcff") == "http://%C3%A9/%FF"
