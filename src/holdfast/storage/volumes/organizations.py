"""Organizations: the ways a volume lays out its blocks on disk. Each is one entry of `ORGANIZATIONS`.

`log`   append-only segments with a keydir and group commit; the default (`log`, and the `log_*` modules beside it)
`tree`  Webstore's directory tree, one file per block (`tree`)
`hash`  WebBase's buckets of signatures: random access without an index (`hash`, and the `hash_*` modules)
`hashed-log`  WebBase's logs for ranges of signatures: a log whose scans are sorted (`hashed_log`)

A new organization implements the protocols of `holdfast.storage.volume`, passes the conformance suite in
`holdfast.testing.volumes`, and gets its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import UnknownName, UsageError, VolumeDown
from holdfast.model import Fault
from holdfast.storage.identity import new_identity, read_identity, write_identity
from holdfast.storage.volume import IdempotentVolume, ReadableVolume, Volume
from holdfast.storage.volumes.compaction import Compaction, Progress, SelfCompacting
from holdfast.storage.volumes.faults import CheckProgress, Repair
from holdfast.storage.volumes.hash.check import check_hash
from holdfast.storage.volumes.hash.compaction import compact_hash
from holdfast.storage.volumes.hash.page import PAGE_BYTES_MIN
from holdfast.storage.volumes.hash.reader import HashReading
from holdfast.storage.volumes.hash.repair import repair_hash
from holdfast.storage.volumes.hash.volume import create_hash, open_hash
from holdfast.storage.volumes.hashed_log import HashedLogReader, open_hashed_log
from holdfast.storage.volumes.log.check import check_log
from holdfast.storage.volumes.log.compaction import compact as compact_log
from holdfast.storage.volumes.log.ranges import LOGS_MAX
from holdfast.storage.volumes.log.repair import repair_log
from holdfast.storage.volumes.log.volume import LogReader, open_log
from holdfast.storage.volumes.spec import VolumeSpec
from holdfast.storage.volumes.tree.check import check_tree, repair_tree
from holdfast.storage.volumes.tree.volume import TreeReading, TreeVolume

DEPTH_MAX = 8
BUCKETS_MAX = 1 << 24
BUCKET_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Organization:
    """How volumes of one organization are opened."""

    writer: Callable[[VolumeSpec], IdempotentVolume]
    reader: Callable[[VolumeSpec], ReadableVolume]
    compact: Callable[[Any, float, Progress | None], Compaction]  # the writer, least share of dead bytes, progress
    check: Callable[[VolumeSpec, CheckProgress], Iterator[Fault]]
    repair: Callable[[VolumeSpec], Repair]
    create: Callable[[VolumeSpec, VolumeSettings], None] | None = None  # None: opening for writing makes what is needed


ORGANIZATIONS: dict[str, Organization] = {
    "log": Organization(
        open_log,
        lambda spec: LogReader(spec.name, spec.directory, spec.identity, spec.settings, spec.env),
        compact_log,
        check_log,
        repair_log,
    ),
    "tree": Organization(
        lambda spec: TreeVolume(spec.name, spec.directory, spec.identity, spec.env),
        lambda spec: TreeReading(spec.name, spec.directory, spec.identity, spec.env),
        lambda volume, dead_share_min, progress: volume.compact(progress),
        check_tree,
        repair_tree,
    ),
    "hash": Organization(
        open_hash,
        lambda spec: HashReading(spec.name, spec.directory, spec.identity, spec.env),
        compact_hash,
        check_hash,
        repair_hash,
        lambda spec, volume: create_hash(spec, volume.buckets),
    ),
    "hashed-log": Organization(
        open_hashed_log,
        lambda spec: HashedLogReader(spec.name, spec.directory, spec.identity, spec.settings, spec.env),
        lambda volume, dead_share_min, progress: volume.compact(dead_share_min, progress),
        check_log,
        lambda spec: repair_log(spec, open_hashed_log),
    ),
}


def find_organization(name: str) -> Organization:
    try:
        return ORGANIZATIONS[name]
    except KeyError:
        raise UnknownName(f"unknown organization {name!r}: known are {', '.join(sorted(ORGANIZATIONS))}") from None


def create_volume(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Makes an empty volume, durably. The directory must not hold one already."""
    organization = find_organization(volume.organization)
    if volume.url:
        from holdfast.storage.volumes.object import create_object_volume

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
        from holdfast.storage.volumes.object import open_object_volume

        return open_object_volume(VolumeSettings(name), directory, settings, env)
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).writer(spec)


def open_volume_reader(name: str, directory: Path, settings: StoreSettings, env: Environment) -> ReadableVolume:
    if env.files.exists(directory / paths.OBJECTS):
        from holdfast.storage.volumes.object import open_object_reader

        return open_object_reader(VolumeSettings(name), directory, settings, env)
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).reader(spec)


def compact_volume(volume: Volume, dead_share_min: float, progress: Progress | None) -> Compaction:
    """Reclaims the space of dead entries."""
    if isinstance(volume, SelfCompacting):
        return volume.compact(dead_share_min, progress)
    return find_organization(volume.organization).compact(volume, dead_share_min, progress)


def volume_spec(name: str, directory: Path, settings: StoreSettings, env: Environment) -> VolumeSpec:
    """What checking and repairing need. Raises VolumeDown, DamagedBlock, FormatTooNew or UsageError."""
    if env.files.exists(directory / paths.OBJECTS):
        from holdfast.storage.volumes.object import tiered_environment

        env = tiered_environment(directory, settings, env)
    return identified(name, directory, settings, env)


def identified(name: str, directory: Path, settings: StoreSettings, env: Environment) -> VolumeSpec:
    """The volume that the directory says it is. Raises as `volume_spec`."""
    try:
        identity = read_identity(env, directory)
    except FileNotFoundError:
        raise VolumeDown(f"volume {name!r} is not there: '{directory / paths.VOLUME}' is missing") from None
    if identity.signature != settings.signature:
        raise UsageError(
            f"volume {name!r} was made for signature {identity.signature!r}, the archive says {settings.signature!r}"
        )
    return VolumeSpec(name, directory, identity, settings, env)
