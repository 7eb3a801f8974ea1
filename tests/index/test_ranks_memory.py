"""Ranks of many links need little memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranked_in_a_child import ranked


def test_three_hundred_thousand_links_within_400_mb(tmp_path: Path) -> None:
    told = ranked(tmp_path, 300_000)
    assert told["links"] > 290_000
    assert told["peak_bytes"] < 400e6


@pytest.mark.soak
def test_five_million_links_within_2_gb(tmp_path: Path) -> None:
    told = ranked(tmp_path, 5_000_000)
    assert told["links"] > 4_900_000
    assert told["peak_bytes"] < 2e9
