"""Rules of access on the pages for people: what is excluded is nowhere, what is blocked is told of and not shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_visits import ask
from pages_kept import html, kept
from serving import Served, serving

from holdfast.config import ServeSettings
from holdfast.web.auth.tokens import Tokens

RULES = """
[[access]]
rule = "exclude"
prefix = "http://town.example/secret"

[[access]]
rule = "exclude"
url = "http://town.example/"
from = "2025"

[[access]]
rule = "block"
url = "http://town.example/blocked"
"""
TOWN = "http://town.example/"
COLLECTIONS = {"aria-labelledby": "collections"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    paths = {"": "20240102030405", "secret/plan": "20240102030405", "blocked": "20240102030405", "market": "20240203"}
    pages = [html(f"{TOWN}{path}", time.ljust(14, "0"), f"<p>{path}") for path, time in paths.items()]
    path = kept(tmp_path_factory.mktemp("access") / "archive", [*pages, html(TOWN, "20260102030405", "<p>newer")])
    with (path / "holdfast.toml").open("a") as file:
        file.write(RULES)
    return path


@pytest.fixture(scope="module")
def ruled(archive: Path) -> Iterator[Served]:
    with serving(archive) as there:
        yield there


def test_excluded_captures_are_on_no_page(ruled: Served) -> None:
    for target in (
        "/",
        "/main/",
        "/search?q=town",
        f"/main/*/{TOWN}*",
        f"/main/*/{TOWN}secret/other",
        "/search?q=plan",
    ):
        text = ask(ruled.controls, target).text
        assert "secret/plan" not in text, target
    assert ask(ruled.controls, f"/main/*/{TOWN}secret/plan").status == 404
    assert ask(ruled.controls, f"/main/2024/{TOWN}secret/plan").status == 404
    assert "town.example/market" in ask(ruled.controls, "/").text


def test_the_calendar_ends_before_what_is_excluded(ruled: Served) -> None:
    page = ask(ruled.controls, f"/main/*/{TOWN}").page
    assert page.one("h2", id="year").text == "2024"
    assert "2026" not in page.one("main").text
    near = json.loads(ask(ruled.controls, f"/api/near?url={TOWN}").body)
    assert (near["timestamp"], near["next"], near["captures"]) == ("20240102030405", None, 1)


def test_nothing_is_counted_where_rules_hide_something(ruled: Served, archive: Path) -> None:
    for target in ("/", "/main/"):
        page = ask(ruled.controls, target).page
        assert page.links()["main"] == "/main/"
        assert not page.all("dd")
        assert "capture," not in page.one("main").text and "captures" not in page.one("section", **COLLECTIONS).text


def test_blocked_captures_are_listed_and_refused_without_detail(ruled: Served) -> None:
    assert ask(ruled.controls, f"/main/*/{TOWN}blocked").status == 200
    for origin, modifier in ((ruled.controls, ""), (ruled.replay, "mp_")):
        visit = ask(origin, f"/main/20240102030405{modifier}/{TOWN}blocked")
        assert visit.status == 451
        assert visit.page.one("h1").text == "Not available"
        assert "an access rule does not allow it to be shown" in visit.page.one("main").text
        assert "town.example/blocked" in visit.page.one("main").text
    links = ask(ruled.controls, f"/main/20240102030405/{TOWN}blocked").page.links()
    assert links["All captures of this address"] == f"/main/*/{TOWN}blocked"
    assert (links["Home"], links["Collection main"]) == ("/", "/main/")


def test_pages_need_a_token_where_reading_does(archive: Path) -> None:
    token = "a-token-of-some-length"
    with serving(archive, ServeSettings(), Tokens(read=[token])) as there:
        for target in ("/", "/main/", "/search?q=town", f"/main/*/{TOWN}", f"/api/near?url={TOWN}"):
            visit = ask(there.controls, target)
            assert (visit.status, "www-authenticate" in visit.headers) == (401, True), target
        given = {"Accept": "text/html", "Authorization": f"Bearer {token}"}
        frame = ask(there.controls, f"/main/20240102030405/{TOWN}", given).page.one("iframe")
        assert "&ticket=" in frame.attributes["src"]
