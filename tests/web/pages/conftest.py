"""One archive and one server for all tests of pages: none of them changes anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from page_archive import build
from serving import Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Both origins of an archive with a long history, two collections and strange addresses."""
    with serving(build(tmp_path_factory.mktemp("pages"))) as archive:
        yield archive
