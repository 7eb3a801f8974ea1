"""Signatures: fixed-length fingerprints that name contents (W2).

`sha256` is the default: no two contents will ever share one. `rabin64` is the paper's own: the 64-bit fingerprint of
M. O. Rabin, in the variant published with Apache Avro, computed by `anycrc` (a fingerprint is a remainder modulo an
irreducible polynomial over GF(2), which is what a CRC engine divides by). Its collisions are rare but possible, so
archives that use it may want store mode `compare`.

Others are found by name through the entry point group `holdfast.signatures`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from holdfast.env.files import Buffer
from holdfast.errors import UnknownName

ENTRY_POINT_GROUP = "holdfast.signatures"
SIGNATURE_NAME_MAX = 8  # characters in a block's header
SIGNATURE_BYTES_MAX = 32  # 64 hex digits in a block's header
RABIN64_POLYNOMIAL = 0xA9E5EB255C84BA83  # t^64 + ..., irreducible; bits of lower powers last


@dataclass(frozen=True, slots=True)
class Signature:
    """A fingerprinting algorithm. `digest` may be called from any thread."""

    name: str
    length: int
    digest: Callable[[Buffer], bytes]


def _sha256(content: Buffer) -> bytes:
    return hashlib.sha256(content).digest()


@cache
def _rabin64_engine() -> Callable[[Buffer], int]:
    import anycrc

    engine = anycrc.CRC(64, RABIN64_POLYNOMIAL, RABIN64_POLYNOMIAL, True, True, 0)
    calculate: Callable[[Buffer], int] = engine.calc
    return calculate


def _rabin64(content: Buffer) -> bytes:
    return _rabin64_engine()(content).to_bytes(8, "big")


SHA256 = Signature("sha256", 32, _sha256)
RABIN64 = Signature("rabin64", 8, _rabin64)
_known = {signature.name: signature for signature in (SHA256, RABIN64)}


def register_signature(signature: Signature) -> None:
    """Makes a signature known by its name in this process."""
    fits = len(signature.name) <= SIGNATURE_NAME_MAX and 1 <= signature.length <= SIGNATURE_BYTES_MAX
    assert fits, f"signature {signature.name!r} does not fit a block's header"
    _known[signature.name] = signature


def signature_names() -> list[str]:
    return sorted({*_known, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def find_signature(name: str) -> Signature:
    if name not in _known:
        for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
            register_signature(point.load())
    try:
        return _known[name]
    except KeyError:
        raise UnknownName(f"unknown signature {name!r}: known are {', '.join(signature_names())}") from None
