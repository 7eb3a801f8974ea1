"""One archive and one server for all tests of the search that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from search_archive import few, indexed, many
from serving import Served, serving


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(indexed(many(few(tmp_path_factory.mktemp("search") / "archive")))) as archive:
        yield archive
