"""The 64-bit fingerprint of M. O. Rabin, in the variant published with Apache Avro.

A fingerprint is the remainder modulo an irreducible polynomial over GF(2), which is what a CRC engine divides by, so
`anycrc` computes it. It names contents (signature `rabin64`) and pages (`urls.page_id`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

RABIN64_POLYNOMIAL = 0xA9E5EB255C84BA83  # t^64 + ..., irreducible; bits of lower powers last


@cache
def _engine() -> Callable[[bytes | bytearray | memoryview], int]:
    import anycrc

    engine = anycrc.CRC(64, RABIN64_POLYNOMIAL, RABIN64_POLYNOMIAL, True, True, 0)
    calculate: Callable[[bytes | bytearray | memoryview], int] = engine.calc
    return calculate


def rabin64(data: bytes | bytearray | memoryview) -> int:
    """The fingerprint of `data`, 0 to 2^64 - 1. May be called from any thread."""
    return _engine()(data)
