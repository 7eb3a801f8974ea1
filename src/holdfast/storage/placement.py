"""Placement: which volumes a new content goes to, in order of preference (W6, W7).

`mod` is Webstore's: the signature, as a number, modulo the number of writable volumes; further copies go to the next
volumes. `weighted` is rendezvous hashing: each volume draws a number from the signature and its own name, and the best
draw wins, in proportion to the weights. Adding a volume moves only what the new one wins.

Volumes may have roles (B8). Under the incremental scheme every volume takes new contents and is read; roles mean
nothing. Under the batch scheme *update* volumes take new contents, and an update moves them to the *read* volumes. A
volume without a role is a read volume, so adding update volumes to an archive is enough to switch it to the batch
scheme.

Replicas of a block in an update volume are kept in update volumes, and move with it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

from holdfast.config import Settings, VolumeSettings
from holdfast.errors import UnknownName
from holdfast.model import VolumeState

Placement = Callable[[bytes, Sequence[VolumeSettings]], list[str]]


def place_mod(signature: bytes, volumes: Sequence[VolumeSettings]) -> list[str]:
    first = int.from_bytes(signature, "big") % len(volumes)
    return [volume.name for volume in (*volumes[first:], *volumes[:first])]


def place_weighted(signature: bytes, volumes: Sequence[VolumeSettings]) -> list[str]:
    """Volumes of weight 0 come last: they take copies only when nothing else is left."""
    return [name for _, name in sorted((_draw(signature, volume), volume.name) for volume in volumes)]


def _draw(signature: bytes, volume: VolumeSettings) -> float:
    digest = hashlib.blake2b(signature, digest_size=8, key=volume.name.encode()).digest()
    uniform = (int.from_bytes(digest, "big") + 1) / (2**64 + 2)
    return -math.log(uniform) / volume.weight if volume.weight > 0 else math.inf


PLACEMENTS: dict[str, Placement] = {"mod": place_mod, "weighted": place_weighted}


def find_placement(name: str) -> Placement:
    try:
        return PLACEMENTS[name]
    except KeyError:
        raise UnknownName(f"unknown placement {name!r}: known are {', '.join(sorted(PLACEMENTS))}") from None


BATCH = "batch"
UPDATE, READ = "update", "read"


def is_update(settings: Settings, volume: VolumeSettings) -> bool:
    """True if the volume gathers new contents until the next update."""
    return settings.store.update == BATCH and volume.role == UPDATE


def writable(settings: Settings) -> list[VolumeSettings]:
    """The volumes that take contents, new or moved."""
    return [each for each in settings.volume if each.state is VolumeState.WRITABLE]


def for_new(settings: Settings) -> list[VolumeSettings]:
    """The volumes that take new contents."""
    return [each for each in writable(settings) if settings.store.update != BATCH or each.role == UPDATE]


def for_moved(settings: Settings) -> list[VolumeSettings]:
    """The volumes that an update moves contents to."""
    return [each for each in writable(settings) if not is_update(settings, each)]


def like(settings: Settings, name: str) -> list[VolumeSettings]:
    """The volumes that may also hold a block of this volume, or a copy of it."""
    own = settings.volume_settings(name)
    return for_new(settings) if own is None or is_update(settings, own) else for_moved(settings)
