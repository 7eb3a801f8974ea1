"""A signature that collides all the time. For tests only: an archive that uses it confuses contents.

`weak` is the sum of the bytes modulo five, in one byte. Any six contents have a collision, and a content collides with
each reordering of itself, which has the same size. So every test run exercises collisions.
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
    """Registers `weak` in this process, so that archives can use it."""
    register_signature(WEAK)
