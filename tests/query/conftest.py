"""What the tests of queries share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from query_archive import Asked, filled, generated_pages


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory in memory, where the system has one."""
    shared = Path("/dev/shm")
    place = shared if os.access(shared, os.W_OK) else None
    with TemporaryDirectory(prefix="holdfast-test-", dir=place) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def asked(scratch: Path) -> Iterator[Asked]:
    """An archive of generated pages, indexed and ranked, and what a scan finds in it. Only to be read."""
    with filled(scratch / "asked", generated_pages(120), seed=1, steps=3) as found:
        yield found
