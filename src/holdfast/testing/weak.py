"""A signature that collides all the time. For tests only: an archive that uses it keeps confusing contents.

`weak` is the sum of the bytes modulo five, in one byte. Every set of six contents holds a collision, and any
content collides with each reordering of itself, which has its size too. What a store does about collisions
thus happens in every test run, not once in the life of the universe.
"""

from __future__ import annotations

from typing import Final

from holdfast.env.files import Buffer
from holdfast.storage.signature import Signature, register_signature

WEAK_VALUES: Final = 5


def _weak(content: Buffer) -> bytes:
    return bytes([sum(content) % WEAK_VALUES])


WEAK: Final = Signature("weak", 1, _weak)


def register_weak_signature() -> None:
    """Makes `weak` known in this process, so that archives can be made and opened with it."""
    register_signature(WEAK)
