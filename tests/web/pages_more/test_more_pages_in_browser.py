"""Explorer, comparison and crawls in a real browser: phone and wide screen, light and dark (P)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from more_archive import MARKUP, URL
from serving import Served

from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings

missing = available(BrowserSettings())
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")
SCREENS = {"phone": (360, 740), "wide": (1440, 900)}
PAGES = (
    *("/explore", "/explore?filter=host2", "/explore?host=example.com", "/explore?host=example.com&type=image/png"),
    *("/compare", f"/compare?url={URL}", "/crawls", "/volumes"),
    *(
        f"/compare?{urlencode({'url': URL, 'a': 2020, 'b': 2023, 'view': view})}"
        for view in ("text", "links", "headers")
    ),
    f"/compare?{urlencode({'url': MARKUP, 'a': 2020, 'b': 2021})}",
    f"/compare?{urlencode({'url': URL + 'i.png', 'a': 2020, 'b': 2023})}",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = executable_of(BrowserSettings())
        launched = playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        yield launched
        launched.close()


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_and_nothing_is_complained_of(
    seen: Served, browser: object, screen: str, scheme: str
) -> None:
    from playwright.sync_api import Browser

    assert isinstance(browser, Browser)
    width, height = SCREENS[screen]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for target in PAGES:
        page.goto(seen.controls + target)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, target
    assert complaints == []
    page.close()


def test_both_pages_are_shown_in_their_frames(seen: Served, browser: object) -> None:
    from playwright.sync_api import Browser

    assert isinstance(browser, Browser)
    page = browser.new_page()
    page.goto(f"{seen.controls}/compare?{urlencode({'url': URL, 'a': 2020, 'b': 2023, 'view': 'side'})}")
    texts = [
        page.frame_locator("iframe").nth(number).get_by_text("The harbour opens").inner_text() for number in (0, 1)
    ]
    assert texts == ["The harbour opens at nine.", "The harbour opens at ten."]
    page.close()


def test_two_captures_are_chosen_and_compared(seen: Served, browser: object) -> None:
    from playwright.sync_api import Browser

    assert isinstance(browser, Browser)
    page = browser.new_page()
    page.goto(f"{seen.controls}/compare?url={URL}")
    with page.expect_navigation():
        page.get_by_role("button", name="Compare").click()
    assert page.locator("del").first.is_visible()
    page.get_by_role("link", name="Headers").click()
    page.wait_for_url("**view=headers*")
    assert page.get_by_text("x-gone").is_visible()
    page.close()
