"""A pytest plugin: an S3 server for each module that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from object_store import S3Server

from holdfast.storage.volumes.object import bucket, tiered_files


@pytest.fixture(autouse=True)
def _soon_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not answer is down after seconds."""
    monkeypatch.setattr(bucket, "TIMEOUT_S", 5.0)


@pytest.fixture
def no_object_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is read from the store itself."""
    monkeypatch.setattr(tiered_files, "CACHE_BYTES", 0)


@pytest.fixture(scope="module")
def s3(memory_path: Path) -> Iterator[S3Server]:
    directory = memory_path / f"s3-{len(list(memory_path.iterdir()))}"
    with S3Server(directory) as server, pytest.MonkeyPatch.context() as patch:
        server.set_environment(patch.setenv)
        yield server


@pytest.fixture
def url(s3: S3Server, request: pytest.FixtureRequest) -> str:
    """A prefix of the test's own."""
    return f"s3://holdfast/{request.node.name}"
