"""The bytes between a client and a volume server. All numbers are big-endian.

    frame       u32 length of the rest | u8 type | u32 request number | body
    signatures  u32 count | u8 length of each | signatures
    key         u8 length of signature | u32 overflow | u8 length of home | signature | home
    facts       u32 overflow | u8 flags (1 replica, 2 damaged) | u64 size | u32 stored | u64 references
                | u8 length of home | home
    result      u8 effect | u64 references | u32 stored | u32 overflow | u8 length of home | home
    encoded     u8 length of codec | u32 dictionary | u64 size | u32 length of data | codec | data
    block       u8 kind (0 none, 1 block, 2 replica); unless it is 0: u64 references | u32 dictionary | u64 size
                | u64 offset | u64 serial | u8 length of codec | u16 length of path | u32 length of data
                | codec | path | data

A type below 128 is a request, the others are responses: `DONE` ends a request, `FAILED` has the name and message of an
error, `PROGRESS` says that the request is still being handled. Every list begins with a u32 that counts its items.

`WireReader` takes the body of a message apart, whoever wrote it: whatever is wrong with it raises MalformedInput.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from holdfast import errors
from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, MalformedInput
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
    signature_of,
)

VERSION: Final = 2
ITEMS_MAX: Final = 65_536  # of one list, and of all lists within lists together
FRAME: Final = struct.Struct(">IBI")
FRAME_BYTES: Final = FRAME.size
FRAME_REST: Final = FRAME_BYTES - 4  # what the length counts beside the body

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_SIGNATURES = struct.Struct(">IB")
_KEY = struct.Struct(">BIB")
_FACTS = struct.Struct(">IBQIQB")
_RESULT = struct.Struct(">BQIIB")
_BLOCK = struct.Struct(">QIQQQBHI")
_IDEMPOTENCY_KEY = struct.Struct(">8sQQ")
_ENCODED = struct.Struct(">BIQI")
_STORE_HEAD = struct.Struct(">BBIQB")  # operation, flags, least overflow, references, length of the signature
_CLAIM_HEAD = struct.Struct(">BQB")  # operation, size, length of the signature
_OPERATIONS_AT = _IDEMPOTENCY_KEY.size + _U32.size  # in a commit
_SHORT_BYTES_MAX: Final = 300  # of an operation without data
_COUNTERS = struct.Struct(">BQQ")  # flags, references, expected
_PATH_BYTES_MAX: Final = 1000
_OPERATION_BYTES_MIN: Final = 7


class Type(IntEnum):
    """What a frame is."""

    AUTH = 1
    PROBE = 2
    FETCH = 3
    COMMIT = 4
    VOID = 5
    SCAN = 6
    SIGNATURES = 7
    STAT = 8
    DICTIONARY = 9
    ADD_DICTIONARY = 10
    NEWS = 11
    COMPACT = 12
    CHECK = 13
    DAMAGED = 14
    HELLO = 128
    DONE = 129
    FAILED = 130
    PROGRESS = 131


_EFFECTS: Final = (
    Effect.NEW,
    Effect.DUPLICATE,
    Effect.COUNTED,
    Effect.REMOVED,
    Effect.MISSING,
    Effect.UNSURE,
    Effect.CONFLICT,
    Effect.HEALED,
)
_EFFECT_CODES = {effect: code for code, effect in enumerate(_EFFECTS)}
_STORE, _CLAIM, _REFER, _RELEASE, _ADOPT, _RECOUNT, _HEAL = range(1, 8)
_OF_KEY: Final[dict[int, type[Refer | Release]]] = {_REFER: Refer, _RELEASE: Release}
_FORCE_NEW, _COMPARING = 1, 2  # flags of a store
_EXPECTING, _OF_KIND, _IS_REPLICA = 1, 2, 4  # flags of what sets a counter
_REPLICA, _DAMAGED = 1, 2  # flags of facts
_NO_BLOCK, _OWN_BLOCK, _REPLICA_BLOCK = b"\0", b"\1", b"\2"  # kinds of blocks


class WireReader:
    """Takes a body apart from its beginning."""

    __slots__ = ("_at", "_inner", "_raw")

    def __init__(self, raw: Buffer) -> None:
        self._raw = memoryview(raw)
        self._at = 0
        self._inner = 0  # items of lists within lists

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        at = self._at
        self._at = at + layout.size
        try:
            return layout.unpack_from(self._raw, at)
        except struct.error:
            raise MalformedInput("a message ends too early") from None

    def u8(self) -> int:
        at = self._at
        self._at = at + 1
        try:
            return self._raw[at]
        except IndexError:
            raise MalformedInput("a message ends too early") from None

    def peek(self) -> int:
        """The next byte, which stays to be read."""
        kind = self.u8()
        self._at -= 1
        return kind

    def u32(self) -> int:
        return self.fields(_U32)[0]

    def u64(self) -> int:
        return self.fields(_U64)[0]

    def take(self, length: int) -> bytes:
        at = self._at
        self._at = end = at + length
        if end > len(self._raw):
            raise MalformedInput("a message ends too early")
        return bytes(self._raw[at:end])

    def count(self, least: int) -> int:
        """How many items follow, each of at least so many bytes: a count that cannot be true is refused here."""
        count = self.u32()
        if count > ITEMS_MAX:
            raise MalformedInput(f"a message announces {count} items; the limit is {ITEMS_MAX}")
        if count * least > len(self._raw) - self._at:
            raise MalformedInput(f"a message that announces {count} items is too short for them")
        return count

    def inner_count(self, least: int) -> int:
        """The same of a list that is an item's own: a short message must not stand for millions of items."""
        count = self.count(least)
        self._inner += count
        if self._inner > ITEMS_MAX:
            raise MalformedInput(f"the lists in a message have more than {ITEMS_MAX} items together")
        return count

    def rest(self) -> bytes:
        return self.take(len(self._raw) - self._at)

    def end(self) -> None:
        if self._at != len(self._raw):
            raise MalformedInput(f"a message has {len(self._raw) - self._at} bytes too many")


def pack_frame(kind: int, request: int, body: Buffer) -> bytes:
    """A whole message."""
    return b"".join((FRAME.pack(len(body) + FRAME_REST, kind, request), body))


# -- keys and signatures ----------------------------------------------------------------------------------------------


def pack_key(key: BlockKey) -> bytes:
    signature, overflow, home = key
    return _KEY.pack(len(signature), overflow, len(home)) + signature + home


def read_key(reader: WireReader) -> BlockKey:
    length, overflow, home = reader.fields(_KEY)
    if not length:
        raise MalformedInput("a signature in a message is empty")
    return BlockKey(reader.take(length), overflow, reader.take(home) if home else b"")


def pack_keys(keys: Sequence[BlockKey]) -> bytes:
    return _U32.pack(len(keys)) + b"".join(map(pack_key, keys))


def unpack_keys(body: Buffer) -> list[BlockKey]:
    """Spelled out: with each single read there comes one key."""
    raw, at, keys = bytes(body), 4, []
    try:
        (count,) = _U32.unpack_from(raw)
        for _ in range(min(count, ITEMS_MAX)):
            length, overflow, home = _KEY.unpack_from(raw, at)
            middle = at + 6 + length
            keys.append(BlockKey(raw[at + 6 : middle], overflow, raw[middle : middle + home]))
            at = middle + home
    except struct.error:
        raise MalformedInput("a message ends too early") from None
    if at != len(raw) or count > ITEMS_MAX:
        raise MalformedInput(f"a message announces {count} keys and has {len(raw) - at} bytes too many")
    return keys


def pack_signatures(signatures: Sequence[bytes]) -> bytes:
    length = len(signatures[0]) if signatures else 0
    return _SIGNATURES.pack(len(signatures), length) + b"".join(signatures)


def read_signatures(reader: WireReader) -> list[bytes]:
    count, length = reader.fields(_SIGNATURES)
    if count > ITEMS_MAX or (count and not length):
        raise MalformedInput(f"a message announces {count} signatures of {length} bytes")
    joined = reader.take(count * length)
    return [joined[at : at + length] for at in range(0, len(joined), length)] if joined else []


def unpack_signatures(body: Buffer) -> list[bytes]:
    reader = WireReader(body)
    signatures = read_signatures(reader)
    reader.end()
    return signatures


# -- facts ------------------------------------------------------------------------------------------------------------


def pack_facts(found: Iterable[tuple[BlockFacts, ...]]) -> bytes:
    parts = []
    for blocks in found:
        parts.append(_U32.pack(len(blocks)))
        for (_, overflow, home), replica, size, stored, references, damaged in blocks:
            flags = replica * _REPLICA | damaged * _DAMAGED
            parts.append(_FACTS.pack(overflow, flags, size, stored, references, len(home)) + home)
    return b"".join(parts)


def unpack_facts(body: Buffer, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
    reader = WireReader(body)
    found = []
    for signature in signatures:
        blocks = []
        for _ in range(reader.count(_FACTS.size)):
            overflow, flags, size, stored, references, length = reader.fields(_FACTS)
            key = BlockKey(signature, overflow, reader.take(length))
            replica, damaged = bool(flags & _REPLICA), bool(flags & _DAMAGED)
            blocks.append(BlockFacts(key, replica, size, stored, references, damaged))
        found.append(tuple(blocks))
    reader.end()
    return found


# -- blocks -----------------------------------------------------------------------------------------------------------


def pack_block(block: Block | None) -> list[Buffer]:
    if block is None:
        return [_NO_BLOCK]
    _, replica, references, (codec, dictionary, size, data, _), path, offset, serial = block
    name, place = codec.encode(), _packed_path(path)
    head = _BLOCK.pack(references, dictionary, size, offset, serial, len(name), len(place), len(data))
    return [_REPLICA_BLOCK if replica else _OWN_BLOCK, head, name, place, data]


def read_block(reader: WireReader, key: BlockKey) -> Block | None:
    """The block with this key; None if there is none."""
    kind = reader.u8()
    if not kind:
        return None
    references, dictionary, size, offset, serial, codec, path, stored = reader.fields(_BLOCK)
    name, place = _codec_name(reader.take(codec)), _path(reader.take(path))
    encoded = Encoded(name, dictionary, size, reader.take(stored))
    return Block(key, kind == _REPLICA_BLOCK[0], references, encoded, place, offset, serial)


@lru_cache(maxsize=1024)
def _packed_path(path: Path) -> bytes:
    """Few, and repeated in every block of a segment."""
    return str(path).encode("utf-8", "surrogateescape")[-_PATH_BYTES_MAX:]


@lru_cache(maxsize=1024)
def _path(raw: bytes) -> Path:
    return Path(raw.decode("utf-8", "surrogateescape"))


@lru_cache(maxsize=64)
def _codec_name(raw: bytes) -> str:
    return raw.decode("ascii", "replace")


# -- commits ----------------------------------------------------------------------------------------------------------


def pack_idempotency_key(idempotency_key: IdempotencyKey) -> bytes:
    return _IDEMPOTENCY_KEY.pack(*idempotency_key)


def read_idempotency_key(reader: WireReader) -> IdempotencyKey:
    client, sequence, settled = reader.fields(_IDEMPOTENCY_KEY)
    if settled >= sequence:
        raise MalformedInput(f"an idempotency key of sequence {sequence} cannot have settled {settled}")
    return IdempotencyKey(client, sequence, settled)  # type: ignore[arg-type]


def pack_operation(operation: Operation) -> list[Buffer]:
    """The buffers of an operation; the last one is the content's data where there is one."""
    match operation:
        case Store(signature, encoded, force_new, compared, overflow_min, references):
            flags = force_new * _FORCE_NEW | (compared is not None) * _COMPARING
            head = _STORE_HEAD.pack(_STORE, flags, overflow_min, references, len(signature)) + signature
            return [head, pack_keys(sorted(compared)) if compared is not None else b"", *pack_encoded(encoded)]
        case Claim(signature, size):
            return [_CLAIM_HEAD.pack(_CLAIM, size, len(signature)) + signature]
        case Refer(key):
            return [b"%c%b" % (_REFER, pack_key(key))]
        case Release(key):
            return [b"%c%b" % (_RELEASE, pack_key(key))]
        case Adopt(key, encoded, references, replica, expected):
            head = b"%c%b%b" % (_ADOPT, _pack_counters(references, expected, replica), pack_key(key))
            return [head, *pack_encoded(encoded)]
        case Recount(key, references, expected, replica):
            return [b"%c%b%b" % (_RECOUNT, _pack_counters(references, expected, replica), pack_key(key))]
        case Heal(key, encoded, references):
            return [b"%c%b%b" % (_HEAL, _U64.pack(references), pack_key(key)), *pack_encoded(encoded)]


def _pack_counters(references: int, expected: int | None, replica: bool | None) -> bytes:
    flags = (expected is not None) * _EXPECTING | (replica is not None) * _OF_KIND | bool(replica) * _IS_REPLICA
    return _COUNTERS.pack(flags, references, expected or 0)


def pack_encoded(encoded: Encoded) -> list[Buffer]:
    codec, data = encoded.codec.encode(), encoded.data
    return [_ENCODED.pack(len(codec), encoded.dictionary, encoded.size, len(data)) + codec, data]


def read_commit(body: memoryview) -> tuple[IdempotencyKey, list[Operation]]:
    """The key and the operations of a commit. Spelled out for short operations: most commits consist of these."""
    reader = WireReader(body)
    idempotency_key = read_idempotency_key(reader)
    return idempotency_key, _short_operations(body) or read_operations(reader)


def _short_operations(body: memoryview) -> list[Operation]:
    """The operations of a commit, if all are claims, references and releases; none if not, or if any is malformed."""
    operations: list[Operation] = []
    at = _OPERATIONS_AT
    try:
        (count,) = _U32.unpack_from(body, _IDEMPOTENCY_KEY.size)
        if len(body) - at > count * _SHORT_BYTES_MAX or count > ITEMS_MAX:
            return []
        raw = bytes(body)
        while at < len(raw):
            kind = raw[at]
            if kind == _CLAIM:
                _, size, length = _CLAIM_HEAD.unpack_from(raw, at)
                begin = at + _CLAIM_HEAD.size
                at = begin + length
                operations.append(Claim(raw[begin:at], size))
            elif kind in _OF_KEY:
                length, overflow, home = _KEY.unpack_from(raw, at + 1)
                begin = at + 1 + _KEY.size
                middle = begin + length
                at = middle + home
                operations.append(_OF_KEY[kind](BlockKey(raw[begin:middle], overflow, raw[middle:at])))
            else:
                return []
            if not length:
                return []
    except struct.error:
        return []
    return operations if at == len(raw) and len(operations) == count else []


def read_operations(reader: WireReader) -> list[Operation]:
    operations = [_read_operation(reader) for _ in range(reader.count(_OPERATION_BYTES_MIN))]
    reader.end()
    return operations


def _read_operation(reader: WireReader) -> Operation:
    kind = reader.peek()
    if kind == _CLAIM:
        _, size, length = reader.fields(_CLAIM_HEAD)
        return Claim(_read_signature(reader, length), size)
    if kind == _STORE:
        _, flags, overflow_min, references, length = reader.fields(_STORE_HEAD)
        signature, compared = _read_signature(reader, length), None
        if flags & _COMPARING:
            compared = frozenset([read_key(reader) for _ in range(reader.inner_count(_KEY.size))])
        return Store(signature, read_encoded(reader), bool(flags & _FORCE_NEW), compared, overflow_min, references)
    reader.u8()
    if kind == _REFER:
        return Refer(read_key(reader))
    if kind == _RELEASE:
        return Release(read_key(reader))
    if kind == _ADOPT:
        references, expected, replica = _read_counters(reader)
        key = read_key(reader)
        return Adopt(key, read_encoded(reader), references, bool(replica), expected)
    if kind == _RECOUNT:
        references, expected, replica = _read_counters(reader)
        return Recount(read_key(reader), references, expected, replica)
    if kind == _HEAL:
        references = reader.u64()
        key = read_key(reader)
        return Heal(key, read_encoded(reader), references)
    raise MalformedInput(f"unknown operation {kind}")


def _read_signature(reader: WireReader, length: int) -> bytes:
    if not length:
        raise MalformedInput("a signature in a message is empty")
    return reader.take(length)


def _read_counters(reader: WireReader) -> tuple[int, int | None, bool | None]:
    flags, references, expected = reader.fields(_COUNTERS)
    replica = bool(flags & _IS_REPLICA) if flags & _OF_KIND else None
    return references, expected if flags & _EXPECTING else None, replica


def read_encoded(reader: WireReader) -> Encoded:
    codec, dictionary, size, stored = reader.fields(_ENCODED)
    return Encoded(_codec_name(reader.take(codec)), dictionary, size, reader.take(stored))


def pack_results(results: Sequence[OperationResult]) -> bytes:
    """Without their signatures, which the client knows."""
    parts = [_U32.pack(len(results))]
    for effect, (_, overflow, home), references, stored in results:
        parts.append(_RESULT.pack(_EFFECT_CODES[effect], references, stored, overflow, len(home)) + home)
    return b"".join(parts)


def unpack_results(body: Buffer, operations: Sequence[Operation]) -> list[OperationResult]:
    reader = WireReader(body)
    if reader.count(_RESULT.size) != len(operations):
        raise MalformedInput(f"a response to {len(operations)} operations does not have as many results")
    results = []
    for operation in operations:
        code, references, stored, overflow, length = reader.fields(_RESULT)
        if code >= len(_EFFECTS):
            raise MalformedInput(f"unknown effect {code}")
        key = BlockKey(signature_of(operation), overflow, reader.take(length) if length else b"")
        results.append(OperationResult(_EFFECTS[code], key, references, stored))
    reader.end()
    return results


# -- failures ---------------------------------------------------------------------------------------------------------


def pack_failure(error: HoldfastError) -> bytes:
    return f"{type(error).__name__}\n{error}".encode("utf-8", "replace")


def unpack_failure(body: Buffer) -> HoldfastError:
    """The error as its class; one of a later release as the root of all."""
    name, _, message = bytes(body).decode("utf-8", "replace").partition("\n")
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, HoldfastError)
    return kind(message) if known and kind is not None else HoldfastError(f"{name}: {message}")
