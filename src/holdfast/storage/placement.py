"""Placement: which volumes a new content goes to, in order of preference (W6, W7).

`mod` is the paper's: the signature, as a number, modulo the number of writable volumes; further copies go to the
volumes that follow. `weighted` is rendezvous hashing: each volume draws a number from the signature and its own name,
and the highest wins, in proportion to the weights; adding a volume moves only what the new one wins.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

from holdfast.config import VolumeSettings
from holdfast.errors import UnknownName

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
