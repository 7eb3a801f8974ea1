"""What several tests of crawls need."""

from __future__ import annotations

from pathlib import Path

import pytest
from crawl_clock import Clock


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of this process, and of all that crawls start."""
    return Clock(tmp_path / "hooks", monkeypatch)
