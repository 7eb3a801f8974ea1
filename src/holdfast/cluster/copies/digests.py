"""Digests: how many records there are in a range, and the sum of their fingerprints modulo 2^128 (H6, N10).

    partition                        all that a node has of it
      partition, batch               of one origin batch
        partition, batch, bucket     of 4096 serial numbers of that batch

A digest is a sum, so an added or removed record changes it in place, and the digest of a range is the sum of its parts:
a tree without hashing anything again. Two nodes whose digests are equal have the same records there: fingerprints are
16 bytes of BLAKE2b, and members do not lie.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import MalformedInput

BUCKET_SERIALS = 4096
DIGEST_BYTES = 24
_DIGEST = struct.Struct(">Q16s")
_MODULUS = 1 << 128


class RangeDigest(NamedTuple):
    """The records of a range."""

    records: int = 0
    total: int = 0  # of the fingerprints, modulo 2^128

    def plus(self, count: int, total: int) -> RangeDigest:
        return RangeDigest(self.records + count, (self.total + total) % _MODULUS)

    def pack(self) -> bytes:
        return _DIGEST.pack(self.records, self.total.to_bytes(16, "big"))

    @classmethod
    def unpack(cls, packed: bytes) -> RangeDigest:
        count, total = _DIGEST.unpack(packed)
        return cls(count, int.from_bytes(total, "big"))


EMPTY = RangeDigest()


def pack_digests(digests: Sequence[RangeDigest]) -> bytes:
    return b"".join([each.pack() for each in digests])


def unpack_digests(raw: bytes, count: int) -> list[RangeDigest]:
    """Raises MalformedInput unless there are exactly so many."""
    if len(raw) != count * DIGEST_BYTES:
        raise MalformedInput(f"{count} digests have {len(raw)} bytes")
    return [RangeDigest.unpack(raw[at : at + DIGEST_BYTES]) for at in range(0, len(raw), DIGEST_BYTES)]
