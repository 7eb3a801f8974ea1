"""One archive and one browser of each kind for all tests that look at pages; none of them may have tried to leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from firefox_browser import Firefox, firefox, firefox_tab, missing_firefox
from hostile_pages import archived_pages
from replay_browser import Stage, missing, staged, strangers


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(tmp_path_factory.mktemp("replay"), archived_pages()) as stage:
        yield stage


@pytest.fixture(scope="module")
def other_browser(stage: Stage) -> Iterator[Firefox]:
    if missing_firefox:
        pytest.skip(missing_firefox)
    with firefox(stage) as browser:
        yield browser


@pytest.fixture(params=["worker", "no worker", "firefox"])
def tab(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A tab of Chromium, with and without its service worker, and one of Firefox."""
    if request.param == "firefox":
        with firefox_tab(stage, request.getfixturevalue("other_browser")) as tab:
            yield tab
    else:
        with stage.context(worker=request.param == "worker") as tab:
            yield tab
    assert strangers(stage.trap.hosts, stage.served) == set()
