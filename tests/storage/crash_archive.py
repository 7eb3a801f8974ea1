"""A small archive with some of everything in it, and what must be read back from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreOptions, StoreSettings
from holdfast.errors import HoldfastError

SETTINGS = {
    "segment_bytes_max": 4096,
    "keydir_cache_bytes": 1 << 20,
    "train_after": 0,
}


class Kept(NamedTuple):
    """A content and its counter."""

    content: bytes
    references: int


Expected = dict[ContentKey, Kept]


def page(number: int) -> bytes:
    """A content that compresses well, but not too well."""
    random = Random(number)
    body = " ".join(f"word{random.randrange(400)}" for _ in range(random.randrange(10, 60)))
    return f"<html><title>page {number}</title><body>{body}</body></html>".encode()


def make(path: Path, volumes: int, organization: str, replicas: int) -> Expected:
    """Pages, duplicates, removals, a dictionary, compacted and uncompacted parts; closed."""
    holdfast.init(path, Plan(volumes, organization, 2, StoreSettings(replicas=replicas, **SETTINGS)))  # type: ignore[arg-type]
    with holdfast.open(path) as archive:
        keys = [archive.contents.put(page(number)) for number in range(24)]
        for number in (1, 2, 2, 3):
            archive.contents.put(page(number))
        if volumes == 1:
            archive.train("v0")
        keys += [archive.contents.put(page(number)) for number in range(30, 36)]
        for key in keys[4:12]:
            archive.contents.delete(key)
        for volume in archive.settings.volume:
            archive.compact(volume.name)
        archive.contents.put(page(14), StoreOptions(codec="zlib"))
        archive.contents.delete(keys[2])
        archive.contents.delete(keys[15])
    return found_in(path)


def found_in(path: Path, *, read_only: bool = True) -> Expected:
    """All contents of the archive with their counters."""
    with holdfast.open(path, read_only=read_only) as archive:
        return {
            key: Kept(content, archive.contents.stat(key).references)
            for batch in archive.contents.scan()
            for key, content in batch
        }


def readable_in(path: Path, keys: Expected) -> Expected:
    """Those of the contents that can be got one by one, with their counters."""
    with holdfast.open(path, read_only=True) as archive:
        return dict(_readable(archive, keys))


def _readable(archive: Archive, keys: Expected) -> Iterator[tuple[ContentKey, Kept]]:
    for key in keys:
        try:
            yield key, Kept(archive.contents.get(key), archive.contents.stat(key).references)
        except HoldfastError:
            continue


def files_of(path: Path, under: str = "volumes") -> list[Path]:
    """Every file of the archive's volumes, relative to the archive."""
    return sorted(each.relative_to(path) for each in (path / under).rglob("*") if each.is_file())


def copy(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
