"""What many sites do works in replay: clocks, chance, JSONP, posted searches, films (P3, W17)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from firefox_browser import FirefoxTab
from habit_pages import RULES, SHOP, TIME, captures, sound
from playwright.sync_api import Frame
from replay_browser import Stage, Tab, missing, needs_browser, opened, strangers, until

import holdfast
from holdfast.archive.create import init

pytestmark = needs_browser


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    tmp = tmp_path_factory.mktemp("habits")
    root = tmp / "archive"
    init(root)
    (root / "rules.toml").write_text(RULES)
    with holdfast.open(root) as archive:
        archive.add(list(captures()), collection="main")
    with opened(root, tmp / "net.json") as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def _seen(frame: Frame, *names: str) -> dict[str, Any]:
    until(frame, f"{json.dumps(names)}.every((name) => name in seen)")
    seen: dict[str, Any] = frame.evaluate("seen")
    return seen


def test_p3_the_clock_starts_at_the_moment_of_the_capture(tab: Tab) -> None:
    seen = _seen(tab.open(f"{SHOP}/clock", TIME), "worker", "linked")
    assert set(seen["near"]) == {True}, seen["near"]
    assert seen["said"] == ["2004", "2004", "1970", 2005, 0]
    assert seen["kind"] == [True, True, "Date", 7, True, 946684800000, 946684800000, "string"]
    assert seen["worker"] == seen["linked"] == [True, True]
    assert seen["cookie"] == "kept=1"


def test_p3_random_numbers_are_the_same_each_time(tab: Tab) -> None:
    first, again, other = (
        tab.open(f"{SHOP}/{name}", TIME).evaluate("seen.random") for name in ("clock", "clock", "other")
    )
    assert first == again != other
    assert len(set(first)) == 3
    assert all(0 <= each < 1 for each in first)


def test_p3_jsonp_and_cache_busters_are_found_by_rules(tab: Tab) -> None:
    seen = _seen(tab.open(f"{SHOP}/asking", TIME), "plain", "guarded", "own", "busted", "ruled", "strict")
    assert (seen["plain"], seen["guarded"], seen["own"]) == ({"from": "feed"}, [1, "old.name"], 3)
    assert (seen["busted"], seen["ruled"], seen["strict"]) == ("busted", "ruled", "seven")


def test_p3_what_is_posted_is_found_by_its_body(tab: Tab) -> None:
    seen = _seen(tab.open(f"{SHOP}/asking", TIME), "first", "second", "alike", "nearest", "json")
    assert (seen["first"], seen["second"], seen["alike"]) == ("cats 1", "cats 2", "dogs 1")
    assert (seen["nearest"], seen["json"]) == ("dogs 1", "owls")


def test_p3_films_are_played_in_ranges_and_by_playlists(tab: Tab) -> None:
    frame = tab.open(f"{SHOP}/film", TIME)
    seen = _seen(frame, "middle", "last", "beyond", "hls", "dash")
    size = len(sound(120))
    assert seen["middle"] == [206, f"bytes 1000-1999/{size}", 1000]
    assert seen["last"] == [206, f"bytes 1900000-1900099/{size}", 100]
    assert seen["beyond"] == [416, f"bytes */{size}", 0]
    assert seen["hls"] == ["low/one.ts", "low/two.ts", "low/three.ts"]
    assert seen["dash"] == "dash/1.m4s"
    for name in ("sound",) if isinstance(tab, FirefoxTab) else ("sound", "parts"):  # a documented difference
        until(frame, f"{name}.readyState >= 1")
        assert frame.evaluate(f"{name}.duration") == 120
        frame.evaluate(f"{name}.currentTime = 119")
        until(frame, f"!{name}.seeking && {name}.readyState >= 2")
