"""The pages in a real browser: by keyboard alone, on a phone and a wide screen, in light and dark (P)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from page_archive import BUSY, HOME, LONG, MARKUP
from serving import Served

from holdfast.config import AccessRule
from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings
from holdfast.web.auth.access import Access
from holdfast.web.ui.display import path_to

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

missing = available(BrowserSettings())
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")
LOOKS: dict[str, tuple[int, int, Literal["light", "dark"]]] = {
    "phone, light": (360, 740, "light"),
    "wide, dark": (1440, 900, "dark"),
}
SETTLED_MS = 500  # more than banner.js waits
TABS_MAX = 80


class Reader:
    """Somebody at a browser without a mouse."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.complaints: list[str] = []
        page.on("console", lambda message: self._hear(message.type, message.text, message.location["url"]))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, kind: str, text: str, where: str) -> None:
        """What the archived page in the frame has to complain of is its own affair."""
        if kind in ("error", "warning") and where.startswith(self.origin):
            self.complaints.append(text)

    def open(self, target: str) -> None:
        self.page.goto(self.origin + target)

    def tab_to(self, selector: str) -> None:
        """Presses Tab until the focus is there."""
        for _ in range(TABS_MAX):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
                return
        raise AssertionError(f"'{selector}' cannot be reached by keyboard")

    def follow(self, selector: str) -> None:
        self.tab_to(selector)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def width_beyond(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = executable_of(BrowserSettings())
        yield playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)


@pytest.fixture(params=LOOKS)
def reader(served: Served, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Reader]:
    width, height, scheme = LOOKS[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    yield Reader(context.new_page(), served.controls)
    context.close()


def test_from_the_first_page_to_a_capture_and_the_next_by_keyboard(reader: Reader, served: Served) -> None:
    page = reader.page
    reader.open("/")
    assert reader.width_beyond() <= 0
    reader.tab_to("#q")
    page.keyboard.type("museum rooms")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "3 addresses" in page.inner_text("main")
    assert reader.width_beyond() <= 0
    reader.tab_to("#masthead-q")
    page.keyboard.press("Control+A")
    page.keyboard.type("museum.example")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == f"{served.controls}/all/*/{HOME}"[:-1]
    assert reader.width_beyond() <= 0
    reader.follow(".timeline a[href*='/2020*']")
    reader.tab_to("a.day")
    page.keyboard.press("ArrowRight")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    date = page.inner_text("#date")
    assert "2020" in date
    assert reader.width_beyond() <= 0
    reader.follow("#next")
    assert page.inner_text("#date") != date
    reader.tab_to("#hide")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "show"
    assert not page.is_visible("#banner")
    page.keyboard.press("Enter")
    assert page.is_visible("#banner")
    reader.tab_to("iframe")
    assert reader.complaints == []


def test_no_page_is_wider_than_its_window(reader: Reader) -> None:
    for target in (
        *("/", "/main/", "/search?q=hostile", "/main/*/hostile.example/*", f"/main/*/{HOME}rooms/south"),
        *(path_to("main", "*", MARKUP), path_to("main", "*", LONG), path_to("main", "20260102030407", LONG)),
        *(f"/news/20250303*/{BUSY}", "/nowhere/", "/api/docs"),
    ):
        reader.open(target)
        assert reader.width_beyond() <= 0, target
    refused = [each for each in reader.complaints if "404" not in each]
    assert refused == []


def test_captures_of_a_day_appear_in_place_and_go_back(served: Served, reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/news/2025*/{BUSY}")
    reader.tab_to("a.day[data-period='20250303']")
    page.evaluate("document.body.dataset.same = 'yes'")
    page.keyboard.press("Enter")
    expect(page.locator("#captures h2")).to_have_text(re.compile("in 3 March 2025"))
    assert page.evaluate("document.body.dataset.same") == "yes"
    assert page.evaluate("document.activeElement.id") == "captures-title"
    assert page.url == f"{served.controls}/news/20250303*/{BUSY}"
    page.go_back()
    expect(page.locator("#captures h2")).to_have_text(re.compile("in 2025"))
    assert reader.complaints == []


def tell(reader: Reader, message: str, *, from_frame: bool = True) -> None:
    """Sends the banner a message, from the archived page in its frame or from elsewhere."""
    frame = reader.page.frames[1] if from_frame else reader.page.main_frame
    target = "top" if from_frame else "window"
    frame.evaluate(f"({target}).postMessage({message}, '*')")


def test_the_banner_follows_the_page_in_its_frame(served: Served, reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20211230093000/{HOME}")
    expect(page).to_have_title("The museum · Holdfast")
    tell(reader, f"{{holdfast: 'at', url: '{HOME}about', timestamp: '20240506070809', title: '<b>About</b>'}}")
    expect(page.locator("#date")).to_have_text("6 May 2024, 07:08:09 UTC")
    expect(page).to_have_title("<b>About</b> · Holdfast")
    expect(page.locator("#address")).to_have_value(f"{HOME}about")
    expect(page.locator("#position")).to_have_text(", 1 of 1")
    expect(page.locator("#previous")).to_have_attribute("aria-disabled", "true")
    assert page.url == f"{served.controls}/main/20240506070809/{HOME}about"
    assert reader.complaints == []


def test_the_banner_warns_of_parts_of_other_times_and_of_missing_ones(reader: Reader) -> None:
    """N9: the spread of times is told, and a warning is given beyond the limit of the settings."""
    from playwright.sync_api import expect

    note, statement = reader.page.locator("#coherence"), reader.page.locator("#apart")
    reader.open(f"/main/20211230093000/{HOME}")
    expect(reader.page).to_have_title("The museum · Holdfast")
    tell(reader, "{holdfast: 'parts', earliest: '20211230093000', latest: '20211230113000', count: 2, missing: 1}")
    expect(statement).to_have_text("Parts 2 hours apart, 1 missing")
    expect(note).not_to_have_class(re.compile("warn"))
    expect(reader.page.locator("#why")).to_be_hidden()
    statement.click()
    expect(reader.page.locator("#why")).to_have_text(
        "This page was captured on 30 December 2021, 09:30:00 UTC. It is shown with parts captured from "
        "30 December 2021, 09:30:00 UTC to 30 December 2021, 11:30:00 UTC, the nearest there are. "
        "One part is not archived."
    )
    expect(reader.page.locator("#why")).to_be_visible()
    assert reader.width_beyond() <= 0
    tell(reader, "{holdfast: 'parts', earliest: '20190101000000', latest: '20211230093000', count: 3, missing: 0}")
    expect(statement).to_have_text("Parts over 2 years apart")
    expect(reader.page.locator("#why")).to_contain_text("The page may never have looked like this.")
    assert statement.evaluate("(it) => it.scrollWidth <= it.clientWidth")  # all of it, at every width
    expect(note).to_have_class(re.compile("warn"))


def test_a_link_to_what_is_not_archived_leads_to_the_page_that_helps_on_and_back(
    served: Served, reader: Reader
) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20240506070809/{HOME}about")
    expect(page).to_have_title("about · Holdfast")
    before = page.url
    page.frames[1].evaluate(f"location.href = '/main/20240506070809mp_/{HOME}rooms/south?a=b%20c'")
    page.wait_for_url(f"{served.controls}/main/20240506070809/{HOME}rooms/south?a=b%20c")
    expect(page.get_by_role("heading", name="Not archived")).to_be_visible()
    expect(page.get_by_role("link", name="museum.example/rooms/east")).to_be_visible()
    page.go_back()
    expect(page.locator("#address")).to_have_value(f"{HOME}about")
    assert page.url == before


def test_a_link_to_what_is_blocked_leads_to_the_page_that_says_so(served: Served, reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20240506070809/{HOME}about")
    expect(page).to_have_title("about · Holdfast")
    open_to_all = served.site.access
    try:
        served.site.access = Access([AccessRule(rule="block", url=f"{HOME}shop")])
        page.frames[1].evaluate(f"location.href = '/main/20240506071309mp_/{HOME}shop'")
        page.wait_for_url(f"{served.controls}/main/20240506071309/{HOME}shop")
        expect(page.get_by_role("heading", name="Not available")).to_be_visible()
    finally:
        served.site.access = open_to_all


def test_a_frame_within_an_archived_page_moves_nothing(served: Served, reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20240506070809/{HOME}about")
    expect(page).to_have_title("about · Holdfast")
    page.frames[1].evaluate(
        """url => new Promise(done => {
            const inner = document.createElement("iframe");
            inner.onload = done;
            inner.src = url;
            document.body.append(inner);
        })""",
        f"/main/20240506070809if_/{HOME}rooms/south",
    )
    tell(reader, f"{{holdfast: 'at', url: '{HOME}about', timestamp: '20240506070809', title: 'Still here'}}")
    expect(page).to_have_title("Still here · Holdfast")
    assert page.url == f"{served.controls}/main/20240506070809/{HOME}about"


def test_the_banner_is_slim(reader: Reader) -> None:
    from playwright.sync_api import expect

    reader.open(f"/main/20211230093000/{HOME}")
    expect(reader.page).to_have_title("The museum · Holdfast")
    tell(reader, "{holdfast: 'parts', earliest: '20211230093000', latest: '20211230113000', count: 2, missing: 1}")
    expect(reader.page.locator("#coherence")).to_be_visible()
    assert reader.page.locator("#banner").bounding_box()["height"] <= 90  # type: ignore[index]
    assert reader.width_beyond() <= 0


@pytest.mark.parametrize("kind", ["at", "missing"])
def test_a_page_that_says_it_is_of_another_host_is_replaced_by_what_it_says(
    served: Served, reader: Reader, kind: str
) -> None:
    """H8: a page cannot stand under the name of another; its own host it can name, and other pages of that."""
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20211230093000/{HOME}")
    expect(page).to_have_title("The museum · Holdfast")
    tell(reader, f"{{holdfast: '{kind}', url: 'http://bank.example/../../../x', timestamp: '20240506070809'}}")
    page.wait_for_url(f"{served.controls}/main/20240506070809/http://bank.example/x")
    expect(page.get_by_role("heading", name="Not archived")).to_be_visible()
    assert page.locator("iframe").count() == 0


def test_what_does_not_tell_where_it_is_is_doubted(reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    note = page.locator("#coherence")
    reader.open(f"/main/20211230093000/{HOME}")
    expect(page).to_have_title("The museum · Holdfast")
    page.wait_for_timeout(SETTLED_MS)  # of what was loaded before, all has been heard
    page.frames[1].evaluate("location.href = '/_hf/enter.js'")
    expect(note).to_contain_text("What is shown does not tell its address: it may be another than the one above.")


def test_the_banner_believes_nobody_but_its_frame(served: Served, reader: Reader) -> None:
    from playwright.sync_api import expect

    page = reader.page
    reader.open(f"/main/20211230093000/{HOME}")
    expect(page).to_have_title("The museum · Holdfast")
    here = page.url
    forged = f"{{holdfast: 'at', url: '{HOME}about', timestamp: '20240506070809', title: 'Forged'}}"
    tell(reader, forged, from_frame=False)
    for message in (
        "null",
        "'at'",
        "{holdfast: 'at'}",
        "{holdfast: 'at', url: 'javascript:1', timestamp: '20240506070809'}",
        "{holdfast: 'missing'}",
        "{holdfast: 'missing', url: 'javascript:1', timestamp: '2024', status: 404}",
        "{holdfast: 'missing', url: 'http://x.example/', timestamp: '../..', status: 404}",
    ):
        tell(reader, message)
    tell(reader, "{holdfast: 'parts', earliest: '<b>', latest: {}, missing: '<i>'}")
    tell(reader, "{holdfast: 'at', url: 'http://museum.example/', timestamp: '20211230093000', title: 'Last'}")
    expect(page).to_have_title("Last · Holdfast")
    assert page.url == here
    assert page.is_hidden("#coherence")
    assert reader.complaints == []
