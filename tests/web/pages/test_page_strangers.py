"""Archived addresses are written by strangers: no page lets them be markup, or look like another address (P)."""

from __future__ import annotations

import pytest
from page_archive import CONTROLS, LONG, MARKUP, STRANGERS, TURNED
from page_reading import faults
from page_visits import Visit, ask
from serving import Served

from holdfast.env.units import duration_words, rounded_size
from holdfast.web.ui.display import in_words, iso, path_to, shown, unit, visible

UNSEEN = "\u202e\u202d\u2066\u200b\u0000\u0007\u001b\ufeff"


def visits(served: Served, url: str) -> list[Visit]:
    """Every page that shows the address."""
    targets = [
        path_to("main", "*", url),
        path_to("main", "20260102030405", url),
        path_to("main", "*", url + "-gone"),
        "/search?q=hostile&as=words",
        "/main/*/hostile.example/*",
        "/main/",
    ]
    return [ask(served.controls, target) for target in targets]


@pytest.mark.parametrize("url", STRANGERS, ids=["markup", "turned", "controls", "long"])
def test_strange_addresses_do_no_harm_on_any_page(served: Served, url: str) -> None:
    for visit in visits(served, url):
        assert visit.status in (200, 302, 404)
        if visit.status == 302:
            continue
        assert [fault for fault in faults(visit.page) if served.replay not in fault] == []
        assert "<script>alert" not in visit.text
        assert "onerror=alert(2)>" not in visit.text
        assert not set(visit.text) & set(UNSEEN)
        assert all("src" in each.attributes for each in visit.page.all("script"))
        assert not visit.page.all("img")


def test_a_strange_address_leads_to_its_own_captures(served: Served) -> None:
    listed = ask(served.controls, "/main/*/hostile.example/*").page.all("a")
    calendars = [each.attributes["href"] for each in listed if each.attributes["href"].startswith("/main/*/http")]
    assert len(calendars) == len(STRANGERS)
    for calendar in calendars:
        links = ask(served.controls, calendar).page.links().values()
        captures = {link for link in links if link.startswith("/main/2026010203")}
        assert len(captures) == 1
        assert ask(served.controls, captures.pop()).status == 200


def test_long_addresses_are_cut_in_the_middle_and_linked_whole() -> None:
    assert len(shown(LONG)) < 170
    assert shown(LONG).startswith("http://hostile.example/long/xxx")
    assert path_to("main", "*", LONG).endswith(LONG)


def test_what_cannot_be_seen_is_shown_as_escapes() -> None:
    assert visible(TURNED) == "http://hostile.example/%E2%80%AEgnp.exe"
    assert visible(CONTROLS) == "http://hostile.example/a%00%07%1Bb"
    assert visible("a\udcffb") == "a%FFb"
    assert visible("für émoji 🙂 日本") == "für émoji 🙂 日本"


def test_addresses_stay_one_path_of_this_server() -> None:
    assert "#" not in path_to("main", "2020", "http://a.example/#x")
    assert path_to("main", "2020", "javascript:alert(1)") == "/main/2020/javascript:alert(1)"
    assert path_to("main", "2020", "http://a.example/\\b\t c\udcff") == "/main/2020/http://a.example/%5Cb%09%20c%FF"
    assert not set(path_to("main", "*", MARKUP)) & set('"<> ')


def test_times_and_sizes_in_words() -> None:
    assert in_words("20261116082105") == "16 November 2026, 08:21:05 UTC"
    assert [in_words(part) for part in ("2026", "202611", "20261105")] == ["2026", "November 2026", "5 November 2026"]
    assert [unit(part) for part in ("202611", "20261105", "2026110513")] == ["November", "5 November", "13:00"]
    assert [iso(part) for part in ("2026", "20260230", "20260228")] == ["2026", "", "2026-02-28"]
    assert [rounded_size(number) for number in (0, 999, 1000, 1_450_000, 10**15)] == [
        "0 B",
        "999 B",
        "1000 B",
        "1.4 MiB",
        "909.5 TiB",
    ]
    assert [duration_words(seconds) for seconds in (0, 1, 7200, 86400 * 400)] == [
        "less than a second",
        "1 second",
        "2 hours",
        "1 year",
    ]
