"""Idempotency keys: a repeated commit is applied once. In files and on the wire a key is called a ticket.

A volume remembers, for each client, the results of the commits that the client may still repeat: those above the
highest `settled` that the client has sent. Voided commits are remembered too. In a segment, in the keydir and in the
journal of a tree or hash volume, a remembered commit is:

    bytes  type         what
    -----  -----------  ---------------------------------------------------------------------------------
        0  u64          settled: the highest that the client had sent by then
        8  u8           0: it was applied; 1: it was made void
        9  outcomes     one per operation, each:
        0  u8             effect: 0 new, 1 duplicate, 2 counted, 3 removed, 4 missing, 5 unsure, 6 conflict,
                          7 healed
        1  u8             length of the signature
        2  u8             length of the home
        3  u32            overflow
        7  u64            references
       15  u64            stored
       23                 signature, home

Numbers are little endian. Its name is the client's 8 bytes and the sequence, 8 bytes, big endian.

Memory is bounded: `CLIENTS_MAX` clients, of which the longest silent is forgotten first, and `UNSETTLED_MAX` commits of
each. A client's last commit is always remembered, since a ticket never settles its own sequence; so `settled` needs no
separate entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from holdfast.env.files import Buffer
from holdfast.errors import UsageError
from holdfast.storage.volume import (
    BlockKey,
    Claim,
    Effect,
    IdempotencyKey,
    Operation,
    OperationResult,
    Store,
    signature_of,
)

CLIENTS_MAX: Final = 1024
UNSETTLED_MAX: Final = 4096  # commits of one client
CLIENT_BYTES: Final = 8
SEQUENCE_MAX: Final = (1 << 64) - 1

_NAME = struct.Struct(">8sQ")
_HEAD = struct.Struct("<QB")
_OUTCOME = struct.Struct("<BBBIQQ")
_EFFECTS: Final = tuple(Effect)
_CODES: Final = {effect: code for code, effect in enumerate(_EFFECTS)}


class Past(NamedTuple):
    """What is remembered of a commit."""

    settled: int
    void: bool
    outcomes: list[OperationResult]


class Kept(NamedTuple):
    """A packed past, and the serial of its entry."""

    serial: int
    data: bytes


def key_name(idempotency_key: IdempotencyKey) -> bytes:
    """The name of a ticket in files. Raises UsageError if the key is malformed."""
    client, sequence, settled = idempotency_key
    if len(client) != CLIENT_BYTES or not 0 <= settled < sequence <= SEQUENCE_MAX:
        raise UsageError(f"bad idempotency key {idempotency_key}: a client has 8 bytes, and 0 <= settled < sequence")
    return _NAME.pack(client, sequence)


def pack_past(past: Past) -> bytes:
    parts = [_HEAD.pack(past.settled, past.void)]
    for effect, (signature, overflow, home), references, stored in past.outcomes:
        parts.append(_OUTCOME.pack(_CODES[effect], len(signature), len(home), overflow, references, stored))
        parts.append(signature)
        parts.append(home)
    return b"".join(parts)


def past_bytes(operations: Sequence[Operation]) -> int:
    """The length of the packed past of these operations: a result names the same block as its operation."""
    length = _HEAD.size + _OUTCOME.size * len(operations)
    for operation in operations:
        length += len(signature_of(operation))
        if not isinstance(operation, Store | Claim):
            length += len(operation.key.home)
    return length


def unpack_past(data: Buffer) -> Past:
    settled, void = _HEAD.unpack_from(data)
    outcomes = []
    at = _HEAD.size
    while at < len(data):
        code, signature_length, home_length, overflow, references, stored = _OUTCOME.unpack_from(data, at)
        at += _OUTCOME.size
        home_at = at + signature_length
        key = BlockKey(bytes(data[at:home_at]), overflow, bytes(data[home_at : home_at + home_length]))
        outcomes.append(OperationResult(_EFFECTS[code], key, references, stored))
        at = home_at + home_length
    return Past(settled, bool(void), outcomes)


@dataclass(slots=True)
class _Session:
    """The commits that one client may still repeat."""

    settled: int = 0
    last: int = 0  # serial of its last entry
    kept: dict[int, Kept] = field(default_factory=dict)  # by sequence


class Sessions:
    """All clients of a volume. Not thread-safe: guarded by the volume's lock.

    Entries may be applied again, even after later ones: the result is the later state.
    """

    def __init__(self, known: Iterable[tuple[bytes, Kept]] = ()) -> None:
        """`known`: names and what was kept under them, in any order."""
        self._clients: dict[bytes, _Session] = {}
        self._changed: dict[bytes, Kept | None] = {}
        for name, kept in known:
            self.apply(name, kept)
        self._changed.clear()

    def find(self, idempotency_key: IdempotencyKey) -> Past | None:
        """The past of the commit; None if it may still be applied. Raises UsageError if it was settled or refused."""
        key_name(idempotency_key)
        session = self._clients.get(idempotency_key.client)
        if session is None:
            return None
        if idempotency_key.sequence <= session.settled:
            raise UsageError(
                f"commit {idempotency_key.sequence} of client '{idempotency_key.client.hex()}' was settled long ago"
            )
        kept = session.kept.get(idempotency_key.sequence)
        if kept is None:
            waiting = len(session.kept)
            if waiting >= UNSETTLED_MAX and all(sequence > idempotency_key.settled for sequence in session.kept):
                raise UsageError(f"client '{idempotency_key.client.hex()}' has {waiting} commits that are not settled")
            return None
        return unpack_past(kept.data)

    def settled(self, idempotency_key: IdempotencyKey) -> int:
        """The `settled` of a new entry: the highest that this client has sent."""
        session = self._clients.get(idempotency_key.client)
        return idempotency_key.settled if session is None else max(session.settled, idempotency_key.settled)

    def apply(self, name: bytes, kept: Kept) -> None:
        """Adds an entry of the log or journal."""
        client, sequence = _NAME.unpack(name)
        session = self._clients.get(client)
        if session is None:
            session = self._clients[client] = _Session()
        session.last = max(session.last, kept.serial)
        if sequence > session.settled:
            session.kept[sequence] = kept
            self._changed[name] = kept
            self._settle(client, session, _HEAD.unpack_from(kept.data)[0])
        if len(self._clients) > CLIENTS_MAX:
            self._forget_one()

    def _settle(self, client: bytes, session: _Session, settled: int) -> None:
        if settled <= session.settled:
            return
        session.settled = settled
        for sequence in [sequence for sequence in session.kept if sequence <= settled]:
            del session.kept[sequence]
            self._changed[_NAME.pack(client, sequence)] = None

    def _forget_one(self) -> None:
        client = min(self._clients, key=lambda each: self._clients[each].last)
        for sequence in self._clients.pop(client).kept:
            self._changed[_NAME.pack(client, sequence)] = None

    def take(self) -> dict[bytes, Kept | None]:
        """The changes since the last `take`; None: forgotten."""
        changed, self._changed = self._changed, {}
        return changed

    def all_kept(self) -> list[tuple[bytes, Kept]]:
        """Everything remembered, in the order of its entries."""
        every = (
            (_NAME.pack(client, sequence), kept)
            for client, session in self._clients.items()
            for sequence, kept in session.kept.items()
        )
        return sorted(every, key=lambda each: each[1].serial)


def require_not_void(idempotency_key: IdempotencyKey, past: Past) -> list[OperationResult]:
    """The results of a commit that was applied. Raises UsageError if it was made void."""
    if past.void:
        raise UsageError(f"commit {idempotency_key.sequence} of client '{idempotency_key.client.hex()}' was made void")
    return past.outcomes
