"""What the catalog's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from holdfast.catalog import Catalog

settings.register_profile("catalog", deadline=None)  # how long an example takes is not what is tested
settings.load_profile("catalog")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path / "catalog", cache_bytes=1 << 20) as catalog:
        yield catalog
