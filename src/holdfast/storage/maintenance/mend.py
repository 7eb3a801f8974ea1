"""Mends one volume by itself, where its files are, before its server is started again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.errors import VolumeDown
from holdfast.model import Fault
from holdfast.storage.identity import read_identity
from holdfast.storage.volumes.compaction import Progress
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.faults import CheckProgress, Lost
from holdfast.storage.volumes.organizations import find_organization, volume_spec


@dataclass(frozen=True, slots=True)
class Mended:
    """What was wrong, and what only replicas in other volumes can bring back."""

    faults: list[Fault]
    lost: list[Lost]


def mend_volume(directory: Path, env: Environment, progress: Progress | None = None) -> Mended:
    """Leaves the volume sound. Raises VolumeDown if there is none, and Busy if a process writes to it."""
    name = directory.name
    try:
        identity = read_identity(env, directory)
    except FileNotFoundError:
        raise VolumeDown(f"no volume in '{directory}'") from None
    lock = WriterLock(directory / paths.LOCK, "holdfast volume mend", subject="volume")
    try:
        settings = replace(StoreSettings(), signature=identity.signature)
        spec = volume_spec(name, directory, settings, env)
        organization = find_organization(identity.organization)
        faults = list(organization.check(spec, CheckProgress(progress, None, env)))
        lost = organization.repair(spec).lost if faults else []
        KnownDamage(env, directory).clear()  # what was damaged is mended, or lost
        return Mended(faults, lost)
    finally:
        lock.release()
