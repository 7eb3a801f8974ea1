"""Object-store volumes pass the conformance suite, over a plain directory and over a real S3 server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from object_store import S3Server

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL, paths
from holdfast.storage.volume import Volume
from holdfast.storage.volumes.log import segment_files
from holdfast.storage.volumes.log.compaction import compact
from holdfast.storage.volumes.object import bucket, tiered_files
from holdfast.storage.volumes.object.volume import ObjectVolume
from holdfast.storage.volumes.organizations import create_volume, open_volume
from holdfast.testing.volumes import OrganizationConformance

pytest_plugins = ["object_fixtures"]


@pytest.fixture
def tmp_path(memory_path: Path, request: pytest.FixtureRequest) -> Path:
    """In memory: the suite syncs thousands of times, and proves nothing about the disk."""
    owner = request.cls.__name__ if request.cls else ""
    return memory_path / f"{owner}-{request.node.name}"


class InObjects(OrganizationConformance):
    """A volume whose segments rest in a store."""

    options: ClassVar[dict[str, Any]] = {"segment_bytes_max": 4096}

    @pytest.fixture(autouse=True)
    def _few_open_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(segment_files, "OPEN_SEGMENTS_MAX", 4)

    def url(self, directory: Path) -> str:
        return f"file://{directory / 'store'}"

    def open_volume(self, directory: Path) -> Volume:
        settings = StoreSettings(keydir_cache_bytes=1 << 20, **self.options)
        if not (directory / paths.VOLUME).exists():
            create_volume(directory, VolumeSettings("v0", url=self.url(directory)), settings, REAL)
        volume = open_volume("v0", directory, settings, REAL)
        assert isinstance(volume, ObjectVolume)
        return volume


class TestInADirectory(InObjects):
    pass


class TestInADirectoryOfLargeSegments(InObjects):
    options: ClassVar = {}


class TestInADirectoryWithHardlyAnyCache(InObjects):
    options: ClassVar = {"segment_bytes_max": 20_000}

    @pytest.fixture(autouse=True)
    def _no_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tiered_files, "CACHE_BYTES", 0)
        monkeypatch.setattr(bucket, "REQUESTS_MAX", 1)


class TestInADirectoryCompactedAtEveryOpening(InObjects):
    def open_volume(self, directory: Path) -> Volume:
        volume = super().open_volume(directory)
        assert isinstance(volume, ObjectVolume)
        compact(volume)
        return volume


class TestInS3(InObjects):
    options: ClassVar = {"segment_bytes_max": 16_384}

    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        """The server is there."""

    def url(self, directory: Path) -> str:
        return f"s3://holdfast/{directory.name}"
