"""A similarity sketch of a text: 64 bits, of which near-duplicates share most (N11).

A one-permutation MinHash with one bit per bin. Each run of 8 bytes of the text, lowercased, is hashed; the top six bits
of a hash choose one of 64 bins, and the lowest bit of the smallest hash in a bin is the bin's bit. An empty bin takes
the bit of the next one. Two texts whose sets of runs have the Jaccard similarity J differ in about 32 (1 - J) bits:
unrelated texts in 32, texts with J = 0.9 in three.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHARACTERS_MAX = 16_384  # later text does not count
OCTETS_MIN = 64  # a shorter text has no sketch
_RUN = 8
_BINS = np.arange(64, dtype=np.uint64) << np.uint64(58)
_IN_BIN = np.uint64((1 << 58) - 1)
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_SHIFT = np.uint64(31)
_FOLDED = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\t\n\r", b"abcdefghijklmnopqrstuvwxyz   ")
_SORTED_MAX = 1024  # of more hashes, about so many are sorted: the smallest of each bin


def sketch_of(text: str) -> int:
    """The sketch of a text; 0 if it is too short to have one."""
    octets = text[:CHARACTERS_MAX].encode("utf-8", "replace").translate(_FOLDED)
    count = len(octets) - _RUN + 1
    if len(octets) < OCTETS_MIN:
        return 0
    hashes = np.ndarray(count, "<u8", octets, 0, (1,)) * _FACTORS[0]
    hashes ^= hashes >> _SHIFT
    hashes *= _FACTORS[1]
    hashes ^= hashes >> _SHIFT
    smallest = _smallest_of_small(hashes) if count > _SORTED_MAX else None
    if smallest is None:
        hashes.sort()
        smallest = hashes[np.searchsorted(hashes, _BINS) % count]
    return int(np.packbits((smallest & np.uint64(1)).astype(np.uint8), bitorder="little").view("<u8")[0])


def _smallest_of_small(hashes: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
    """The smallest hash of each bin, found among those that are small for their bin; None if one has no such hash."""
    limit = np.uint64((_SORTED_MAX << 58) // len(hashes))
    few = hashes[np.flatnonzero((hashes & _IN_BIN) < limit)]
    few.sort()
    places = np.searchsorted(few, _BINS)
    ends = np.append(places[1:], len(few))
    return few[places] if (places < ends).all() else None
