"""Keys of the table that are more than a letter and a text."""

from __future__ import annotations

import hashlib

from holdfast.crawl.frontier.rows import KEY_BYTES


def turn_key(turn: int) -> bytes:
    return b"w" + turn.to_bytes(8, "big")


def due_key(due: int, key: bytes) -> bytes:
    return b"d" + due.to_bytes(8, "big") + key


def counter_key(name: str) -> bytes:
    return b"c" + hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
