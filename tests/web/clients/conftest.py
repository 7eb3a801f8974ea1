"""What the tests with other people's clients share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from client_archive import client_archive
from serving import Served, serving


@pytest.fixture(scope="module")
def archive_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return client_archive(tmp_path_factory.mktemp("clients") / "archive")


@pytest.fixture(scope="module")
def served(archive_path: Path) -> Iterator[Served]:
    with serving(archive_path) as there:
        yield there
