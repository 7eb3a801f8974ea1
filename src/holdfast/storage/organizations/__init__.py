"""Organizations: the ways a volume lays out its blocks on disk. Each is one entry of `ORGANIZATIONS`.

`log`   append-only segments with a keydir and group commit; the default (`log`, and the `log_*` modules beside it)
`tree`  Webstore's directory tree, one file per block (`tree`)

A new organization implements the protocols of `holdfast.storage.volume`, passes the conformance suite in
`holdfast.testing.volumes`, and gets its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment
from holdfast.errors import UnknownName, UsageError, VolumeDown
from holdfast.model import Fault
from holdfast.storage import layout
from holdfast.storage.faults import Repair, Watch
from holdfast.storage.identity import new_identity, read_identity, write_identity
from holdfast.storage.organizations.compaction import Compaction, Progress
from holdfast.storage.organizations.log import LogReader, LogVolume
from holdfast.storage.organizations.log_check import check_log
from holdfast.storage.organizations.log_compaction import compact as compact_log
from holdfast.storage.organizations.log_repair import repair_log
from holdfast.storage.organizations.spec import VolumeSpec
from holdfast.storage.organizations.tree import TreeReading
from holdfast.storage.organizations.tree_check import check_tree, repair_tree
from holdfast.storage.organizations.tree_writing import TreeVolume
from holdfast.storage.volume import ReadableVolume, Volume

DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Organization:
    """How volumes of one organization are opened."""

    writer: Callable[[VolumeSpec], Volume]
    reader: Callable[[VolumeSpec], ReadableVolume]
    compact: Callable[[Any, float, Progress | None], Compaction]  # the writer, least share of dead bytes, progress
    check: Callable[[VolumeSpec, Watch], Iterator[Fault]]
    repair: Callable[[VolumeSpec], Repair]


ORGANIZATIONS: dict[str, Organization] = {
    "log": Organization(
        lambda spec: LogVolume(spec.name, spec.directory, spec.identity, spec.settings, spec.env),
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
}


def find_organization(name: str) -> Organization:
    try:
        return ORGANIZATIONS[name]
    except KeyError:
        raise UnknownName(f"unknown organization {name!r}: known are {', '.join(sorted(ORGANIZATIONS))}") from None


def create_volume(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Makes an empty volume, durably. The directory must not hold one already."""
    organization = find_organization(volume.organization)
    if not 1 <= volume.depth <= DEPTH_MAX:
        raise UsageError(f"bad depth {volume.depth} for volume {volume.name!r}: a tree has 1 to {DEPTH_MAX} levels")
    if env.files.exists(directory / layout.VOLUME):
        raise UsageError(f"'{directory}' holds a volume already")
    identity = new_identity(env, volume.organization, volume.depth, settings.signature)
    write_identity(env, directory, identity)
    organization.writer(VolumeSpec(volume.name, directory, identity, settings, env)).close()


def open_volume(name: str, directory: Path, settings: StoreSettings, env: Environment) -> Volume:
    """Opens for writing. Raises VolumeDown, DamagedBlock, DamagedKeydir or FormatTooNew."""
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).writer(spec)


def open_volume_reader(name: str, directory: Path, settings: StoreSettings, env: Environment) -> ReadableVolume:
    spec = volume_spec(name, directory, settings, env)
    return find_organization(spec.identity.organization).reader(spec)


def compact_volume(volume: Volume, dead_share_min: float, progress: Progress | None) -> Compaction:
    """Reclaims the space of dead entries."""
    return find_organization(volume.organization).compact(volume, dead_share_min, progress)


def volume_spec(name: str, directory: Path, settings: StoreSettings, env: Environment) -> VolumeSpec:
    """Raises VolumeDown, DamagedBlock, FormatTooNew or UsageError."""
    try:
        identity = read_identity(env, directory)
    except FileNotFoundError:
        raise VolumeDown(f"volume {name!r} is not there: '{directory / layout.VOLUME}' is missing") from None
    if identity.signature != settings.signature:
        raise UsageError(
            f"volume {name!r} was made for signature {identity.signature!r}, the archive says {settings.signature!r}"
        )
    return VolumeSpec(name, directory, identity, settings, env)
