"""What every answer says, and what none does: policies, search engines, totals beside access rules."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pages_kept import answer, kept
from serving import Served, ask, serving

from holdfast.config import AccessRule
from holdfast.web.auth.access import Access

A = "http://a.example"
TIME = "20240102030405"
TELLING = (
    *("/main/cdx?url=a.example", "/main/cdx?url=a.example&limit=x", "/main/cdx", "/cdx/search/cdx?url=a.example"),
    *(f"/main/timemap/link/{A}/", f"/main/timemap/json/{A}/none", f"/main/timegate/{A}/none", f"/main/{TIME}/{A}/none"),
    *("/health", "/status", "/metrics", "/api/status", "/api/none", "/wayback/available?url=a.example"),
    *("/none/cdx?url=a.example", "/static/none", "/static/icon.svg", "/robots.txt", f"/main/{TIME}id_/{A}/"),
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    captures = [answer(f"{A}/", TIME, "200 OK", ["Content-Type: text/html"], b"<p>a")]
    with serving(kept(tmp_path_factory.mktemp("told") / "archive", captures)) as there:
        yield there


@pytest.mark.parametrize("path", TELLING)
def test_answers_for_programs_let_nothing_load_or_run(served: Served, path: str) -> None:
    assert "default-src 'none'" in ask(served.controls + path).headers["content-security-policy"]


def test_answers_that_make_no_sense_let_nothing_load_or_run(served: Served) -> None:
    for address in (f"{served.controls}/main/cdx", f"{served.replay}/main/{TIME}mp_/{A}/none"):
        for method in ("PROPFIND", "GET", "POST"):
            assert ask(address, method).headers["content-security-policy"] == "default-src 'none'"


def test_what_a_browser_has_kept_keeps_its_policy(served: Served) -> None:
    for address in (f"{served.replay}/main/{TIME}mp_/{A}/", f"{served.replay}/_hf/runtime.js"):
        got = ask(address)
        again = ask(address, If_None_Match=got.headers["etag"])
        assert again.status == 304
        assert again.headers.get("content-security-policy") in (None, got.headers["content-security-policy"])


def test_search_engines_are_asked_to_stay_away(served: Served) -> None:
    for origin in (served.controls, served.replay):
        got = ask(f"{origin}/robots.txt")
        assert (got.status, got.text) == (200, "User-agent: *\nDisallow: /\n")
    page = f"{served.replay}/main/{TIME}mp_/{A}/"
    led = ask(f"{served.replay}/robots.txt", Referer=page)  # asked for by a script of that page
    assert led.headers["location"] == f"/main/{TIME}mp_/{A}/robots.txt"


def test_our_own_pages_on_the_replay_origin_are_framed_by_ours_only(served: Served) -> None:
    for name in ("enter", "worker.js", "runtime.js"):
        policy = ask(f"{served.replay}/_hf/{name}").headers["content-security-policy"]
        assert policy.endswith(f"frame-ancestors 'self' {served.controls}")


def test_totals_are_told_unless_a_rule_may_hide_something(served: Served) -> None:
    def told() -> list[dict[str, object]]:
        return [json.loads(ask(f"{served.controls}{path}").body) for path in ("/status", "/api/status")]

    line = 'holdfast_captures{collection="main"} 1'
    assert [each["captures"] for each in told()] == [1, 1]
    assert line in ask(f"{served.controls}/metrics").text
    open_to_all = served.site.access
    try:
        served.site.access = Access([AccessRule(rule="exclude", url=f"{A}/")])
        assert [(each["captures"], each["collections"]) for each in told()] == [(None, {})] * 2
        assert "holdfast_captures{" not in ask(f"{served.controls}/metrics").text
    finally:
        served.site.access = open_to_all
