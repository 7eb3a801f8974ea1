"""axe-core finds no fault on any page, on phones and wide screens, in light and dark (P13)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pictured_archive import CRAWLED, HARBOUR, build
from serving import Served, serving

import holdfast
from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings
from holdfast.web.auth.tokens import Tokens

if TYPE_CHECKING:
    from playwright.sync_api import Browser

missing = available(BrowserSettings())
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")
SCREENS = {"phone": (390, 844), "wide": (1280, 800)}
PAGES = {
    "home": "/",
    "collection": "/main/",
    "search": "/search",
    "results": "/search?q=harbour",
    "captures": "/search?q=harbour&group=capture",
    "texts": "/search?q=the&group=text",
    "fault": "/search?q=title:&as=words",
    "nothing": "/search?q=qwertyuiop+site:town.example",
    "addresses": "/search?q=harbour&as=addresses",
    "listing": "/search?q=harbour.example/*",
    "explore": "/explore",
    "host": "/explore?host=harbour.example",
    "type": "/explore?host=harbour.example&type=text/html",
    "calendar": f"/web/*/{HARBOUR}",
    "replay": f"/web/{CRAWLED}/{HARBOUR}",
    "choose": f"/compare?url={HARBOUR}",
    "compare": f"/compare?a=2023&b=2024&url={HARBOUR}",
    "links": f"/compare?a=2023&b=2024&url={HARBOUR}&view=links",
    "headers": f"/compare?a=2023&b=2024&url={HARBOUR}&view=headers",
    "side": f"/compare?a=2023&b=2024&url={HARBOUR}&view=side",
    "studies": "/studies",
    "study": "/studies/composition",
    "plan": "/studies/plan?preset=archive&copies=2",
    "crawls": "/crawls",
    "crawl": "/crawls/harbour",
    "volumes": "/volumes",
    "nodes": "/nodes",
    "api": "/api/docs",
    "missing": "/web/2020/http://nowhere.example/",
    "unknown": "/explore?host=nowhere.example",
    "error": "/search?q=x&page=0",
}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    archive = build(tmp_path_factory.mktemp("pictured"))
    with serving(archive, tokens=Tokens((), ("a-token-for-writing-1234",))) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = executable_of(BrowserSettings())
        launched = playwright.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
        yield launched
        launched.close()


def violations(browser: Browser, address: str) -> dict[str, list[str]]:
    """What axe-core complains of at each size and scheme. Archived pages in frames are those of others."""
    from axe_playwright_python.sync_playwright import Axe

    found = {}
    for screen, (width, height) in SCREENS.items():
        for scheme in ("light", "dark"):
            options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
            context = browser.new_context(bypass_csp=True, **options)
            page = context.new_page()
            page.goto(address)
            result = Axe().run(page, context={"exclude": [["iframe"]]}, options={"iframes": False})
            faults = [
                f"{each['id']}: {node['html'][:150]}"
                for each in result.response["violations"]
                for node in each["nodes"]
            ]
            if faults:
                found[f"{screen} {scheme}"] = faults
            assert len(result.response["passes"]) > 5, "axe has looked at it"
            context.close()
    return found


@pytest.mark.parametrize("target", PAGES.values(), ids=PAGES)
def test_no_page_has_a_fault(pictured: Served, browser: Browser, target: str) -> None:
    assert violations(browser, pictured.controls + target) == {}


@pytest.mark.parametrize("screen", SCREENS)
def test_the_figures_of_a_plan_are_in_sight(pictured: Served, browser: Browser, screen: str) -> None:
    """No need to scroll a table sideways for the value of a figure, and nothing is wider than the screen (H9)."""
    width, height = SCREENS[screen]
    with browser.new_context(viewport={"width": width, "height": height}) as context:
        page = context.new_page()
        page.goto(f"{pictured.controls}/studies/plan?preset=thesis")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('.chart img').naturalWidth") > 0
        boxes = page.locator("table").first.locator("td.number")
        assert boxes.count() > 15
        for number in range(boxes.count()):
            box = boxes.nth(number).bounding_box()
            assert box is not None and box["x"] + box["width"] <= width, boxes.nth(number).inner_text()


def test_an_empty_archive_has_none(tmp_path: Path, browser: Browser) -> None:
    holdfast.init(tmp_path / "archive")
    with serving(tmp_path / "archive", tokens=Tokens((), ("a-token-for-writing-1234",))) as served:
        for target in ("/", "/explore", "/crawls", "/search?q=x"):
            assert violations(browser, served.controls + target) == {}


def test_faults_are_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<title>x</title><img src=x><input><a href=x></a>" + "<p>text</p>" * 9)
    assert "image-alt" in str(violations(browser, page.as_uri()))
