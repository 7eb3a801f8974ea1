"""What the storage tests share: archives and volumes in fresh directories, closed when the test ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import holdfast
from holdfast import Archive, Plan, StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment, paths
from holdfast.storage.volume import Volume
from holdfast.storage.volumes.organizations import create_volume, open_volume
from holdfast.testing.weak_signature import register_weak_signature

SHAPE = ("depth", "logs", "buckets", "bucket_bytes")
register_weak_signature()


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Closes what is pushed on it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def memory_path() -> Iterator[Path]:
    """A directory in memory, where the system has one: for thousands of syncs that prove nothing about the disk."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(prefix="holdfast-test-", dir=shared if os.access(shared, os.W_OK) else None) as directory:
        yield Path(directory)


@pytest.fixture
def make_archive(tmp_path: Path, closing: ExitStack) -> Callable[..., Archive]:
    """Makes an archive and opens it: `make_archive(2, signature="weak")`."""

    def make(volumes: int = 1, *, organization: str = "log", **store: Any) -> Archive:
        path = tmp_path / "archive"
        holdfast.init(path, Plan(volumes, organization, store=StoreSettings(**store)))
        return closing.enter_context(holdfast.open(path))

    return make


@pytest.fixture
def volume_at() -> Callable[..., Volume]:
    """Opens the volume in a directory, making it first if there is none."""

    def at(directory: Path, organization: str, *, env: Environment = REAL, **options: Any) -> Volume:
        shape = {name: options.pop(name) for name in SHAPE if name in options}
        settings = StoreSettings(**options)
        if not env.files.exists(directory / paths.VOLUME):
            create_volume(directory, VolumeSettings("v0", organization, **shape), settings, env)
        return open_volume("v0", directory, settings, env)

    return at
