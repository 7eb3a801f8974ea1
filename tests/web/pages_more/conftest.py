"""One archive and one server for the tests that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from more_archive import build
from serving import Served, serving


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(build(tmp_path_factory.mktemp("more"))) as archive:
        yield archive
