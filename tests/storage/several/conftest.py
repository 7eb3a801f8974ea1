"""A world of volumes in memory, closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from several_world import World


@pytest.fixture
def make_world(memory_path: Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(volumes: int, organization: str = "log", **store: Any) -> World:
        worlds.append(World(Path(mkdtemp(dir=memory_path)), volumes, organization, **store))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
