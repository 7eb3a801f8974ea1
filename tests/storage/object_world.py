"""What tests of object-store volumes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from waiting import wait_until

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL, paths
from holdfast.storage.volume import Store
from holdfast.storage.volumes.object.bucket import Bucket
from holdfast.storage.volumes.object.volume import ObjectVolume
from holdfast.storage.volumes.organizations import create_volume, open_volume
from holdfast.testing.volumes import plain, sign

SMALL: dict[str, Any] = {"segment_bytes_max": 16_384, "keydir_cache_bytes": 1 << 20}


def settings(**store: Any) -> StoreSettings:
    return StoreSettings(**(SMALL | store))


def opened(directory: Path, url: str, **store: Any) -> ObjectVolume:
    """The volume in the directory, made first if there is none."""
    if not (directory / paths.VOLUME).exists():
        create_volume(directory, VolumeSettings("v0", url=url), settings(**store), REAL)
    volume = open_volume("v0", directory, settings(**store), REAL)
    assert isinstance(volume, ObjectVolume)
    return volume


def bucket_at(url: str) -> Bucket:
    return Bucket(url)


def objects_in(url: str) -> set[str]:
    """The names of the segments in the store."""
    return {key.rpartition("/")[2] for key in bucket_at(url).sizes("segments/")}


def segments_here(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("*.seg")}


def content(number: int) -> bytes:
    return b"%d," % number * (200 + number % 300)


def fill(volume: ObjectVolume, numbers: range) -> None:
    volume.commit([Store(sign(number), plain(content(number))) for number in numbers])


def wait_for_upload(volume: ObjectVolume, directory: Path) -> None:
    wait_until(lambda: len(segments_here(directory)) == 1 and not volume._files.doomed, "all but the tail is uploaded")
