"""Rendezvous hashing: every node has a score for every partition, and the best scores hold it (H1, H2, N8).

The cluster places partitions by it, and plans simulate clusters with it.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

_DIGEST = 8  # bytes
_BELOW_ONE = math.nextafter(1.0, 0.0)  # what the largest digests would round to has no score


def score(placement_id: bytes, partition: int, weight: float = 1.0) -> float:
    """The higher, the sooner the node holds the partition; its chance to win is its share of all weights."""
    digest = blake2b(placement_id + partition.to_bytes(4, "big"), digest_size=_DIGEST).digest()
    uniform = (int.from_bytes(digest, "big") + 0.5) / 2.0**64  # above 0
    return -weight / math.log(min(uniform, _BELOW_ONE))


def scores(placement_id: bytes, partitions: int) -> numpy.ndarray:
    """The scores of a node of weight 1 for the partitions 0 to `partitions` - 1."""
    import numpy as np

    begun = blake2b(placement_id, digest_size=_DIGEST)
    digests = []
    for partition in range(partitions):
        one = begun.copy()
        one.update(partition.to_bytes(4, "big"))
        digests.append(one.digest())
    uniform: numpy.ndarray = (np.frombuffer(b"".join(digests), ">u8").astype(np.float64) + 0.5) / 2.0**64
    found: numpy.ndarray = -1.0 / np.log(np.minimum(uniform, _BELOW_ONE))
    return found
