"""Signatures: fixed-length fingerprints that name contents (W2).

`sha256` is the default: no two contents will ever share one. `rabin64` is Webstore's: the 64-bit fingerprint of M. O.
Rabin (`holdfast.env.rabin`). It can collide, rarely, so archives that use it may want store mode `compare`.

Other algorithms are found by name through the entry point group `holdfast.signatures`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.env.files import Buffer
from holdfast.env.plugins import plugins
from holdfast.env.rabin import rabin64
from holdfast.errors import UnknownName

ENTRY_POINT_GROUP = "holdfast.signatures"
SIGNATURE_NAME_MAX = 8  # characters in a block's header
SIGNATURE_BYTES_MAX = 32  # 64 hex digits in a block's header


@dataclass(frozen=True, slots=True)
class Signature:
    """A fingerprinting algorithm. `digest` may be called from any thread."""

    name: str
    length: int
    digest: Callable[[Buffer], bytes]
    collision_free: bool = False  # as far as is known, equal signatures mean equal contents


def _sha256(content: Buffer) -> bytes:
    return hashlib.sha256(content).digest()


def _rabin64(content: Buffer) -> bytes:
    return rabin64(content).to_bytes(8, "big")


SHA256 = Signature("sha256", 32, _sha256, collision_free=True)
RABIN64 = Signature("rabin64", 8, _rabin64)
_known = {signature.name: signature for signature in (SHA256, RABIN64)}


def register_signature(signature: Signature) -> None:
    """Registers a signature under its name in this process."""
    fits = len(signature.name) <= SIGNATURE_NAME_MAX and 1 <= signature.length <= SIGNATURE_BYTES_MAX
    assert fits, f"signature {signature.name!r} does not fit a block's header"
    _known[signature.name] = signature


def signature_names() -> list[str]:
    return sorted({*_known, *(point.name for point in plugins(ENTRY_POINT_GROUP))})


def find_signature(name: str) -> Signature:
    if name not in _known:
        for point in plugins(ENTRY_POINT_GROUP, name=name):
            register_signature(point.load())
    try:
        return _known[name]
    except KeyError:
        raise UnknownName(f"unknown signature {name!r}: known are {', '.join(signature_names())}") from None
