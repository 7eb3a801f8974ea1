"""Finds sketches that differ in few bits, without comparing each with each.

A sketch has eight blocks of eight bits. Two sketches that differ in at most `d` bits have at least `8 - d` blocks in
common, so for each choice of that many blocks, sketches are sorted by them and only neighbours are compared. Pairs
within the distance are linked, and what is linked is one cluster. Of sketches that agree in the chosen blocks, each is
compared with the next `WINDOW`: in a larger crowd of almost equal sketches some pairs are missed, but others link them.

Memory: about 40 bytes for each distinct sketch.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import UsageError

DISTANCE_MAX = 6
WINDOW = 128
_BLOCKS = 8
_BLOCK_BITS = 8

Sketches = NDArray[np.uint64]
Labels = NDArray[np.int64]


def clusters_of(sketches: Sketches, distance: int) -> Labels:
    """The cluster of each of some distinct sketches, ascending: the place of the least sketch in it."""
    if not 0 <= distance <= DISTANCE_MAX:
        raise UsageError(f"a distance of {distance} bits is out of range: use 0 to {DISTANCE_MAX}")
    labels = np.arange(len(sketches), dtype=np.int64)
    if distance == 0:
        return labels
    for chosen in combinations(range(_BLOCKS), _BLOCKS - distance):
        mask = sum(0xFF << (_BLOCK_BITS * block) for block in chosen)
        first, second = _near(sketches, np.uint64(mask), distance)
        _link(labels, first, second)
    return labels


def _near(sketches: Sketches, mask: np.uint64, distance: int) -> tuple[Labels, Labels]:
    """Places of pairs that agree in the masked bits and differ in at most `distance` others."""
    keys = sketches & mask
    order = np.argsort(keys, kind="stable")
    keys, ordered = keys[order], sketches[order]
    firsts, seconds = [], []
    at = np.arange(len(keys) - 1)
    for shift in range(1, WINDOW + 1):
        at = at[at < len(keys) - shift]
        at = at[keys[at] == keys[at + shift]]
        if not len(at):
            break
        close = at[np.bitwise_count(ordered[at] ^ ordered[at + shift]) <= distance]
        firsts.append(order[close])
        seconds.append(order[close + shift])
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *firsts]), np.concatenate([empty, *seconds])


def _link(labels: Labels, first: Labels, second: Labels) -> None:
    """Gives both sides of each pair, and all that is linked to them, the least label."""
    while True:
        one, other = labels[first], labels[second]
        differ = one != other
        if not differ.any():
            return
        first, second, one, other = first[differ], second[differ], one[differ], other[differ]
        np.minimum.at(labels, np.maximum(one, other), np.minimum(one, other))
        while not np.array_equal(higher := labels[labels], labels):
            labels[:] = higher
