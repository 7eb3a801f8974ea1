"""Addresses as people get them wrong: what can be understood is, and what cannot is told in their words (W17)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pages_kept import html, kept
from serving import Served, ask, serving

A = "http://a.example"
TIME, LATE = "20240102030405", "20250102030405"
BROWSER = "text/html,*/*"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    captures = [
        html(f"{A}/", TIME),
        html(f"{A}/", LATE),
        html(f"{A}/c%23", TIME, "<p>sharp"),
        html(f"{A}/c", TIME, "<p>plain"),
        html(f"{A}/part", TIME, "<p>part"),
        html(f"{A}/spaced", TIME),
    ]
    path = kept(tmp_path_factory.mktemp("oddly") / "archive", captures)
    with serving(path) as there:
        yield there


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"/web/2017xx_/{A}/", "unknown modifier 'xx_': known are cs_, fr_, id_"),
        (f"/web/2017xx_/a.example{A}/", "unknown modifier 'xx_'"),
        (f"/web/2017mp/{A}/", "unknown modifier 'mp'"),
        (f"/web/201701020304050607/{A}/", "bad time '201701020304050607': give 1 to 14 digits"),
    ],
)
def test_a_wrong_modifier_or_time_is_named_on_both_origins(served: Served, address: str, said: str) -> None:
    for origin in (served.controls, served.replay):
        answer = ask(f"{origin}{address}")
        assert answer.status == 400
        assert said in answer.text


@pytest.mark.parametrize("time", ["20241399", "20240230", "202413", "20241301999999"])
def test_a_time_that_never_was_is_the_nearest_that_was(served: Served, time: str) -> None:
    shown = ask(f"{served.controls}/web/{time}/{A}/", Accept=BROWSER)
    assert shown.status == 302
    assert shown.headers["location"] in (f"/web/{TIME}/{A}/", f"/web/{LATE}/{A}/")
    assert ask(f"{served.replay}/web/{time}id_/{A}/").status == 200


def test_pywbs_frame_is_the_page_with_its_banner(served: Served) -> None:
    shown = ask(f"{served.controls}/web/{TIME}tf_/{A}/", Accept=BROWSER)
    assert shown.status == 200
    assert f"{served.replay}/_hf/enter" in shown.text


@pytest.mark.parametrize(
    ("url", "has"),
    [("a.example%23x", b"20"), (f"{A}/c%23", b"sharp"), (f"{A}/part%23x", b"part"), (f"{A}/c%23x", b"plain")],
)
def test_an_escaped_fragment_does_not_hide_a_page(served: Served, url: str, has: bytes) -> None:
    answer = ask(f"{served.replay}/web/{TIME}id_/{url}")
    assert answer.status == 200
    assert has in answer.body


def test_what_depends_on_who_asks_says_so_and_redirects_carry_links_but_no_date(served: Served) -> None:
    banner = ask(f"{served.controls}/main/{TIME}/{A}/", Accept=BROWSER)
    assert (banner.status, banner.headers["vary"]) == (200, "accept")
    assert banner.headers["memento-datetime"]
    program = ask(f"{served.controls}/main/{TIME}/{A}/", Accept="*/*")
    nearest = ask(f"{served.controls}/main/2024/{A}/", Accept=BROWSER)
    for moved in (program, nearest):
        assert (moved.status, moved.headers["vary"]) == (302, "accept")
        assert 'rel="original"' in moved.headers["link"]
        assert 'rel="timemap"' in moved.headers["link"]
        assert moved.headers["memento-datetime"] is None
    assert ask(f"{served.controls}/main/{TIME}/{A}/none").headers["vary"] == "accept"


def test_the_icon_and_the_api_are_where_people_look(served: Served) -> None:
    icon = ask(f"{served.controls}/favicon.ico")
    assert (icon.status, icon.headers["content-type"]) == (200, "image/svg+xml")
    assert ask(f"{served.controls}/api/", Accept="text/html").body == ask(f"{served.controls}/api").body


def test_writing_that_is_not_permitted_says_how_it_would_be(served: Served) -> None:
    refused = ask(f"{served.controls}/api/captures?url={A}/", "PUT", b"x")
    assert refused.status == 403
    assert "--write" in refused.text
    assert "serve.write_token_file" in refused.text


def test_the_entrance_leads_on_without_scripts_and_only_into_the_archive(served: Served) -> None:
    place = f"/main/{TIME}mp_/{A}/?a=%22%3E%3Cb%3E%26amp;"
    entrance = ask(f"{served.replay}/_hf/enter?to={place.replace('%', '%25').replace('&', '%26')}")
    assert f'<meta http-equiv="refresh" content="0; url={place.replace("&", "&amp;")}">' in entrance.text
    quoted = ask(f"{served.replay}/_hf/enter?to=/main/{TIME}mp_/{A}/%22%3E%3Cscript%3E")
    assert "<script>" not in quoted.text
    assert "%22%3E%3Cscript%3E" in quoted.text
    for elsewhere in ("http://b.example/", "//b.example/", "/api", "javascript:alert(1)", "/%5Cb.example/2024/x", ""):
        assert "refresh" not in ask(f"{served.replay}/_hf/enter?to={elsewhere}").text


def test_html_that_a_script_asks_for_has_nothing_of_ours_in_it(served: Served) -> None:
    address = f"{served.replay}/main/{TIME}mp_/{A}/"
    as_page = ask(address, Sec_Fetch_Dest="document")
    as_data = ask(address, Sec_Fetch_Dest="empty")
    assert b"/_hf/runtime.js" in as_page.body
    assert b"/_hf/" not in as_data.body
    assert as_page.headers["etag"] != as_data.headers["etag"]
    assert b"/_hf/runtime.js" in ask(address).body
