"""Repeated and abandoned commits: each happens once, or not at all.

Every commit has an idempotency key, which is open until its results are known: the client may repeat it. An abandoned
commit is pending. As soon as the server responds again, it is voided; if it had happened, its references are
rolled back. That is a commit with a key of its own, pending until its response comes: it happens once, too. A rollback
may remove a block that others have deleted meanwhile: `removed` tells, since the block may have replicas.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, MalformedInput, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import (
    BlockKey,
    Claim,
    Effect,
    Heal,
    IdempotencyKey,
    Operation,
    OperationResult,
    Recount,
    Refer,
    Release,
    Store,
)
from holdfast.storage.volumes.remote.connection import ServerConnection

log = logging.getLogger("holdfast.storage")


class IdempotencyKeys:
    """The keys of one client's commits. Any thread may call."""

    def __init__(self, client: bytes) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._sequence = 0
        self._open: set[int] = set()

    def issue(self) -> IdempotencyKey:
        """A new key, open until it is closed."""
        with self._lock:
            self._sequence += 1
            self._open.add(self._sequence)
            return IdempotencyKey(self._client, self._sequence, min(self._open) - 1)

    def close(self, idempotency_key: IdempotencyKey) -> None:
        """The commit will not be repeated."""
        with self._lock:
            self._open.discard(idempotency_key.sequence)


class CommitAttempt:
    """One commit, sent until there is a response. For one thread.

    If it was sent before and nothing happened this time, the earlier one may still be on its way, on a connection that
    was given up. So it is made void before its results are returned; or it has happened meanwhile: then it was that.
    """

    def __init__(
        self, idempotency_key: IdempotencyKey, operations: Sequence[Operation], packed: Sequence[Buffer]
    ) -> None:
        self.idempotency_key = idempotency_key
        self.operations = operations
        self.times_sent = 0
        self._packed = packed
        self._unchanged: list[OperationResult] | HoldfastError | None = None  # of a repetition that changed nothing

    def send(self, connection: ServerConnection) -> list[OperationResult]:
        """The results, as soon as they are certain. Raises the server's refusal, or what the connection fails with."""
        self.times_sent += 1
        if self.times_sent == 1:
            return self._commit(connection)
        if self._unchanged is None:
            try:
                results = self._commit(connection)
            except (VolumeDown, MalformedInput):
                raise
            except HoldfastError as refusal:
                self._unchanged = refusal
            else:
                if any(each.effect.changes for each in results):
                    return results
                self._unchanged = results
        happened = bytes(connection.call(Type.VOID, wire.pack_idempotency_key(self.idempotency_key)))
        if happened:
            return wire.unpack_results(happened, self.operations)
        if isinstance(self._unchanged, HoldfastError):
            raise self._unchanged
        return self._unchanged

    def _commit(self, connection: ServerConnection) -> list[OperationResult]:
        count = len(self.operations).to_bytes(4, "big")
        key = wire.pack_idempotency_key(self.idempotency_key)
        return wire.unpack_results(connection.call(Type.COMMIT, key, count, *self._packed), self.operations)


@dataclass(slots=True)
class _Pending:
    """An abandoned commit. Once its results are known: the operations that roll it back, and their key."""

    idempotency_key: IdempotencyKey
    operations: Sequence[Operation]
    rollback: list[Operation] | None = None
    rollback_key: IdempotencyKey | None = None


class PendingCommits:
    """Any thread may call."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys
        self._lock = threading.Lock()
        self._pending: list[_Pending] = []
        self.removed: deque[BlockKey] = deque()  # blocks that a rollback removed, to be taken out by anyone

    def __len__(self) -> int:
        return len(self._pending)

    def give_up(self, idempotency_key: IdempotencyKey, operations: Sequence[Operation]) -> None:
        """The key is open, and whether its commit happened is not known."""
        with self._lock:
            self._pending.append(_Pending(idempotency_key, operations))

    def roll_back(self, operations: Iterable[Operation], results: Iterable[OperationResult]) -> None:
        """These have happened, but their caller gets an error."""
        rollback = _rollback(operations, results)
        if rollback:
            idempotency_key = self._keys.issue()
            with self._lock:
                self._pending.append(_Pending(idempotency_key, (), rollback, idempotency_key))

    def resolve(self, connection: ServerConnection) -> None:
        """Resolves all; what the server cannot resolve now stays pending. Raises OSError or MalformedInput if the
        connection fails.
        """
        while True:
            with self._lock:
                if not self._pending:
                    return
                pending = self._pending.pop()
            try:
                self._resolve(connection, pending)
            except BaseException as error:
                with self._lock:
                    self._pending.append(pending)
                if isinstance(error, MalformedInput) or not isinstance(error, HoldfastError):
                    raise
                connection.is_sound = False  # a key is sent once on each connection
                log.warning("the outcome of %d commits is still unknown: %s", len(self), error)
                return

    def _resolve(self, connection: ServerConnection, pending: _Pending) -> None:
        if pending.rollback is None:
            response = bytes(connection.call(Type.VOID, wire.pack_idempotency_key(pending.idempotency_key)))
            results = wire.unpack_results(response, pending.operations) if response else []
            pending.rollback = _rollback(pending.operations, results)
        if pending.rollback:
            if pending.rollback_key is None:
                pending.rollback_key = self._keys.issue()
            packed = [part for operation in pending.rollback for part in wire.pack_operation(operation)]
            count = len(pending.rollback).to_bytes(4, "big")
            key = wire.pack_idempotency_key(pending.rollback_key)
            results = wire.unpack_results(connection.call(Type.COMMIT, key, count, *packed), pending.rollback)
            self.removed += [each.key for each in results if each.effect is Effect.REMOVED]
            self._keys.close(pending.rollback_key)
        self._keys.close(pending.idempotency_key)


def _rollback(operations: Iterable[Operation], results: Iterable[OperationResult]) -> list[Operation]:
    """What removes counted references; deletes, copies and corrections are not rolled back."""
    rollback: list[Operation] = []
    for operation, result in zip(operations, results, strict=False):
        if not isinstance(operation, Store | Claim | Refer | Heal):
            continue
        if isinstance(operation, Heal) and not operation.references:  # nothing was counted
            continue
        if isinstance(operation, Store) and operation.references > 1 and result.effect is Effect.NEW:
            rollback.append(Recount(result.key, 0, result.references))
        elif result.effect in (Effect.NEW, Effect.DUPLICATE, Effect.COUNTED, Effect.HEALED):
            rollback.append(Release(result.key))
    return rollback
