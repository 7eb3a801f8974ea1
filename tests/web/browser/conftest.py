"""One archive and one browser for all tests that look at pages; none of them may have tried to leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hostile_pages import archived_pages
from replay_browser import Stage, Tab, missing, staged, strangers


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(tmp_path_factory.mktemp("replay"), archived_pages()) as stage:
        yield stage


@pytest.fixture(params=[True, False], ids=["worker", "no worker"])
def tab(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Tab]:
    with stage.context(worker=request.param) as tab:
        yield tab
    assert strangers(stage.trap.hosts, stage.served) == set()
