"""Organizations: the ways a volume lays out its blocks on disk. Each is one entry of `ORGANIZATIONS`.

`log`   append-only segments with a keydir and group commit; the default (`log/`)
`tree`  Webstore's directory tree, one file per block (`tree/`)
`hash`  WebBase's buckets of signatures: random access without an index (`hash/`)
`hashed-log`  WebBase's logs for ranges of signatures: a log whose scans are sorted (`log/hashed_log.py`)

A new organization implements the protocols of `holdfast.storage.volume`, passes the conformance suite in
`holdfast.testing.volumes`, and gets an entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import UnknownName, UsageError
from holdfast.model import Fault
from holdfast.storage.identity import new_identity, write_identity
from holdfast.storage.volume import IdempotentVolume, ReadableVolume, Volume
from holdfast.storage.volumes.damage import CheckProgress, Repair
from holdfast.storage.volumes.group_commit import GroupCommitted
from holdfast.storage.volumes.local import Compaction, Progress, SelfCompacting, VolumeSpec
from holdfast.storage.volumes.log.segment import LOGS_MAX

DEPTH_MAX = 8
BUCKETS_MAX = 1 << 24
BUCKET_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Organization:
    """How to open, create, check, repair and compact volumes of one organization."""

    writer: Callable[[VolumeSpec], IdempotentVolume]
    reader: Callable[[VolumeSpec], ReadableVolume]
    compact: Callable[[Any, float, Progress | None], Compaction]  # the writer, minimum share of dead bytes, progress
    check: Callable[[VolumeSpec, CheckProgress], Iterator[Fault]]
    repair: Callable[[VolumeSpec], Repair]
    create: Callable[[VolumeSpec, VolumeSettings], None] | None = None  # None: opening for writing creates the files


def _log() -> Organization:
    from holdfast.storage.volumes.log.check import check_log, repair_log
    from holdfast.storage.volumes.log.compaction import compact
    from holdfast.storage.volumes.log.volume import LogReader, LogVolume

    return Organization(LogVolume, LogReader, compact, check_log, repair_log)


def _hashed_log() -> Organization:
    from holdfast.storage.volumes.log.check import check_log, repair_log
    from holdfast.storage.volumes.log.hashed_log import HashedLogReader, HashedLogVolume

    return Organization(
        HashedLogVolume,
        HashedLogReader,
        lambda volume, dead_share_min, progress: volume.compact(dead_share_min, progress),
        check_log,
        lambda spec: repair_log(spec, HashedLogVolume),
    )


def _tree() -> Organization:
    from holdfast.storage.volumes.tree.check import check_tree, repair_tree
    from holdfast.storage.volumes.tree.volume import TreeReading, TreeVolume

    return Organization(
        TreeVolume,
        TreeReading,
        lambda volume, dead_share_min, progress: volume.compact(progress),
        check_tree,
        repair_tree,
    )


def _hash() -> Organization:
    from holdfast.storage.volumes.hash.check import check_hash, repair_hash
    from holdfast.storage.volumes.hash.reader import HashReading
    from holdfast.storage.volumes.hash.volume import HashVolume, compact_hash, create_hash

    return Organization(
        HashVolume,
        HashReading,
        compact_hash,
        check_hash,
        repair_hash,
        lambda spec, volume: create_hash(spec, volume.buckets),
    )


# An organization is loaded when a volume of it is first opened.
ORGANIZATIONS = {"log": _log, "tree": _tree, "hash": _hash, "hashed-log": _hashed_log}


@cache
def find_organization(name: str) -> Organization:
    """Raises UnknownName."""
    if name not in ORGANIZATIONS:
        raise UnknownName(f"unknown organization {name!r}: known are {', '.join(sorted(ORGANIZATIONS))}")
    return ORGANIZATIONS[name]()


def create_volume(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Creates an empty volume, durably. The directory must not hold one."""
    organization = find_organization(volume.organization)
    if volume.url:
        from holdfast.storage.volumes.object.volume import create_object_volume

        return create_object_volume(directory, volume, settings, env)
    _require_shape(volume)
    if env.files.exists(directory / paths.VOLUME):
        raise UsageError(f"'{directory}' holds a volume already")
    identity = new_identity(env, volume, settings.signature)
    write_identity(env, directory, identity)
    spec = VolumeSpec(volume.name, directory, identity, settings, env)
    if organization.create is not None:
        organization.create(spec, volume)
    organization.writer(spec).close()


def _require_shape(volume: VolumeSettings) -> None:
    from holdfast.storage.volumes.hash.page import PAGE_BYTES_MIN

    if not 1 <= volume.depth <= DEPTH_MAX:
        raise UsageError(f"bad depth {volume.depth} for volume {volume.name!r}: a tree has 1 to {DEPTH_MAX} levels")
    if not 1 <= volume.logs <= LOGS_MAX:
        raise UsageError(f"bad number of logs {volume.logs} for volume {volume.name!r}: 1 to {LOGS_MAX}")
    if not 1 <= volume.buckets <= BUCKETS_MAX:
        raise UsageError(f"bad number of buckets {volume.buckets} for volume {volume.name!r}: 1 to {BUCKETS_MAX}")
    if not PAGE_BYTES_MIN <= volume.bucket_bytes <= BUCKET_BYTES_MAX or volume.bucket_bytes % PAGE_BYTES_MIN:
        raise UsageError(
            f"bad size of buckets {volume.bucket_bytes} for volume {volume.name!r}: a multiple of {PAGE_BYTES_MIN}, "
            f"at most {BUCKET_BYTES_MAX}"
        )


def open_volume(name: str, directory: Path, settings: StoreSettings, env: Environment) -> IdempotentVolume:
    """Opens for writing. Raises VolumeDown, DamagedBlock, DamagedKeydir or FormatTooNew."""
    if env.files.exists(directory / paths.OBJECTS):
        from holdfast.storage.volumes.object.volume import open_object_volume

        return open_object_volume(VolumeSettings(name), directory, settings, env)
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).writer(spec)


def open_volume_reader(name: str, directory: Path, settings: StoreSettings, env: Environment) -> ReadableVolume:
    if env.files.exists(directory / paths.OBJECTS):
        from holdfast.storage.volumes.object.volume import open_object_reader

        return open_object_reader(VolumeSettings(name), directory, settings, env)
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).reader(spec)


def compact_volume(volume: Volume, dead_share_min: float, progress: Progress | None) -> Compaction:
    """Reclaims the space of dead entries. A second caller waits for the first: two would discard each other's files."""
    if isinstance(volume, SelfCompacting):
        return volume.compact(dead_share_min, progress)
    assert isinstance(volume, GroupCommitted)
    with volume.compaction:
        return find_organization(volume.organization).compact(volume, dead_share_min, progress)


def volume_spec(name: str, directory: Path, settings: StoreSettings, env: Environment) -> VolumeSpec:
    """The volume, for a check or a repair. Raises VolumeDown, DamagedBlock, FormatTooNew or UsageError."""
    if env.files.exists(directory / paths.OBJECTS):
        from holdfast.storage.volumes.object.volume import tiered_environment

        env = tiered_environment(directory, env)
    return VolumeSpec.read(name, directory, settings, env)
