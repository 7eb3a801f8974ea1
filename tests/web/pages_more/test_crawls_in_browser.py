"""A crawl started, followed and stopped by somebody at a browser (P)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from more_crawling import TOKEN, linked_pages, stopped_at_the_end, writable

from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings

missing = available(BrowserSettings())
pytestmark = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")
MORE_THAN_ONE = re.compile(r"^([2-9]|\d{2,})$")
WAIT_MS = 30_000


def test_a_crawl_from_its_form_to_its_end(tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    path = tmp_path / "archive"
    with linked_pages() as url, writable(path) as served, stopped_at_the_end(path, "mine"), sync_playwright() as driver:
        executable = executable_of(BrowserSettings())
        browser = driver.chromium.launch(executable_path=executable, chromium_sandbox=os.geteuid() != 0)
        page = browser.new_page(viewport={"width": 360, "height": 740})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{served.controls}/crawls?url={url}")
        assert page.input_value("#seeds") == url
        page.fill("#name", "mine")
        page.fill("#token", "not-the-right-token")
        page.get_by_role("button", name="Start").click()
        page.wait_for_selector("[data-problem]:not([hidden])")
        assert "token" in page.inner_text("[data-problem]")
        assert complaints and all("401" in each for each in complaints)
        page.fill("#token", TOKEN)
        with page.expect_navigation(url="**/crawls/mine"):
            page.get_by_role("button", name="Start").click()
        page.evaluate("document.body.dataset.same = 'yes'")
        expect(page.locator("#live .figures dd").first).to_have_text(MORE_THAN_ONE, timeout=WAIT_MS)
        assert page.evaluate("document.body.dataset.same") == "yes"
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert not page.is_visible("#token")
        page.get_by_role("button", name="Stop this crawl").click()
        expect(page.locator("#live h1")).to_contain_text("stopped", timeout=WAIT_MS)
        assert not page.is_visible("[data-stop]")
        assert TOKEN not in page.content()
        assert all("401" in each for each in complaints)
        browser.close()
