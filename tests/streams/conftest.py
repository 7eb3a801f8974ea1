"""What the tests of streams share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from small_limits import shrink
from stream_world import PLAN

import holdfast
from holdfast import Archive


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch.setattr)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Closes what is pushed on it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def archive(tmp_path: Path, closing: ExitStack) -> Archive:
    """An empty archive with small limits, so that little data makes many frames and files."""
    holdfast.init(tmp_path / "archive", PLAN)
    return closing.enter_context(holdfast.open(tmp_path / "archive"))
