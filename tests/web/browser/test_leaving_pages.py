"""Whatever way a page is left, the next one is of the archive (W17)."""

from __future__ import annotations

import pytest
from hostile_pages import CDN, NEWS
from replay_browser import Tab, needs_browser

pytestmark = needs_browser

ARRIVED = f"{CDN}/arrived"
PLAIN = ("link", "upward", "blank", "assign", "set", "href", "top", "alias", "refresh", "script")
WAYS = dict.fromkeys(PLAIN, ARRIVED) | {
    "asking": f"{CDN}/found?q=a+b",
    "posting": f"{NEWS}/search",
    "replace": "http://cdn.example/arrived",
    "path": f"{NEWS}/frame",
    "form": f"{ARRIVED}?",
}
REFUSED = ("alias", "refresh")  # where the browser does not tell of a navigation before it begins


@pytest.mark.parametrize("way", WAYS)
def test_w17_the_next_page_is_archived_too(tab: Tab, way: str) -> None:
    frame = tab.open(f"{NEWS}/leaving")
    if way in REFUSED and frame.evaluate("!('navigation' in window)"):
        pytest.skip("this browser has no Navigation API: the page stays, as the next test shows")
    frame.evaluate(f"void setTimeout(() => ways.{way}())")
    assert tab.at(WAYS[way]).evaluate("document.title") in ("arrived", "found", "results", "frame")


@pytest.mark.parametrize("way", REFUSED)
def test_w17_without_a_navigation_api_the_frame_refuses_to_leave(tab: Tab, way: str) -> None:
    frame = tab.open(f"{NEWS}/leaving")
    if frame.evaluate("'navigation' in window"):
        pytest.skip("this browser tells of navigations")
    tab.page.evaluate("void addEventListener('securitypolicyviolation', (e) => { window.refused = e.blockedURI })")
    frame.evaluate(f"void setTimeout(() => ways.{way}())")
    tab.until(lambda: str(tab.page.evaluate("window.refused || ''")).startswith(CDN))
    assert f"/{NEWS}/leaving" in frame.url


def test_w17_a_page_that_refreshes_itself_goes_on_in_the_archive(tab: Tab) -> None:
    tab.page.goto(f"{tab.stage.served.controls}/main/20240102030405/{NEWS}/meta")
    assert tab.at(ARRIVED).evaluate("document.title") == "arrived"
