"""The meaning of each volume operation, the same for every organization.

`decide` takes an operation and the known blocks, and returns its result and the change to make, if any. It changes
nothing itself: a log appends the change as an entry, a tree writes files, a hash volume writes pages.

Changes are absolute (a whole block, the value of a counter, a removal). Making the same list of changes again, after
an interruption at any point, leads to the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from holdfast.storage import block
from holdfast.storage.block import BLOCK, COUNT, REPLICA, Header
from holdfast.storage.identity import Identity
from holdfast.storage.volume import (
    Adopt,
    BlockFacts,
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
UNREADABLE = -1  # size of a block whose header and counter cannot be read


class Change(NamedTuple):
    """A block to write, or a counter to set; counter 0 removes the block. Journals have entries of other kinds."""

    kind: bytes
    key: BlockKey
    encoded: Encoded
    references: int

    def packed_header(self, identity: Identity, serial: int, after: int) -> bytes:
        """The 320 bytes before its data."""
        return block.pack(self.header(identity, serial, after))

    def header(self, identity: Identity, serial: int, after: int) -> Header:
        """The header of its entry in this volume."""
        kind, (signature, overflow, home), (codec, dictionary, size, data, checksum), references = self
        return Header(
            kind,
            identity.uid,
            serial,
            after,
            identity.signature.encode(),
            signature,
            overflow,
            home,
            codec.encode(),
            dictionary,
            size,
            len(data),
            references,
            block.checksum(data) if checksum is None else checksum,
        )


Decision = tuple[OperationResult, Change | None]  # the result, and the change to make


class KnownBlocks(Protocol):
    """The blocks of a volume as the next operation finds them. The caller has exclusive access."""

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        """All blocks with this signature. A block whose counter cannot be read has size UNREADABLE."""

    def find(self, key: BlockKey) -> BlockFacts | None: ...

    def require_counter(self, key: BlockKey) -> None:
        """Raises DamagedBlock if the counter of this existing block cannot be read."""


def decide(operation: Operation, blocks: KnownBlocks) -> Decision:
    """The effect of an operation. Raises UsageError, or DamagedBlock if it needs an unreadable counter."""
    match operation:
        case Store():
            return _store(operation, blocks)
        case Claim(signature, size):
            return _claim(blocks.all_of(signature), size, blocks) or _missing(BlockKey(signature))
        case Refer(key):
            return _add(key, +1, blocks)
        case Release(key):
            return _add(key, -1, blocks)
        case Adopt():
            return _adopt(operation, blocks)
        case Recount():
            return _recount(operation, blocks)
        case Heal():
            return _heal(operation, blocks)


def _store(store: Store, blocks: KnownBlocks) -> Decision:
    signature, encoded = store.signature, store.encoded
    overflow = store.overflow_min
    if known := blocks.all_of(signature):
        if not store.force_new:
            if store.compared is None:
                decision = _claim(known, encoded.size, blocks, encoded)
            else:
                decision = _unsure(known, encoded.size, store.compared)
            if decision is not None:
                return decision
        overflow = max([overflow, *(each.key.overflow + 1 for each in known if not each.key.home)])
    return _write(Effect.NEW, Change(BLOCK, next_key(signature, overflow), encoded, store.references))


def _claim(
    known: Iterable[BlockFacts], size: int, blocks: KnownBlocks, encoded: Encoded | None = None
) -> Decision | None:
    """One more reference to the volume's own block with the content; None if there is none.

    Heals a damaged block if the content is given.
    """
    for each in known:
        if _may_have(each, size):
            if each.damaged:
                return None if encoded is None else _rewrite(each, encoded, 1, blocks)
            return _count(each, each.references + 1, blocks, Effect.DUPLICATE)
    return None


def _unsure(known: Iterable[BlockFacts], size: int, compared: frozenset[BlockKey]) -> Decision | None:
    """UNSURE if there is a block of equal size that the caller has not compared."""
    for each in known:
        if _may_have(each, size) and each.key not in compared:
            return OperationResult(Effect.UNSURE, each.key), None
    return None


def _may_have(known: BlockFacts, size: int) -> bool:
    """True if it is the volume's own block with a content of this size."""
    return known.size == size and not known.key.home and not known.replica


def _adopt(adopt: Adopt, blocks: KnownBlocks) -> Decision:
    key = adopt.key
    if adopt.expected is not None:
        known = blocks.find(key)
        if known is None or known.size == UNREADABLE:
            if adopt.expected:
                return OperationResult(Effect.CONFLICT, key), None
        elif not known.replica or known.references != adopt.expected:
            return _conflict(known)
    return _write(Effect.NEW, Change(REPLICA if adopt.replica else BLOCK, key, adopt.encoded, adopt.references))


def _heal(heal: Heal, blocks: KnownBlocks) -> Decision:
    known = blocks.find(heal.key)
    if known is None or (known.replica and heal.references):
        return _missing(heal.key)
    if known.damaged:
        return _rewrite(known, heal.encoded, heal.references, blocks)
    if not heal.references:
        return _conflict(known)
    return _count(known, known.references + heal.references, blocks)


def _add(key: BlockKey, step: int, blocks: KnownBlocks) -> Decision:
    known = blocks.find(key)
    if known is None or known.replica or (step > 0 and known.damaged):
        return _missing(key)
    return _count(known, known.references + step, blocks)


def _recount(recount: Recount, blocks: KnownBlocks) -> Decision:
    known = blocks.find(recount.key)
    if known is None or recount.replica not in (None, known.replica):
        return _missing(recount.key)
    if recount.expected not in (None, known.references):
        return _conflict(known)
    return _count(known, recount.references, blocks)


def _count(known: BlockFacts, references: int, blocks: KnownBlocks, effect: Effect = Effect.COUNTED) -> Decision:
    key = known.key
    blocks.require_counter(key)
    result = OperationResult(effect if references else Effect.REMOVED, key, references, known.stored)
    return result, Change(COUNT, key, NOTHING, references)


def _rewrite(known: BlockFacts, encoded: Encoded, step: int, blocks: KnownBlocks) -> Decision:
    """Sound data for a damaged block."""
    blocks.require_counter(known.key)
    change = Change(REPLICA if known.replica else BLOCK, known.key, encoded, known.references + step)
    return _write(Effect.HEALED, change)


def _write(effect: Effect, change: Change) -> Decision:
    _, key, encoded, references = change
    return OperationResult(effect, key, references, len(encoded.data)), change


def _missing(key: BlockKey) -> Decision:
    return OperationResult(Effect.MISSING, key), None


def _conflict(known: BlockFacts) -> Decision:
    return OperationResult(Effect.CONFLICT, known.key, known.references, known.stored), None


class PlannedBlocks:
    """The blocks of a volume after all changes that were decided here and not made yet."""

    def __init__(self, volume: KnownBlocks) -> None:
        self._volume = volume
        self._changed: dict[bytes, dict[BlockKey, BlockFacts | None]] = {}  # by signature; None: removed

    def over(self, volume: KnownBlocks) -> PlannedBlocks:
        """The same changes, to be made to the volume as it is now."""
        planned = PlannedBlocks(volume)
        planned._changed = self._changed
        return planned

    def decide(self, operations: Iterable[Operation]) -> tuple[list[OperationResult], list[Change]]:
        """Decides the operations in order; each sees the effects of those before it. If one raises, none is planned."""
        results, changes = [], []
        before: dict[bytes, dict[BlockKey, BlockFacts | None]] = {}
        try:
            for operation in operations:
                result, change = decide(operation, self)
                results.append(result)
                if change is not None:
                    changes.append(change)
                    before.setdefault(change.key.signature, self._changed.get(change.key.signature, {}))
                    self._plan(change)
        except BaseException:
            self._changed |= before
            raise
        return results, changes

    def _plan(self, change: Change) -> None:
        kind, key, encoded, references = change
        if kind != COUNT:
            after: BlockFacts | None = BlockFacts(key, kind == REPLICA, encoded.size, len(encoded.data), references)
        elif references:
            known = self.find(key)
            assert known is not None, "only a block that is there is counted"
            after = known._replace(references=references)
        else:
            after = None
        self._changed[key.signature] = {**self._changed.get(key.signature, {}), key: after}

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        known = self._volume.all_of(signature)
        changed = self._changed.get(signature)
        if not changed:
            return known
        after = {each.key: each for each in known} | changed
        return [each for each in after.values() if each is not None]

    def find(self, key: BlockKey) -> BlockFacts | None:
        changed = self._changed.get(key.signature, {})
        return changed[key] if key in changed else self._volume.find(key)

    def require_counter(self, key: BlockKey) -> None:
        if key not in self._changed.get(key.signature, {}):
            self._volume.require_counter(key)
