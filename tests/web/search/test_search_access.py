"""What access rules hide is in no hit, snippet, count or facet, whichever way it is asked for (N2, P)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_visits import ask
from pages_kept import html, kept
from search_archive import indexed
from serving import Served, serving

from holdfast.config import AccessRule, ServeSettings
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens

TOWN = "http://town.example/"
HIDDEN = ("secret", "blocked", "newer", "gone.example", "embargo")
RULES = [
    AccessRule(rule="exclude", prefix=f"{TOWN}secret"),
    AccessRule(rule="block", url=f"{TOWN}blocked"),
    AccessRule(rule="exclude", url=TOWN, from_="2025"),
    AccessRule(rule="exclude", domain="gone.example"),
    AccessRule(rule="exclude", collection="private"),
    AccessRule(rule="exclude", embargo="100 years", url=f"{TOWN}embargo"),
]
OPEN = ("", "market")


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pages = {
        TOWN: "older",
        f"{TOWN}market": "market",
        f"{TOWN}secret/plan": "secret",
        f"{TOWN}blocked": "blocked",
        f"{TOWN}embargo": "embargo",
        "http://www.gone.example/": "gone.example",
    }
    path = tmp_path_factory.mktemp("ruled") / "archive"
    link = f'<a href="{TOWN}secret/plan">.</a>'
    body = "<title>{0} title</title><p>everywhere {0} text {1}"
    kept(path, [html(url, "20240102030405", body.format(name, link)) for url, name in pages.items()])
    kept(path, [html(TOWN, "20260102030405", body.format("newer", ""))])
    kept(path, [html(f"{TOWN}private", "20230102030405", body.format("private", ""))], "private")
    with serving(indexed(path)) as there:
        there.site.access = Access(RULES)
        yield there


def api(served: Served, target: str, status: int = 200) -> Any:
    visit = ask(served.controls, target, {"Accept": "application/json"})
    assert visit.status == status, visit.text
    return json.loads(visit.body)


def test_nothing_hidden_is_found_counted_or_shown(ruled: Served) -> None:
    found = api(
        ruled,
        "/api/search?q=everywhere&limit=100&timeline=true"
        + "".join(f"&facet={name}" for name in ("site", "type", "lang", "status", "year", "collection")),
    )
    assert sorted(hit["url"] for hit in found["hits"]) == [TOWN, f"{TOWN}market"]
    assert found["total"] == 2
    for facet in found["facets"].values():
        assert sum(each["count"] for each in facet) <= 2
    assert found["timeline"] == [{"month": "202401", "count": 2}]
    assert found["facets"]["collection"] == [{"value": "main", "count": 2, "term": "collection:main"}]
    text = json.dumps(found)
    assert not [name for name in (*HIDDEN, "private") if name in text]


@pytest.mark.parametrize("word", [*(name.replace(".example", "") for name in HIDDEN), "private"])
def test_words_of_hidden_pages_find_nothing(ruled: Served, word: str) -> None:
    """One who may not see a page must not be able to ask for its words one by one."""
    for query in (word, f"title:{word}", f"everywhere {word}", f"NOT (NOT {word})"):
        assert api(ruled, f"/api/search?q={query.replace(' ', '%20')}")["total"] == 0, query
    page = ask(ruled.controls, f"/search?q={word}&as=words").page
    assert "Nothing found" in page.one("main").text
    assert page.all("mark") == []


def test_links_of_hidden_pages_tell_nothing(ruled: Served) -> None:
    assert api(ruled, f"/api/search?q=linked-from:{TOWN}blocked")["total"] == 0
    linking = api(ruled, f"/api/search?q=links-to:{TOWN}secret/plan&limit=100")
    assert {hit["url"] for hit in linking["hits"]} == {TOWN, f"{TOWN}market"}


def test_how_much_is_not_indexed_yet_is_not_told(ruled: Served) -> None:
    kept(ruled.site.archive.path, [html(f"{TOWN}secret/other", "20240102030405", "<p>later")])
    assert api(ruled, "/api/search?q=everywhere")["pending"] == 0
    assert "came since" not in ask(ruled.controls, "/search?q=everywhere").text


def test_rules_that_change_hold_at_once(ruled: Served) -> None:
    before = ruled.site.access
    try:
        ruled.site.access = Access(RULES[1:])
        assert api(ruled, "/api/search?q=secret")["total"] == 1
        ruled.site.access = Access([])
        assert api(ruled, "/api/search?q=everywhere")["captures"] == 8
        ruled.site.access = Access([AccessRule(rule="exclude")])
        assert api(ruled, "/api/search?q=everywhere")["total"] == 0
    finally:
        ruled.site.access = before


def test_the_search_needs_a_token_where_reading_does(ruled: Served, tmp_path: Path) -> None:
    token = "a-token-of-some-length"
    with serving(ruled.site.archive.path, ServeSettings(), Tokens(read=[token])) as there:
        for target in ("/search", "/search?q=everywhere", "/api/search?q=everywhere"):
            assert ask(there.controls, target).status == 401
            given = {"Accept": "*/*", "Authorization": f"Bearer {token}"}
            assert ask(there.controls, target, given).status == 200
