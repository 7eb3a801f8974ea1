"""A pytest plugin: the fixture that the crash tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from crash_world import MEMORY


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that does not exist yet, and a place for temporary files, in memory where that can be."""
    with TemporaryDirectory(prefix="holdfast-test-", dir=MEMORY) as directory:
        monkeypatch.setattr("tempfile.tempdir", directory)
        yield Path(directory) / "world"
