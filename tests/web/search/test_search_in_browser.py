"""The search page in a real browser: by keyboard alone, without scripts, on a phone and a wide screen (P)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from search_archive import MANY, indexed, many
from serving import Served, serving

from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

missing = available(BrowserSettings())
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")
LOOKS: dict[str, tuple[int, int, Literal["light", "dark"]]] = {
    "phone, light": (360, 740, "light"),
    "wide, dark": (1440, 900, "dark"),
}
TABS_MAX = 200
SHOWN = {
    "how to ask": "/search",
    "none": "/search?q=qwertyuiop+site:town.example",
    "one": "/search?q=zeppelin",
    "many": "/search?q=ubiquitous",
    "a year": "/search?q=tides+from:2024+to:2024",
    "right to left": "/search?q=%DA%A9%D8%AA%D8%A7%D8%A8",
    "malformed": "/search?q=title:(+" + "x" * 300,
    "long": "/search?q=" + "x" * 2000,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = executable_of(BrowserSettings())
        yield playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)


@pytest.fixture(params=LOOKS)
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Without scripts: nothing here may need them."""
    width, height, scheme = LOOKS[request.param]
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=False)  # type: ignore[arg-type]
    yield context.new_page()
    context.close()


def tab_to(page: Page, selector: str) -> None:
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"'{selector}' cannot be reached by keyboard")


def follow(page: Page, selector: str) -> None:
    tab_to(page, selector)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_from_the_first_page_to_a_hit_by_keyboard_and_without_scripts(searched: Served, page: Page) -> None:
    page.goto(f"{searched.controls}/")
    tab_to(page, "#q")
    page.keyboard.type("tides")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "5 captures" in page.inner_text("main")
    follow(page, ".facets a[href*='town.example']")
    assert "3 captures" in page.inner_text("main")
    follow(page, ".timeline a[href*='from%3A2024']")
    assert "1 capture." in page.inner_text("main")
    follow(page, ".chips a[aria-label='Without site:town.example']")
    assert "2 captures" in page.inner_text("main")
    follow(page, ".bar a[href*='sort=oldest']")
    follow(page, ".hits h2 a")
    assert page.url == f"{searched.controls}/main/20240305101112/http://town.example/"


@pytest.mark.parametrize("target", SHOWN.values(), ids=SHOWN)
def test_no_page_is_wider_than_its_window_and_the_box_is_in_sight(searched: Served, page: Page, target: str) -> None:
    page.goto(f"{searched.controls}{target}")
    width = page.viewport_size["width"]  # type: ignore[index]
    assert page.locator("html").bounding_box()["width"] <= width  # type: ignore[index]
    for selector in ("main", "#q", "nav[aria-label=Main]"):
        box = page.locator(selector).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width, selector
    for each in page.locator("main a, main p, main code").all()[:60]:
        box = each.bounding_box()
        if box is not None and each.is_visible():
            assert box["x"] + box["width"] <= width + 1, each.inner_text()[:80]


def test_pages_are_turned_by_keyboard(searched: Served, page: Page) -> None:
    page.goto(f"{searched.controls}/search?q=ubiquitous")
    follow(page, "a[rel=next]")
    assert f"page 2 of {MANY // 20}" in page.inner_text("main")


@pytest.mark.soak
def test_ten_thousand_hits(tmp_path: Path, page: Page) -> None:
    with serving(indexed(many(tmp_path / "archive", 10_000))) as there:
        page.goto(f"{there.controls}/search?q=ubiquitous&page=500")
        assert "10,000 captures, page 500 of 500" in page.inner_text("main")
        assert page.locator(".hits h2").count() == 20
        assert len(page.screenshot(full_page=True)) > 10_000
