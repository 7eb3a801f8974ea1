"""Without a browser pages are fetched as ever, and what is missing is said."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest
from browser_site import Reply, crawled, job_of, serving

from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings

PAGE = b"<p>plain<img src=/picture.png>"


@pytest.mark.parametrize("broken", [False, True], ids=["there is none", "it does not start"])
def test_pages_are_fetched_without(tmp_path: Path, broken: bool) -> None:
    executable = tmp_path / "no-browser"
    if broken:
        executable.write_text("#!/bin/sh\nexit 3\n")
        executable.chmod(0o755)
    with serving({"/": Reply(PAGE), "/picture.png": Reply(b"p", "image/png")}) as site:
        job = job_of(site, browser={"executable": str(executable)})
        with crawled(tmp_path, job) as crawl:
            assert crawl.body(site.url("/")) == PAGE
            assert crawl.body(site.url("/picture.png")) == b"p"
            assert "fetched without a browser" in crawl.note(site.url("/"))


def test_what_is_missing_is_said_with_the_repair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(util, "find_spec", lambda _: None)
        patched.setattr("holdfast.crawl.browser.open.find_spec", lambda _: None)
        assert "pip install holdfast[browser]" in available(BrowserSettings())
    monkeypatch.setattr("holdfast.crawl.browser.open.find_spec", lambda _: object())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install chromium" in available(BrowserSettings())
    assert "'/nowhere/chrome'" in available(BrowserSettings(executable="/nowhere/chrome"))
    own = tmp_path / "chromium"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert available(BrowserSettings()) == ""
    assert executable_of(BrowserSettings()) == str(own)
