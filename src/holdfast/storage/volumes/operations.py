"""What operations mean for volumes that hold blocks in place: decided before anything is changed.

Changes are absolute (a whole block, a counter's value, a removal), so that carrying out a list of them again, from
wherever it was interrupted, leads to the same state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, REPLICA, Header
from holdfast.storage.identity import Identity
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

NOTHING = Encoded("none", 0, 0, b"")
UNREADABLE = -1  # size of a block of which not even the counter can be told


class Change(NamedTuple):
    """A block is written, or the counter of one is set; 0 removes it."""

    kind: bytes
    key: BlockKey
    encoded: Encoded
    references: int

    def header(self, identity: Identity, serial: int, after: int) -> bytes:
        """The 320 bytes that stand before its data."""
        return block.pack(self.fields(identity, serial, after))

    def fields(self, identity: Identity, serial: int, after: int) -> Header:
        """What they say."""
        encoded = self.encoded
        stored = len(encoded.data)
        return Header(
            self.kind,
            identity.uid,
            serial,
            after,
            identity.signature.encode(),
            *self.key,
            encoded.codec.encode(),
            encoded.dictionary,
            encoded.size,
            stored,
            self.references,
            block.checksum(encoded.data) if stored else 0,
        )


class Sight(NamedTuple):
    """A block as the next operation will find it."""

    size: int
    stored: int
    references: int
    replica: bool
    origin: object = None  # what the volume needs to find it again; None: it is still to be written
    damaged: bool = False  # it is known that its data cannot be read


class Sights(Protocol):
    """What a volume tells of its blocks. The caller has exclusive access to them."""

    def sights_of(self, signature: bytes) -> Iterable[tuple[BlockKey, Sight]]:
        """All blocks with this signature."""

    def sight(self, key: BlockKey) -> Sight | None: ...
    def require_countable(self, sight: Sight) -> None:
        """Raises DamagedBlock if the counter of this block cannot be told."""


class InPlacePlan:
    """Decides operations one after the other, each seeing those before it. The caller has exclusive access."""

    def __init__(self, volume: Sights) -> None:
        self._volume = volume
        self._blocks: dict[bytes, dict[BlockKey, Sight | None]] = {}  # by signature
        self._listed: set[bytes] = set()  # signatures of which all blocks are known
        self._changes: list[Change] = []
        self._before: list[tuple[BlockKey, bool, Sight | None]] = []

    def decide(self, operations: Iterable[Operation]) -> tuple[list[OperationResult], list[Change]]:
        """The outcomes, and what to change for them. If one operation fails, none of these counts."""
        self._changes, self._before = [], []
        try:
            return [self._decide(operation) for operation in operations], self._changes
        except BaseException:
            for key, known, sight in reversed(self._before):
                blocks = self._blocks[key.signature]
                if known:
                    blocks[key] = sight
                else:
                    del blocks[key]
            raise

    def _decide(self, operation: Operation) -> OperationResult:
        match operation:
            case Store():
                return self._store(operation)
            case Adopt():
                return self._adopt(operation)
            case Claim(signature, size):
                return self._claim(signature, size) or OperationResult(Effect.MISSING, BlockKey(signature))
            case Refer(key):
                return self._count(key, +1)
            case Release(key):
                return self._count(key, -1)
            case Recount():
                return self._recount(operation)
            case Heal():
                return self._heal(operation)

    def _store(self, store: Store) -> OperationResult:
        blocks = self._all(store.signature)
        if not store.force_new and store.compared is None:
            claimed = self._claim(store.signature, store.encoded.size, store.encoded)
            if claimed is not None:
                return claimed
        for key, sight in blocks.items() if store.compared is not None and not store.force_new else ():
            is_own = sight is not None and not key.home and not sight.replica
            if is_own and sight is not None and sight.size == store.encoded.size and key not in (store.compared or ()):
                return OperationResult(Effect.UNSURE, key)
        taken = [key.overflow + 1 for key, sight in blocks.items() if sight is not None and not key.home]
        key = next_key(store.signature, max([store.overflow_min, *taken]))
        return self._write(Change(BLOCK, key, store.encoded, store.references))

    def _claim(self, signature: bytes, size: int, encoded: Encoded | None = None) -> OperationResult | None:
        """One more reference to a block of the volume's own that has the content; None if there is none.

        A damaged one is healed if the content is at hand.
        """
        for key, sight in self._all(signature).items():
            if sight is not None and not key.home and not sight.replica and sight.size == size:
                if sight.damaged:
                    return None if encoded is None else self._mend(key, encoded, sight, 1)
                self._set(key, sight, sight.references + 1)
                return OperationResult(Effect.DUPLICATE, key, sight.references + 1, sight.stored)
        return None

    def _heal(self, heal: Heal) -> OperationResult:
        key, sight = heal.key, self._find(heal.key)
        if sight is None or (sight.replica and heal.references):
            return OperationResult(Effect.MISSING, key)
        if sight.damaged:
            return self._mend(key, heal.encoded, sight, heal.references)
        if not heal.references:
            return OperationResult(Effect.CONFLICT, key, sight.references, sight.stored)
        return self._set(key, sight, sight.references + heal.references)

    def _mend(self, key: BlockKey, encoded: Encoded, sight: Sight, step: int) -> OperationResult:
        if sight.origin is not None:
            self._volume.require_countable(sight)
        change = Change(REPLICA if sight.replica else BLOCK, key, encoded, sight.references + step)
        return self._write(change)._replace(effect=Effect.HEALED)

    def _count(self, key: BlockKey, step: int) -> OperationResult:
        sight = self._find(key)
        if sight is None or sight.replica or (step > 0 and sight.damaged):
            return OperationResult(Effect.MISSING, key)
        return self._set(key, sight, sight.references + step)

    def _adopt(self, adopt: Adopt) -> OperationResult:
        sight = self._find(adopt.key) if adopt.expected is not None else None
        if sight is not None and sight.size == UNREADABLE:  # as good as nothing
            sight = None
        if sight is not None and (adopt.expected, True) != (sight.references, sight.replica):
            return OperationResult(Effect.CONFLICT, adopt.key, sight.references, sight.stored)
        if sight is None and adopt.expected:
            return OperationResult(Effect.CONFLICT, adopt.key)
        return self._write(Change(REPLICA if adopt.replica else BLOCK, adopt.key, adopt.encoded, adopt.references))

    def _recount(self, recount: Recount) -> OperationResult:
        key, sight = recount.key, self._find(recount.key)
        if sight is None or recount.replica not in (None, sight.replica):
            return OperationResult(Effect.MISSING, key)
        if recount.expected not in (None, sight.references):
            return OperationResult(Effect.CONFLICT, key, sight.references, sight.stored)
        return self._set(key, sight, recount.references)

    def _set(self, key: BlockKey, sight: Sight, references: int) -> OperationResult:
        if sight.origin is not None:
            self._volume.require_countable(sight)
        self._note(key, sight._replace(references=references) if references else None)
        self._changes.append(Change(COUNT, key, NOTHING, references))
        return OperationResult(Effect.COUNTED if references else Effect.REMOVED, key, references, sight.stored)

    def _write(self, change: Change) -> OperationResult:
        encoded, references = change.encoded, change.references
        self._note(change.key, Sight(encoded.size, len(encoded.data), references, change.kind == REPLICA))
        self._changes.append(change)
        return OperationResult(Effect.NEW, change.key, references, len(encoded.data))

    def _note(self, key: BlockKey, sight: Sight | None) -> None:
        blocks = self._blocks.setdefault(key.signature, {})
        self._before.append((key, key in blocks, blocks.get(key)))
        blocks[key] = sight

    # -- what is there --------------------------------------------------------------------------------------------

    def _all(self, signature: bytes) -> dict[BlockKey, Sight | None]:
        blocks = self._blocks.setdefault(signature, {})
        if signature not in self._listed:
            for key, sight in self._volume.sights_of(signature):
                blocks.setdefault(key, sight)
            self._listed.add(signature)
        return blocks

    def _find(self, key: BlockKey) -> Sight | None:
        blocks = self._blocks.setdefault(key.signature, {})
        if key not in blocks and key.signature not in self._listed:
            blocks[key] = self._volume.sight(key)
        return blocks.get(key)

    def origin(self, key: BlockKey) -> object:
        """What the volume told of the block before these operations; None if they write or remove it."""
        sight = self._blocks.get(key.signature, {}).get(key)
        return sight.origin if sight is not None else None
