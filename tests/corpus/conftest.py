"""A small archive that all readers read: pages of two collections, some captured twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_pages import CAPTURES, visit

import holdfast


@pytest.fixture(scope="session")
def archive_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        for side in (False, True):
            pages = [visit(number) for number in range(CAPTURES) if (number % 4 == 0) == side]
            archive.add(pages, batch="one", collection="side" if side else "main")
    return path


@pytest.fixture(scope="session")
def urls(archive_path: Path) -> list[tuple[str, str]]:
    """URL and time of each capture, sorted: what every reader must give."""
    with holdfast.open(archive_path, read_only=True) as archive:
        return sorted(
            (each.capture.url, each.capture.timestamp) for each in archive.search(holdfast.CaptureQuery(url="*"))
        )
