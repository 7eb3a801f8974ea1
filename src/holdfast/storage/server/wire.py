"""The bytes between a client and a volume server. All numbers are big-endian.

    frame     u32 length of the rest | u8 type | u32 request number | body
    key       u8 length, signature | u32 overflow | u8 length, home
    facts     u32 overflow | u8 flags (1 replica, 2 damaged) | u64 size | u32 stored | u64 references | u8 length, home
    outcome   u8 effect | u64 references | u32 stored | u32 overflow | u8 length, home
    block     u8 replica | u64 references | u32 dictionary | u64 size | u64 offset | u64 serial
              | u8 length of codec | u16 length of path | u32 length of data | codec | path | data

A type below 128 is a request, the others are answers: `DONE` ends a request, `FAILED` tells the error's name and
message, `PROGRESS` says that there is more to come. Every list begins with a u32 that counts it.

Taking the body of a message apart, whoever wrote it. All numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
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

ITEMS_MAX: Final = 65_536  # of one list, and of all lists within lists together
_U32 = struct.Struct(">I")


class WireReader:
    """Takes a body apart from its beginning. Whatever is wrong with it raises MalformedInput."""

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

    def u32(self) -> int:
        return self.fields(_U32)[0]

    def view(self, length: int) -> memoryview:
        at = self._at
        self._at = end = at + length
        if end > len(self._raw):
            raise MalformedInput("a message ends too early")
        return self._raw[at:end]

    def take(self, length: int) -> bytes:
        return bytes(self.view(length))

    def short(self) -> bytes:
        """Bytes behind their length."""
        return bytes(self.view(self.u8()))

    def count(self, least: int) -> int:
        """How many items follow, each of at least so many bytes: a count that cannot be true is refused here."""
        count = self.u32()
        if count > ITEMS_MAX:
            raise MalformedInput(f"a message announces {count} items, {ITEMS_MAX} are possible")
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

    def text(self) -> str:
        try:
            return self.short().decode()
        except UnicodeDecodeError:
            raise MalformedInput("a name in a message is no UTF-8") from None

    def rest(self) -> memoryview:
        return self.view(len(self._raw) - self._at)

    def end(self) -> None:
        if self._at != len(self._raw):
            raise MalformedInput(f"a message has {len(self._raw) - self._at} bytes too many")


VERSION: Final = 1
FRAME: Final = struct.Struct(">IBI")
FRAME_BYTES: Final = FRAME.size
_FRAME_REST: Final = FRAME_BYTES - 4  # what the length counts beside the body

_U64 = struct.Struct(">Q")
_FACTS = struct.Struct(">IBQIQB")
_OUTCOME = struct.Struct(">BQIIB")
_BLOCK = struct.Struct(">BQIQQQBHI")
_TICKET = struct.Struct(">8sQQ")
_ENCODED = struct.Struct(">BIQI")  # length of codec, dictionary, size, length of data
_NEW = struct.Struct(">IQ")  # least overflow, references
_COUNTERS = struct.Struct(">BQQ")  # flags, references, expected
_KEY_BYTES_MIN: Final = 7


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
_FORCE_NEW, _COMPARING = 1, 2  # flags of a store
_EXPECTING, _OF_KIND, _IS_REPLICA = 1, 2, 4  # flags of what sets a counter
_REPLICA, _DAMAGED = 1, 2  # flags of facts


def frame_head(kind: int, request: int, body_bytes: int) -> bytes:
    return FRAME.pack(body_bytes + _FRAME_REST, kind, request)


def unpack_frame(raw: Buffer, offset: int) -> tuple[int, int, int]:
    """Type, request number and length of the body of the frame whose first bytes are there. Raises MalformedInput."""
    length, kind, request = FRAME.unpack_from(raw, offset)
    if length < _FRAME_REST:
        raise MalformedInput(f"a frame of length {length} is too short")
    return kind, request, length - _FRAME_REST


# -- keys and signatures ----------------------------------------------------------------------------------------------


def pack_key(key: BlockKey) -> bytes:
    signature, overflow, home = key
    return b"%c%b%b%c%b" % (len(signature), signature, overflow.to_bytes(4, "big"), len(home), home)


def read_key(reader: WireReader) -> BlockKey:
    signature = _signature(reader)
    return BlockKey(signature, reader.u32(), reader.short())


def _signature(reader: WireReader) -> bytes:
    signature = reader.short()
    if not signature:
        raise MalformedInput("a signature in a message is empty")
    return signature


def pack_keys(keys: Sequence[BlockKey]) -> bytes:
    return _U32.pack(len(keys)) + b"".join(map(pack_key, keys))


def unpack_keys(body: Buffer) -> list[BlockKey]:
    reader = WireReader(body)
    keys = [read_key(reader) for _ in range(reader.count(_KEY_BYTES_MIN))]
    reader.end()
    return keys


def pack_signatures(signatures: Sequence[bytes]) -> bytes:
    return _U32.pack(len(signatures)) + b"".join([b"%c%b" % (len(each), each) for each in signatures])


def read_signatures(reader: WireReader) -> list[bytes]:
    return [_signature(reader) for _ in range(reader.count(2))]


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


def pack_block(block: Block) -> list[Buffer]:
    encoded = block.encoded
    codec, path = encoded.codec.encode(), str(block.path).encode("utf-8", "surrogateescape")[-1000:]
    head = _BLOCK.pack(
        block.replica,
        block.references,
        encoded.dictionary,
        encoded.size,
        block.offset,
        block.serial,
        len(codec),
        len(path),
        len(encoded.data),
    )
    return [head, codec, path, encoded.data]


def read_block(reader: WireReader, key: BlockKey) -> Block:
    replica, references, dictionary, size, offset, serial, codec, path, data = reader.fields(_BLOCK)
    name = reader.take(codec).decode("ascii", "replace")
    place = Path(reader.take(path).decode("utf-8", "surrogateescape"))
    encoded = Encoded(name, dictionary, size, reader.take(data))
    return Block(key, bool(replica), references, encoded, place, offset, serial)


# -- commits ----------------------------------------------------------------------------------------------------------


def pack_idempotency_key(idempotency_key: IdempotencyKey) -> bytes:
    return _TICKET.pack(*idempotency_key)


def read_idempotency_key(reader: WireReader) -> IdempotencyKey:
    client, sequence, settled = _TICKET.unpack(reader.view(_TICKET.size))
    if settled >= sequence:
        raise MalformedInput(f"a ticket of sequence {sequence} cannot have settled {settled}")
    return IdempotencyKey(client, sequence, settled)


def pack_operation(operation: Operation) -> list[Buffer]:
    """The buffers of an operation; the last one is the content's data where there is one."""
    match operation:
        case Store(signature, encoded, force_new, compared, overflow_min, references):
            flags = force_new * _FORCE_NEW | (compared is not None) * _COMPARING
            head = b"%c%c%b%b" % (_STORE, flags, _NEW.pack(overflow_min, references), _sized(signature))
            return [head, pack_keys(sorted(compared)) if compared is not None else b"", *_pack_encoded(encoded)]
        case Claim(signature, size):
            return [b"%c%b%b" % (_CLAIM, _U64.pack(size), _sized(signature))]
        case Refer(key):
            return [b"%c%b" % (_REFER, pack_key(key))]
        case Release(key):
            return [b"%c%b" % (_RELEASE, pack_key(key))]
        case Adopt(key, encoded, references, replica, expected):
            head = b"%c%b%b" % (_ADOPT, _pack_counters(references, expected, replica), pack_key(key))
            return [head, *_pack_encoded(encoded)]
        case Recount(key, references, expected, replica):
            return [b"%c%b%b" % (_RECOUNT, _pack_counters(references, expected, replica), pack_key(key))]
        case Heal(key, encoded, references):
            return [b"%c%b%b" % (_HEAL, _U64.pack(references), pack_key(key)), *_pack_encoded(encoded)]


def _pack_counters(references: int, expected: int | None, replica: bool | None) -> bytes:
    flags = (expected is not None) * _EXPECTING | (replica is not None) * _OF_KIND | bool(replica) * _IS_REPLICA
    return _COUNTERS.pack(flags, references, expected or 0)


def _read_counters(reader: WireReader) -> tuple[int, int | None, bool | None]:
    flags, references, expected = reader.fields(_COUNTERS)
    replica = bool(flags & _IS_REPLICA) if flags & _OF_KIND else None
    return references, expected if flags & _EXPECTING else None, replica


def _sized(signature: bytes) -> bytes:
    return b"%c%b" % (len(signature), signature)


def _pack_encoded(encoded: Encoded) -> list[Buffer]:
    codec = encoded.codec.encode()
    return [_ENCODED.pack(len(codec), encoded.dictionary, encoded.size, len(encoded.data)) + codec, encoded.data]


def read_operations(reader: WireReader) -> list[Operation]:
    operations = [_read_operation(reader) for _ in range(reader.count(6))]
    reader.end()
    return operations


def _read_operation(reader: WireReader) -> Operation:
    kind = reader.u8()
    if kind == _REFER:
        return Refer(read_key(reader))
    if kind == _RELEASE:
        return Release(read_key(reader))
    if kind == _CLAIM:
        (size,) = reader.fields(_U64)
        return Claim(_signature(reader), size)
    if kind == _STORE:
        flags = reader.u8()
        overflow_min, references = reader.fields(_NEW)
        signature = _signature(reader)
        compared = None
        if flags & _COMPARING:
            compared = frozenset([read_key(reader) for _ in range(reader.inner_count(_KEY_BYTES_MIN))])
        return Store(signature, _read_encoded(reader), bool(flags & _FORCE_NEW), compared, overflow_min, references)
    if kind == _ADOPT:
        references, expected, replica = _read_counters(reader)
        key = read_key(reader)
        return Adopt(key, _read_encoded(reader), references, bool(replica), expected)
    if kind == _RECOUNT:
        references, expected, replica = _read_counters(reader)
        return Recount(read_key(reader), references, expected, replica)
    if kind == _HEAL:
        (references,) = reader.fields(_U64)
        key = read_key(reader)
        return Heal(key, _read_encoded(reader), references)
    raise MalformedInput(f"unknown operation {kind}")


def _read_encoded(reader: WireReader) -> Encoded:
    codec, dictionary, size, stored = reader.fields(_ENCODED)
    name = reader.take(codec).decode("ascii", "replace")
    return Encoded(name, dictionary, size, reader.take(stored))


def pack_outcomes(outcomes: Sequence[OperationResult]) -> bytes:
    """Without their signatures: who asked knows them."""
    parts = [_U32.pack(len(outcomes))]
    for effect, (_, overflow, home), references, stored in outcomes:
        parts.append(_OUTCOME.pack(_EFFECT_CODES[effect], references, stored, overflow, len(home)) + home)
    return b"".join(parts)


def unpack_outcomes(body: Buffer, operations: Sequence[Operation]) -> list[OperationResult]:
    reader = WireReader(body)
    if reader.count(_OUTCOME.size) != len(operations):
        raise MalformedInput(f"an answer to {len(operations)} operations does not tell as many outcomes")
    outcomes = []
    for operation in operations:
        code, references, stored, overflow, length = reader.fields(_OUTCOME)
        if code >= len(_EFFECTS):
            raise MalformedInput(f"unknown effect {code}")
        key = BlockKey(signature_of(operation), overflow, reader.take(length))
        outcomes.append(OperationResult(_EFFECTS[code], key, references, stored))
    reader.end()
    return outcomes


# -- failures ---------------------------------------------------------------------------------------------------------


def pack_failure(error: HoldfastError) -> bytes:
    return f"{type(error).__name__}\n{error}".encode("utf-8", "replace")


def unpack_failure(body: Buffer) -> HoldfastError:
    """The error as its class; one of a later release as the root of all."""
    name, _, message = bytes(body).decode("utf-8", "replace").partition("\n")
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, HoldfastError)
    return kind(message) if known and kind is not None else HoldfastError(f"{name}: {message}")
