"""The bytes of the protocol, as docs/protocol/volume.md gives them: fixed for good."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from pathlib import Path
from random import Random

import pytest
from remote_peer import commit_body

from holdfast.errors import (
    FormatTooNew,
    HoldfastError,
    MalformedInput,
    NotFound,
    Unauthorized,
    UsageError,
    VolumeFull,
)
from holdfast.storage.server import wire
from holdfast.storage.server.handshake import ServerSide, answer_hello, read_secret, verify_welcome
from holdfast.storage.server.wire import WireReader
from holdfast.storage.volume import (
    Adopt,
    Block,
    BlockFacts,
    BlockKey,
    Claim,
    Effect,
    Encoded,
    Heal,
    IdempotencyKey,
    Operation,
    OperationResult,
    Recount,
    Refer,
    Release,
    Store,
)
from holdfast.storage.volumes.remote.connection import split_address

SIGNATURE = bytes(range(4))
KEY = BlockKey(SIGNATURE, 258, b"v7")
PACKED_KEY = "04 00000102 02 00010203 7637"
ENCODED = Encoded("zstd", 7, 1000, b"abc")
PACKED_ENCODED = "04 00000007 00000000000003e8 00000003 7a737464 616263"
OPERATIONS: list[tuple[Operation, str]] = [
    (Store(SIGNATURE, ENCODED), f"01 00 00000000 0000000000000001 0400010203 {PACKED_ENCODED}"),
    (
        Store(SIGNATURE, ENCODED, True, frozenset([KEY]), 5, 9),
        f"01 03 00000005 0000000000000009 0400010203 00000001 {PACKED_KEY} {PACKED_ENCODED}",
    ),
    (Claim(SIGNATURE, 1000), "02 00000000000003e8 0400010203"),
    (Refer(KEY), f"03 {PACKED_KEY}"),
    (Release(KEY), f"04 {PACKED_KEY}"),
    (Adopt(KEY, ENCODED, 3, True), f"05 06 0000000000000003 0000000000000000 {PACKED_KEY} {PACKED_ENCODED}"),
    (Adopt(KEY, ENCODED, 3, False, 2), f"05 03 0000000000000003 0000000000000002 {PACKED_KEY} {PACKED_ENCODED}"),
    (Recount(KEY, 3), f"06 00 0000000000000003 0000000000000000 {PACKED_KEY}"),
    (Recount(KEY, 0, 4, False), f"06 03 0000000000000000 0000000000000004 {PACKED_KEY}"),
    (Heal(KEY, ENCODED, 2), f"07 0000000000000002 {PACKED_KEY} {PACKED_ENCODED}"),
]


def joined(operation: Operation) -> bytes:
    return b"".join(bytes(part) for part in wire.pack_operation(operation))


@pytest.mark.parametrize(("operation", "packed"), OPERATIONS)
def test_operations_have_their_bytes(operation: Operation, packed: str) -> None:
    assert joined(operation).hex() == packed.replace(" ", "")
    reader = WireReader(b"\0\0\0\1" + joined(operation))
    assert wire.read_operations(reader) == [operation]


@pytest.mark.parametrize(
    "operation",
    [*(operation for operation, _ in OPERATIONS), Refer(BlockKey(SIGNATURE)), Release(BlockKey(SIGNATURE, 3))],
)
def test_a_commit_is_read_whole_or_is_malformed(operation: Operation) -> None:
    """Commits of short operations are read by other code, which must not differ."""
    key = IdempotencyKey(b"client-1", 3, 2)
    body = commit_body(key, [operation])
    assert wire.read_commit(memoryview(body)) == (key, [operation])
    assert wire.read_commit(memoryview(commit_body(key, [operation] * 2))) == (key, [operation] * 2)
    for wrong in (*(body[:end] for end in range(len(body))), body + b"\0"):
        with pytest.raises(MalformedInput):
            wire.read_commit(memoryview(wrong))
    with pytest.raises(MalformedInput, match="cannot have settled 3"):
        wire.read_commit(memoryview(commit_body(IdempotencyKey(b"client-1", 3, 3), [operation])))


def test_a_commit_of_many_kinds_is_read_whole_or_is_malformed() -> None:
    key = IdempotencyKey(b"client-1", 3, 2)
    every = [operation for operation, _ in OPERATIONS]
    short: list[Operation] = [Release(KEY), Claim(SIGNATURE, 7), Refer(BlockKey(SIGNATURE)), Release(KEY)]
    for operations in (short, every, [*short, *every]):
        body = commit_body(key, operations)
        assert wire.read_commit(memoryview(body)) == (key, operations)
        for wrong in (*(body[:end] for end in range(len(body))), body + b"\0"):
            with pytest.raises(MalformedInput):
                wire.read_commit(memoryview(wrong))


def test_a_commit_without_a_signature_is_malformed() -> None:
    for operation in (Claim(b"", 5), Refer(BlockKey(b"")), Release(BlockKey(b""))):
        with pytest.raises(MalformedInput, match="a signature in a message is empty"):
            wire.read_commit(memoryview(commit_body(IdempotencyKey(b"client-1", 3, 2), [operation])))


def test_a_commit_has_its_bytes() -> None:
    body = commit_body(IdempotencyKey(b"client-1", 3, 2), [Refer(KEY), Release(KEY)])
    expected = b"client-1".hex() + "0000000000000003" + "0000000000000002" + "00000002"
    assert body.hex() == expected + (f"03{PACKED_KEY}04{PACKED_KEY}").replace(" ", "")
    assert wire.pack_frame(4, 258, body) == struct.pack(">IBI", len(body) + 5, 4, 258) + body


def test_answers_have_their_bytes() -> None:
    facts = (BlockFacts(KEY, True, 1000, 3, 2), BlockFacts(BlockKey(SIGNATURE), False, 5, 5, 1, True))
    packed = wire.pack_facts([(), facts])
    expected = "00000000 00000002 00000102 01 00000000000003e8 00000003 0000000000000002 027637"
    expected += "00000000 02 0000000000000005 00000005 0000000000000001 00"
    assert packed.hex() == expected.replace(" ", "")
    assert wire.unpack_facts(packed, [b"other", SIGNATURE]) == [(), facts]
    outcomes = [OperationResult(effect, KEY, 2, 3) for effect in Effect]
    packed = wire.pack_results(outcomes)
    assert packed[:4] == b"\0\0\0\x08"
    assert packed[4:24].hex() == "00 0000000000000002 00000003 00000102 02 7637".replace(" ", "")
    assert packed[4::20] == bytes(range(8))
    assert wire.unpack_results(packed, [Refer(KEY)] * 8) == outcomes
    block = Block(KEY, True, 2, ENCODED, Path("000001.seg"), 320, 9)
    packed = b"".join(map(bytes, wire.pack_block(block)))
    expected = "02 0000000000000002 00000007 00000000000003e8 0000000000000140 0000000000000009 04 000a 00000003"
    assert packed.hex() == expected.replace(" ", "") + b"zstd000001.segabc".hex()
    assert wire.read_block(WireReader(packed), KEY) == block
    assert wire.pack_block(None) == [b"\0"]
    assert wire.read_block(WireReader(b"\0"), KEY) is None
    packed = wire.pack_signatures([b"abcd", b"efgh"])
    assert packed == b"\0\0\0\2\4abcdefgh"
    assert wire.unpack_signatures(packed) == [b"abcd", b"efgh"]
    assert wire.unpack_signatures(wire.pack_signatures([])) == []


def test_what_is_cut_short_or_too_long_is_malformed() -> None:
    whole = b"\0\0\0\x0a" + b"".join(joined(operation) for operation, _ in OPERATIONS)
    for end in range(len(whole)):
        with pytest.raises(MalformedInput):
            wire.read_operations(WireReader(whole[:end]))
    with pytest.raises(MalformedInput, match="1 bytes too many"):
        wire.read_operations(WireReader(whole + b"\0"))
    outcomes = wire.pack_results([OperationResult(Effect.NEW, KEY, 2, 3)])
    for end in range(len(outcomes)):
        with pytest.raises(MalformedInput):
            wire.unpack_results(outcomes[:end], [Refer(KEY)])


def test_random_bytes_are_malformed_or_mean_something() -> None:
    """Nothing but MalformedInput is raised, whatever comes."""
    random = Random(6)
    for _ in range(3000):
        raw = random.randbytes(random.randrange(60))
        counted = b"\0\0\0\1" + bytes([random.randrange(9)]) + raw
        for read in (
            lambda raw=raw: wire.unpack_keys(raw),
            lambda raw=raw: wire.unpack_signatures(raw),
            lambda raw=raw: wire.unpack_facts(raw, [SIGNATURE]),
            lambda raw=raw: wire.unpack_results(raw, [Refer(KEY)]),
            lambda raw=raw: wire.read_block(WireReader(raw), KEY),
            lambda raw=raw: wire.read_idempotency_key(WireReader(raw)),
            lambda raw=counted: wire.read_operations(WireReader(raw)),
            lambda raw=counted: wire.read_commit(memoryview(bytes(23) + b"\1" + raw)),
            lambda raw=raw: wire.unpack_failure(raw),
        ):
            try:
                read()
            except MalformedInput:
                continue


def test_failures_travel_with_their_class() -> None:
    error = wire.unpack_failure(wire.pack_failure(VolumeFull("no room: 'v0'")))
    assert (type(error), str(error)) == (VolumeFull, "no room: 'v0'")
    for name in (b"OfALaterRelease", b"ClassVar", b"annotations", b"", b"Exception", b"\xff"):
        assert type(wire.unpack_failure(name + b"\nwhatever")) is HoldfastError


# -- the handshake -----------------------------------------------------------------------------------------------------

SECRET = b"sixteen bytes or more"


def test_the_handshake_has_its_bytes() -> None:
    server, nonce = ServerSide(SECRET, b"S" * 32), b"C" * 32
    hello = server.hello()
    assert hello == b"\0\2\1" + b"S" * 32
    auth = answer_hello(hello, SECRET, nonce)
    assert auth == b"\0\2" + nonce + hmac.new(SECRET, b"client" + b"S" * 32 + nonce, hashlib.sha256).digest()
    welcome = server.welcome(auth, {"uid": "abc"})
    assert welcome[:32] == hmac.new(SECRET, b"server" + b"S" * 32 + nonce, hashlib.sha256).digest()
    assert json.loads(welcome[32:]) == {"uid": "abc"}
    assert verify_welcome(hello, welcome, SECRET, nonce) == {"uid": "abc"}


def test_a_server_without_the_secret_is_found_out() -> None:
    nonce = b"C" * 32
    for impostor in (b"another secret altogether", None):
        hello = b"\0\2\1" + b"S" * 32
        answer_hello(hello, SECRET, nonce)
        other = ServerSide(impostor, b"S" * 32)
        auth = answer_hello(other.hello(), impostor, nonce)
        with pytest.raises(Unauthorized, match="does not know our secret"):
            verify_welcome(hello, other.welcome(auth, {}), SECRET, nonce)
    with pytest.raises(Unauthorized, match="started without it"):
        answer_hello(ServerSide(None, b"S" * 32).hello(), SECRET, nonce)
    with pytest.raises(Unauthorized, match="wants a secret"):
        answer_hello(ServerSide(SECRET, b"S" * 32).hello(), None, nonce)


def test_another_version_or_no_server_at_all_is_told() -> None:
    with pytest.raises(FormatTooNew, match="version 3"):
        answer_hello(b"\0\3\1" + bytes(32), SECRET, bytes(32))
    for hello in (b"", b"HTTP/1.1 400 Bad Request"):
        with pytest.raises(MalformedInput, match="not a volume server"):
            answer_hello(hello, SECRET, bytes(32))
    for facts in (b"", b"[]", b"{", b"\xff"):
        proof = hmac.new(SECRET, b"server" + bytes(64), hashlib.sha256).digest()
        with pytest.raises(MalformedInput, match="does not say"):
            verify_welcome(b"\0\2\1" + bytes(32), proof + facts, SECRET, bytes(32))


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with pytest.raises(NotFound, match="volume secret"):
        read_secret(path)
    for raw in (b"", b"  \n", b"short", b"x" * 5000):
        path.write_bytes(raw)
        with pytest.raises(UsageError, match="16 to 4096"):
            read_secret(path)
    path.write_bytes(b" sixteen bytes or more\n")
    assert read_secret(path) == SECRET


def test_addresses() -> None:
    assert split_address("node-1:9400") == ("node-1", 9400)
    assert split_address("[::1]:0") == ("::1", 0)
    for bad in ("", "node", "node:", ":9400", "node:x", "node:65536", "node:-1", "node:٣"):
        with pytest.raises(UsageError, match="expected 'host:port'"):
            split_address(bad)
