"""Roles of volumes: which of them take new contents, and which are read from (B8).

Under the incremental scheme every volume does both, and roles mean nothing. Under the batch scheme the *update* volumes
take what is new; an update moves it to the others, the *read* volumes. A volume that says nothing of its role is a read
volume: so an archive becomes one of the batch scheme by adding update volumes to it.

Copies stay with their kind: replicas of a block in an update volume stand in update volumes, and move with it.
"""

from __future__ import annotations

from holdfast.config import Settings, VolumeSettings
from holdfast.model import VolumeState

BATCH = "batch"
UPDATE, READ = "update", "read"


def is_update(settings: Settings, volume: VolumeSettings) -> bool:
    """Whether new contents are gathered in the volume until the next update."""
    return settings.store.update == BATCH and volume.role == UPDATE


def writable(settings: Settings) -> list[VolumeSettings]:
    """The volumes that take contents, new ones or moved ones."""
    return [each for each in settings.volume if each.state is VolumeState.WRITABLE]


def for_new(settings: Settings) -> list[VolumeSettings]:
    """The volumes that take new contents."""
    return [each for each in writable(settings) if settings.store.update != BATCH or each.role == UPDATE]


def for_moved(settings: Settings) -> list[VolumeSettings]:
    """The volumes that an update moves contents to."""
    return [each for each in writable(settings) if not is_update(settings, each)]


def like(settings: Settings, name: str) -> list[VolumeSettings]:
    """The volumes in which a block of a volume, or a copy of it, might as well stand."""
    own = settings.volume_settings(name)
    return for_new(settings) if own is None or is_update(settings, own) else for_moved(settings)
