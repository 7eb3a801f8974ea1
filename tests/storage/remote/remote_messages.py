"""Questions as a client may send them, well-formed and not."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from remote_peer import commit_body

from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Claim,
    Encoded,
    IdempotencyKey,
    Operation,
    Recount,
    Refer,
    Release,
    Store,
)
from holdfast.testing.volumes import plain, sign

NOBODY = BlockKey(sign("nobody"), 3, b"v7")
OTHER = BlockKey(sign("nobody else"))
OPERATIONS: list[Operation] = [
    Store(sign("stored"), plain(b"something"), compared=frozenset([OTHER])),
    Store(sign("stored"), Encoded("zstd-dict", 7, 100, b"something"), force_new=True, overflow_min=2, references=3),
    Claim(sign("nobody"), 5),
    Refer(NOBODY),
    Release(NOBODY),
    Adopt(NOBODY, plain(b"copy"), 2, True),
    Recount(NOBODY, 5, 4),
    Recount(NOBODY, 0),
]


STORE, CLAIM, REFER, RELEASE, ADOPT, RECOUNT = range(1, 7)


def idempotency_key() -> IdempotencyKey:
    return IdempotencyKey(os.urandom(8), 1, 0)


def mark(key: BlockKey = NOBODY) -> bytes:
    return b"\1\1" + wire.pack_key(key) + struct.pack(">Q", 9)


def good_questions() -> list[tuple[int, bytes]]:
    """One or more of each type. Their commits change nothing in a volume that takes no new contents."""
    counting = [operation for operation in OPERATIONS if not isinstance(operation, Store | Adopt)]
    return [
        (Type.PROBE, wire.pack_signatures([sign("a"), sign("b")])),
        (Type.FETCH, wire.pack_keys([NOBODY, OTHER])),
        (Type.COMMIT, commit_body(idempotency_key(), OPERATIONS)),
        (Type.COMMIT, commit_body(idempotency_key(), counting)),
        (Type.VOID, wire.pack_idempotency_key(idempotency_key())),
        (Type.SCAN, b"\1\0"),
        (Type.SCAN, mark()),
        (Type.SIGNATURES, b"\1"),
        (Type.STAT, b""),
        (Type.DICTIONARY, b"\0"),
        (Type.DICTIONARY, b"\1\0\0\0\7"),
        (Type.ADD_DICTIONARY, b"\0\0\0\7words"),
        (Type.NEWS, struct.pack(">Q", 5)),
        (Type.COMPACT, struct.pack(">d", 0.5)),
        (Type.CHECK, b""),
    ]


def with_key(key: bytes) -> Iterator[tuple[int, bytes]]:
    """Every question that a key, packed as it is, can stand in."""
    yield Type.FETCH, b"\0\0\0\1" + key
    yield Type.SCAN, b"\1\1" + key + bytes(8)
    one = wire.pack_idempotency_key(idempotency_key()) + b"\0\0\0\1"
    encoded = b"\4" + bytes(4) + struct.pack(">QI", 3, 3) + b"noneabc"
    yield Type.COMMIT, one + bytes([REFER]) + key
    yield Type.COMMIT, one + bytes([RELEASE]) + key
    yield Type.COMMIT, one + bytes([ADOPT]) + counters(1) + key + encoded
    yield Type.COMMIT, one + bytes([RECOUNT]) + counters(1) + key
    yield Type.COMMIT, one + store(flags=2) + b"\0\0\0\1" + key + encoded


def counters(references: int) -> bytes:
    return struct.pack(">BQQ", 3, references, 1)


def store(overflow: int = 0, references: int = 1, flags: int = 0, signature: bytes = sign(1)) -> bytes:
    """The beginning of a store: what was compared, if the flags say so, and the content follow."""
    return struct.pack(">BBIQB", STORE, flags, overflow, references, len(signature)) + signature


def packed_key(signature: bytes = sign(1), overflow: int = 0, home: bytes = b"") -> bytes:
    return struct.pack(">BIB", len(signature), overflow, len(home)) + signature + home


def bad_keys() -> Iterator[bytes]:
    for home in (b"../../x", b"/", b"..", b".", b"a/b", b"v7\0", b"V7", b"-v", b"v" * 17, b"v" * 255, b"\xff", b"v\n"):
        yield packed_key(home=home)
    for length in (1, 31, 33, 64, 255):
        yield packed_key(signature=bytes(length))
    yield packed_key(signature=b"")
    for overflow in (100_000, 2**31, 2**32 - 1):
        yield packed_key(overflow=overflow)


def lies() -> Iterator[tuple[int, bytes]]:
    """Questions whose counts and lengths are not what follows."""
    begun = wire.pack_idempotency_key(idempotency_key())
    for count in (2, 3, 1000, 65_536, 65_537, 2**31, 2**32 - 1):
        number = struct.pack(">I", count)
        yield Type.PROBE, number + b"\x20" + sign(1)
        yield Type.FETCH, number + packed_key()
        yield Type.COMMIT, begun + number + bytes([REFER]) + packed_key()
        yield Type.COMMIT, begun + b"\0\0\0\1" + store(flags=2) + number + packed_key()
        yield Type.COMMIT, begun + b"\0\0\0\1" + store() + b"\4" + bytes(12) + number
    compared = store(flags=2) + struct.pack(">I", 40_000) + packed_key() * 40_000 + b"\4" + bytes(16) + b"none"
    yield Type.COMMIT, begun + b"\0\0\0\2" + compared * 2  # short lists, but too many of them
    for kind, body in good_questions():
        if kind not in (Type.STAT, Type.CHECK, Type.ADD_DICTIONARY):
            yield kind, body + b"\0"
            yield kind, body[:-1]
            yield kind, b""
    yield Type.STAT, b"\0"
    yield Type.CHECK, b"\0"
    yield Type.ADD_DICTIONARY, b"\0\0"


def bad_numbers() -> Iterator[tuple[int, bytes]]:
    """Operations with numbers and names out of range, and tickets that are none."""
    one = wire.pack_idempotency_key(idempotency_key()) + b"\0\0\0\1"
    rest = b"\4" + bytes(4) + struct.pack(">QI", 3, 3) + b"noneabc"
    for overflow, references in ((100_000, 1), (0, 0), (0, 10**10), (0, 2**64 - 1), (2**32 - 1, 1)):
        yield Type.COMMIT, one + store(overflow, references) + rest
    for references in (0, 10**10, 2**64 - 1):
        yield Type.COMMIT, one + bytes([ADOPT]) + counters(references) + packed_key() + rest
    for references in (10**10, 2**64 - 1):
        yield Type.COMMIT, one + bytes([RECOUNT]) + counters(references) + packed_key()
    for length in (1, 31, 33, 64, 255):
        yield Type.COMMIT, one + store(signature=bytes(length)) + rest
        yield Type.COMMIT, one + bytes([CLAIM]) + bytes(8) + bytes([length]) + bytes(length)
        yield Type.PROBE, b"\0\0\0\1" + bytes([length]) + bytes(length)
    for codec in (b"", b"NONE", b"../none", b"a" * 13, b"none\n", b"\xff" * 4, b"%d%n"):
        named = bytes([len(codec)]) + bytes(4) + struct.pack(">QI", 3, 3) + codec
        yield Type.COMMIT, one + store() + named + b"abc"
    for operation in (0, 7, 255):
        yield Type.COMMIT, one + bytes([operation]) + packed_key()
    for sequence, settled in ((0, 0), (1, 1), (1, 2**64 - 1), (2**63, 2**63)):
        yield Type.VOID, struct.pack(">8sQQ", b"whatever", sequence, settled)
    for share in (float("nan"), float("inf"), -1.0, 1.5):
        yield Type.COMPACT, struct.pack(">d", share)
