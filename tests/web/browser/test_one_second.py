"""Captures of one URL in one second: each can be opened, from the calendar and by its address (P3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_kept import answer
from replay_browser import Stage, needs_browser, staged, strangers, until
from serving import ask

from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.config import AccessRule
from holdfast.web.auth.access import Access

pytestmark = needs_browser

A, TIME, LATER = "http://a.example", "20240102030405", "20250102030405"
SCRIPT = b"document.cookie = 'seen=' + document.title; window.told = [location.href, document.cookie]"


def captures() -> Iterator[Exchange]:
    for name in ("first", "second", "third"):
        text = f"<title>{name}</title><script src=s.js></script><img id=i src=i.png><a id=on href=next>next</a>"
        yield page(f"{A}/", text, "text/html", TIME)
    yield page(f"{A}/", "<title>later</title>", "text/html", LATER)
    yield page(f"{A}/s.js", SCRIPT, "text/javascript", TIME)
    yield page(f"{A}/next", "<title>next</title>", "text/html", TIME)
    yield answer(f"{A}/again", TIME, "302 Found", [f"Location: {A}/again"])
    yield page(f"{A}/again", "<title>again</title>", "text/html", TIME)
    yield answer(f"{A}/up", TIME, "302 Found", ["Location: https://a.example/up"])
    yield page("https://a.example/up", "<title>up</title>", "text/html", TIME)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(Path(tmp_path_factory.mktemp("one second")), list(captures())) as stage:
        yield stage


def listed(stage: Stage, url: str, period: str = TIME[:8]) -> list[str]:
    """Where the calendar's list of captures leads."""
    text = ask(f"{stage.served.controls}/main/{period}*/{url}").body.decode()
    return re.findall(r'class="what" href="([^"]+)"', text)


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "no worker"])
def test_p3_each_of_them_is_opened_from_the_calendar(stage: Stage, worker: bool) -> None:
    seen = []
    for number, address in enumerate(listed(stage, f"{A}/"), 1):
        with stage.context(worker=worker) as tab:
            tab.page.goto(stage.served.controls + address)
            frame = tab.framed(lambda frame: frame.url.endswith(f"{TIME}mp_/{A}/"))
            title = frame.title()
            assert until(frame, "window.told") == [f"{A}/", f"seen={title}"]
            assert tab.page.inner_text("#position") == f", {number} of 4"
            assert tab.page.url == stage.served.controls + address
            assert tab.page.get_attribute("#next", "href") == f"/main/{LATER}/{A}/"
            frame.click("#on")
            tab.framed(lambda frame: frame.url.endswith(f"{A}/next"))
            tab.until(lambda: tab.page.url == f"{stage.served.controls}/main/{TIME}/{A}/next")
            seen.append(title)
    assert sorted(seen) == ["first", "second", "third"]
    assert strangers(stage.trap.hosts, stage.served) == set()


def test_a_record_counts_only_for_its_url_and_second(stage: Stage) -> None:
    replay = stage.served.replay
    first, *_ = listed(stage, f"{A}/")
    place = first.removesuffix(f"/{TIME}/{A}/")
    assert re.fullmatch(r"/main/record/[a-z0-9-]+", place)
    plain = ask(f"{replay}/main/{TIME}mp_/{A}/s.js")
    assert ask(f"{replay}{place}/{TIME}js_/{A}/s.js").status == plain.status == 200
    assert b"later" in ask(f"{replay}{place}/{LATER}mp_/{A}/").body
    assert ask(f"{replay}/web/record/202611-0000999999/{TIME}mp_/{A}/").status == 200
    assert ask(f"{replay}{place}/{TIME}zz_/{A}/").status == 404
    assert ask(f"{stage.served.controls}{place}").headers["content-type"] == "application/warc"


def test_raw_captures_differ_and_mementos_stay_as_they_were(stage: Stage) -> None:
    controls = stage.served.controls
    raw = {ask(controls + address.replace(f"/{TIME}/", f"/{TIME}id_/")).body for address in listed(stage, f"{A}/")}
    assert len(raw) == 3
    for address in listed(stage, f"{A}/"):
        got = ask(controls + address.replace(f"/{TIME}/", f"/{TIME}id_/"))
        assert got.headers["memento-datetime"] == "Tue, 02 Jan 2024 03:04:05 GMT"
        assert f'<{controls}/main/{TIME}/{A}/>; rel="first memento"' in got.headers["link"]
        assert "/record/" not in got.headers["link"]
    assert "/record/" not in ask(f"{controls}/main/timemap/link/{A}/").body.decode()
    assert "/record/" not in ask(f"{controls}/main/cdx?url={A}/").body.decode()


def test_redirects_among_them_do_not_go_in_circles(stage: Stage) -> None:
    for url, title in ((f"{A}/again", "again"), (f"{A}/up", "up")):
        addresses = listed(stage, url)
        assert len(addresses) == 2
        with stage.context() as tab:
            for address in addresses:
                tab.page.goto(stage.served.replay + address.replace(f"/{TIME}/", f"/{TIME}mp_/"))
                assert tab.page.title() == title


def test_a_url_with_one_capture_in_a_second_has_its_plain_address(stage: Stage) -> None:
    assert listed(stage, f"{A}/", LATER[:8]) == [f"/main/{LATER}/{A}/"]


@pytest.mark.parametrize(("rule", "status"), [("exclude", 404), ("block", 451)])
def test_access_rules_hold_for_named_records(stage: Stage, rule: str, status: int) -> None:
    site, before = stage.served.site, stage.served.site.access
    addresses = [each.replace(f"/{TIME}/", f"/{TIME}mp_/") for each in listed(stage, f"{A}/")]
    site.access = Access((AccessRule(rule=rule, url=f"{A}/"),))
    try:
        assert [ask(stage.served.replay + address).status for address in addresses] == [status] * 3
    finally:
        site.access = before
