"""The tickets of one client, and its commits of which it does not know whether they happened.

A ticket is open until its outcome is known: the client may ask for it again. A commit that was given up is in doubt. As
soon as the server answers again, the server is told that it is void; if it had happened, what it counted is taken back.
Taking back has a ticket of its own, kept until it is answered: it happens once, too, however often it is asked for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, MalformedInput, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type
from holdfast.storage.volume import (
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
from holdfast.storage.volumes.remote.connection import ServerLink

log = logging.getLogger("holdfast.storage")


class Tickets:
    """The numbers of one client's commits. Any thread may call."""

    def __init__(self, client: bytes) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._sequence = 0
        self._open: set[int] = set()

    def issue(self) -> IdempotencyKey:
        """A new ticket, open until it is closed."""
        with self._lock:
            self._sequence += 1
            self._open.add(self._sequence)
            return IdempotencyKey(self._client, self._sequence, min(self._open) - 1)

    def close(self, idempotency_key: IdempotencyKey) -> None:
        """Nobody will ask for this commit again."""
        with self._lock:
            self._open.discard(idempotency_key.sequence)


class Attempts:
    """One commit, sent until it is answered. For one thread.

    If it was sent before and nothing happened this time, the earlier one may still be on its way, on a connection that
    was given up. So it is made void before anybody is told; or else it has happened meanwhile, and that is the answer.
    """

    def __init__(
        self, idempotency_key: IdempotencyKey, operations: Sequence[Operation], packed: Sequence[Buffer]
    ) -> None:
        self.idempotency_key = idempotency_key
        self.operations = operations
        self._packed = packed
        self.times_sent = 0
        self._nothing: list[OperationResult] | HoldfastError | None = (
            None  # the answer to a repetition that changed nothing
        )

    def send(self, link: ServerLink) -> list[OperationResult]:
        """The outcomes, as soon as they are certain. Raises the server's refusal, or what the connection fails with."""
        if self._nothing is None:
            self.times_sent += 1
            answer = self._ask(link)
            if self.times_sent == 1 or (isinstance(answer, list) and any(each.effect.changes for each in answer)):
                return _unless_refused(answer)
            self._nothing = answer
        happened = bytes(link.ask(Type.VOID, wire.pack_idempotency_key(self.idempotency_key)))
        return wire.unpack_outcomes(happened, self.operations) if happened else _unless_refused(self._nothing)

    def _ask(self, link: ServerLink) -> list[OperationResult] | HoldfastError:
        count = len(self.operations).to_bytes(4, "big")
        try:
            answer = link.ask(Type.COMMIT, wire.pack_idempotency_key(self.idempotency_key), count, *self._packed)
            return wire.unpack_outcomes(answer, self.operations)
        except (VolumeDown, MalformedInput):
            raise
        except HoldfastError as refusal:
            return refusal


def _unless_refused(answer: list[OperationResult] | HoldfastError) -> list[OperationResult]:
    if isinstance(answer, HoldfastError):
        raise answer
    return answer


@dataclass(slots=True)
class _Doubt:
    """A commit that was given up. Once its outcomes are known: what takes them back, and under which ticket."""

    idempotency_key: IdempotencyKey
    operations: Sequence[Operation]
    undoing: list[Operation] | None = None
    undoing_ticket: IdempotencyKey | None = None


class PendingCommits:
    """Any thread may call."""

    def __init__(self, tickets: Tickets) -> None:
        self._tickets = tickets
        self._lock = threading.Lock()
        self._doubts: list[_Doubt] = []

    def __len__(self) -> int:
        return len(self._doubts)

    def give_up(self, idempotency_key: IdempotencyKey, operations: Sequence[Operation]) -> None:
        """The ticket is open, and whether its commit happened is not known."""
        with self._lock:
            self._doubts.append(_Doubt(idempotency_key, operations))

    def take_back(self, operations: Iterable[Operation], outcomes: Iterable[OperationResult]) -> None:
        """These have happened, but nobody will be told so."""
        undoing = _undoing(operations, outcomes)
        if undoing:
            idempotency_key = self._tickets.issue()
            with self._lock:
                self._doubts.append(_Doubt(idempotency_key, (), undoing, idempotency_key))

    def settle(self, link: ServerLink) -> None:
        """Nothing is in doubt any more; what the server cannot settle now stays in doubt. Raises OSError or
        MalformedInput if the connection fails.
        """
        while True:
            with self._lock:
                if not self._doubts:
                    return
                doubt = self._doubts.pop()
            try:
                self._settle(link, doubt)
            except BaseException as error:
                with self._lock:
                    self._doubts.append(doubt)
                if isinstance(error, MalformedInput) or not isinstance(error, HoldfastError):
                    raise
                link.is_sound = False  # a ticket is sent once on each connection
                log.warning("the outcome of %d commits is still unknown: %s", len(self), error)
                return

    def _settle(self, link: ServerLink, doubt: _Doubt) -> None:
        if doubt.undoing is None:
            answer = bytes(link.ask(Type.VOID, wire.pack_idempotency_key(doubt.idempotency_key)))
            outcomes = wire.unpack_outcomes(answer, doubt.operations) if answer else []
            doubt.undoing = _undoing(doubt.operations, outcomes)
        if doubt.undoing:
            if doubt.undoing_ticket is None:
                doubt.undoing_ticket = self._tickets.issue()
            packed = [part for step in doubt.undoing for part in wire.pack_operation(step)]
            count = len(doubt.undoing).to_bytes(4, "big")
            link.ask(Type.COMMIT, wire.pack_idempotency_key(doubt.undoing_ticket), count, *packed)
            self._tickets.close(doubt.undoing_ticket)
        self._tickets.close(doubt.idempotency_key)


def _undoing(operations: Iterable[Operation], outcomes: Iterable[OperationResult]) -> list[Operation]:
    """What takes counted references back; deletes, copies and corrections are not taken back."""
    undoing: list[Operation] = []
    for operation, outcome in zip(operations, outcomes, strict=False):
        if not isinstance(operation, Store | Claim | Refer | Heal):
            continue
        if isinstance(operation, Heal) and not operation.references:  # nothing was counted
            continue
        if isinstance(operation, Store) and operation.references > 1 and outcome.effect is Effect.NEW:
            undoing.append(Recount(outcome.key, 0, outcome.references))
        elif outcome.effect in (Effect.NEW, Effect.DUPLICATE, Effect.COUNTED, Effect.HEALED):
            undoing.append(Release(outcome.key))
    return undoing
