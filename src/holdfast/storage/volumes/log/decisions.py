"""What an operation means for a log volume: which entry it appends, if any, and what its caller is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.storage.block import BLOCK, COUNT, REPLICA
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Claim,
    Effect,
    Encoded,
    Heal,
    Operation,
    OperationResult,
    Recount,
    Refer,
    Release,
    Store,
    next_key,
)
from holdfast.storage.volumes.log.keydir import Slot
from holdfast.storage.volumes.log.ledger import SegmentLedger, find_slot

_NOTHING = Encoded("none", 0, 0, b"")
Append = Callable[[bytes, BlockKey, Encoded, int, tuple[Slot, ...]], None]  # kind, key, data, counter, slots so far


class LogDecisions:
    """Not thread-safe: the volume's lock guards it."""

    def __init__(self, ledger: SegmentLedger, append: Append, known_damage: Callable[[], frozenset[BlockKey]]) -> None:
        """`known_damage` tells which blocks are damaged; it is asked once for a commit that concerns blocks."""
        self._ledger = ledger
        self._append = append
        self._known_damage = known_damage
        self._damaged: frozenset[BlockKey] | None = None

    def perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Decides, and appends what must be."""
        self._damaged = None
        return [self._perform(operation) for operation in operations]

    def _perform(self, operation: Operation) -> OperationResult:
        match operation:
            case Store():
                return self._store(operation)
            case Claim(signature, size):
                return self._claim(signature, size, self._ledger.slots(signature)) or OperationResult(
                    Effect.MISSING, BlockKey(signature)
                )
            case Refer(key):
                return self._count(key, +1)
            case Release(key):
                return self._count(key, -1)
            case Adopt():
                return self._adopt(operation)
            case Recount():
                return self._recount(operation)
            case Heal():
                return self._heal(operation)

    def _store(self, store: Store) -> OperationResult:
        signature, encoded = store.signature, store.encoded
        slots = self._ledger.slots(signature)
        if slots and not store.force_new:
            if store.compared is None:
                claimed = self._claim(signature, encoded.size, slots, encoded)
            else:
                claimed = _unsure(signature, encoded.size, slots, store.compared)
            if claimed is not None:
                return claimed
        taken = [slot.overflow + 1 for slot in slots if not slot.home]
        key = next_key(signature, max([store.overflow_min, *taken]))
        self._append(BLOCK, key, encoded, store.references, slots)
        return OperationResult(Effect.NEW, key, store.references, len(encoded.data))

    def _claim(
        self, signature: bytes, size: int, slots: tuple[Slot, ...], encoded: Encoded | None = None
    ) -> OperationResult | None:
        """One more reference to a block of the volume's own that has the content; None if there is none.

        A damaged one is healed if the content is at hand.
        """
        for slot in slots:
            if not slot.home and not slot.replica and slot.size == size:
                key = BlockKey(signature, slot.overflow)
                if self._is_damaged(key):
                    return None if encoded is None else self._mend(key, encoded, slot.references + 1, slot, slots)
                self._append(COUNT, key, _NOTHING, slot.references + 1, slots)
                return OperationResult(Effect.DUPLICATE, key, slot.references + 1, slot.stored)
        return None

    def _adopt(self, adopt: Adopt) -> OperationResult:
        slots = self._ledger.slots(adopt.key.signature)
        slot = find_slot(slots, adopt.key.overflow, adopt.key.home)
        if (
            slot is not None
            and adopt.expected is not None
            and (adopt.expected, True) != (slot.references, slot.replica)
        ):
            return OperationResult(Effect.CONFLICT, adopt.key, slot.references, slot.stored)
        if slot is None and adopt.expected:
            return OperationResult(Effect.CONFLICT, adopt.key)
        self._append(REPLICA if adopt.replica else BLOCK, adopt.key, adopt.encoded, adopt.references, slots)
        return OperationResult(Effect.NEW, adopt.key, adopt.references, len(adopt.encoded.data))

    def _heal(self, heal: Heal) -> OperationResult:
        key, slots = heal.key, self._ledger.slots(heal.key.signature)
        slot = find_slot(slots, key.overflow, key.home)
        if slot is None or (slot.replica and heal.references):
            return OperationResult(Effect.MISSING, key)
        if self._is_damaged(key):
            return self._mend(key, heal.encoded, slot.references + heal.references, slot, slots)
        if not heal.references:
            return OperationResult(Effect.CONFLICT, key, slot.references, slot.stored)
        return self._set(key, slot.references + heal.references, slot, slots)

    def _mend(
        self, key: BlockKey, encoded: Encoded, references: int, slot: Slot, slots: tuple[Slot, ...]
    ) -> OperationResult:
        assert self._damaged is not None
        self._damaged -= {key}
        self._append(REPLICA if slot.replica else BLOCK, key, encoded, references, slots)
        return OperationResult(Effect.HEALED, key, references, len(encoded.data))

    def _is_damaged(self, key: BlockKey) -> bool:
        if self._damaged is None:
            self._damaged = self._known_damage()
        return key in self._damaged

    def _count(self, key: BlockKey, step: int) -> OperationResult:
        slots = self._ledger.slots(key.signature)
        slot = find_slot(slots, key.overflow, key.home)
        if slot is None or slot.replica or (step > 0 and self._is_damaged(key)):
            return OperationResult(Effect.MISSING, key)
        return self._set(key, slot.references + step, slot, slots)

    def _recount(self, recount: Recount) -> OperationResult:
        key = recount.key
        slots = self._ledger.slots(key.signature)
        slot = find_slot(slots, key.overflow, key.home)
        if slot is None or recount.replica not in (None, slot.replica):
            return OperationResult(Effect.MISSING, key)
        if recount.expected not in (None, slot.references):
            return OperationResult(Effect.CONFLICT, key, slot.references, slot.stored)
        return self._set(key, recount.references, slot, slots)

    def _set(self, key: BlockKey, references: int, slot: Slot, slots: tuple[Slot, ...]) -> OperationResult:
        self._append(COUNT, key, _NOTHING, references, slots)
        return OperationResult(Effect.COUNTED if references else Effect.REMOVED, key, references, slot.stored)


def _unsure(
    signature: bytes, size: int, slots: tuple[Slot, ...], compared: frozenset[BlockKey]
) -> OperationResult | None:
    """A block of equal size that the caller has not compared yet."""
    for slot in slots:
        key = BlockKey(signature, slot.overflow)
        if not slot.home and not slot.replica and slot.size == size and key not in compared:
            return OperationResult(Effect.UNSURE, key)
    return None
