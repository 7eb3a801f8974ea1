"""The browser of this machine: where it is, and whether pages can be shown in it. Imports nothing of Playwright."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from holdfast.crawl.job.job import BrowserSettings

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable_of(settings: BrowserSettings) -> str:
    """The browser's path; empty if there is none."""
    for name in (settings.executable,) if settings.executable else _NAMES:
        found = shutil.which(name)
        if found:
            return found
    return ""


def available(settings: BrowserSettings) -> str:
    """Empty if pages can be shown in a browser; else why not, and what to do about it."""
    if find_spec("playwright") is None:
        return "Playwright is not installed: run 'pip install holdfast[browser]'"
    if executable_of(settings):
        return ""
    if settings.executable:
        return f"there is no browser '{settings.executable}': correct 'executable' of [browser], or leave it out"
    return "there is no Chromium on this machine: install one ('apt install chromium'), or name one in [browser]"
