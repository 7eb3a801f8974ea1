"""What the tests of the archive share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from small_limits import shrink
from truths import PLAN

import holdfast
from holdfast import Archive


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch.setattr)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory in memory, where the system has one: for thousands of syncs that prove nothing about the disk."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with TemporaryDirectory(prefix="holdfast-test-", dir=place) as directory:
        monkeypatch.setattr("tempfile.tempdir", directory)
        yield Path(directory)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Closes what is pushed on it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def archive(quick: Path, closing: ExitStack) -> Archive:
    """An empty archive with small limits, so that little data makes many pieces, frames and files."""
    holdfast.init(quick / "archive", PLAN)
    return closing.enter_context(holdfast.open(quick / "archive"))
