"""Replicas: copies of a block in other volumes, under the key of its home volume (W7, N10).

The block's own counter is authoritative. Replicas repeat it, so that a lost block is restored with the right counter.
They are written after the block's commit and before the put returns, and removed before the block. After a crash a
replica therefore differs from its block only by what was never acknowledged. The next operation on the content brings
it in line, as does `check --repair`.

Other processes may count and copy at the same time. A replica is changed only if it is still as it was seen, and after
each change the block is probed again: if it was counted in between, there is another round. A replica without a block
is removed only if every volume that might hold the block is up and does not have it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from holdfast.errors import Damaged, HoldfastError, UnknownName, VolumeDown, VolumeReadOnly
from holdfast.model import ContentKey
from holdfast.storage.codec import ALIAS, ZSTD_DICT
from holdfast.storage.store.store import BlockLocation, BlockLocations, BlockStore, block_key
from holdfast.storage.volume import (
    FAILURES,
    Adopt,
    Block,
    Effect,
    Encoded,
    Heal,
    Operation,
    ReadableVolume,
    Recount,
    Volume,
)

log = logging.getLogger("holdfast.storage")

_ROUNDS_MAX = 100  # each means that another client counted in between
Places = Mapping[ContentKey, Sequence[str]]
_ANYWHERE: Places = {}


class NewBlock(NamedTuple):
    """A content that was just stored, and where its copies may go."""

    key: ContentKey
    encoded: Encoded
    references: int
    places: Sequence[str]


class _Plan:
    """The operations of one round by volume, with the contents they are for."""

    def __init__(self) -> None:
        self.operations: dict[str, list[tuple[ContentKey, Operation]]] = {}
        self.copies: dict[str, list[tuple[BlockLocations, str]]] = {}  # by the volume to read from

    def add(self, name: str, key: ContentKey, operation: Operation) -> None:
        self.operations.setdefault(name, []).append((key, operation))

    def copy(self, held: BlockLocations, source: BlockLocation, target: str) -> None:
        self.copies.setdefault(source.volume.name, []).append((held, target))


class Replicator:
    """Thread-safe."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store

    @property
    def is_usual(self) -> bool:
        """True if contents have replicas by default."""
        return self._store.settings.store.replicas > 1 and len(self._store.settings.volume) > 1

    def may_have(self, signature: bytes, name: str) -> bool:
        """True if a content of this volume may have copies; with replicas configured, it may always."""
        store = self._store
        if len(store.volumes) < 2:
            return False
        return store.settings.store.replicas > 1 or bool(store.others(signature, name))

    # -- aligning -----------------------------------------------------------------------------------------------

    def follow(self, keys: Iterable[ContentKey], copies: int = 1, places: Places = _ANYWHERE) -> None:
        """Brings replicas in line with their blocks: same counter, at least `copies` in all, none if the block is gone.

        One probe of each volume for all keys, one fetch from each source, one commit to each target, until nothing
        is left to do. Replicas of a volume that is down are left to repair.
        """
        pending = list(dict.fromkeys(keys))
        for _ in range(_ROUNDS_MAX):
            if not pending:
                return
            plan = _Plan()
            for held in self._store.find_batch(pending):
                self._plan(held, copies, places.get(held.key), plan)
            self._plan_copies(plan)
            pending = self._carry_out(plan)
        self._store.warn("replicas", f"replicas of {len(pending)} contents are counted too often to follow")

    def follow_undeleted(self, keys: Sequence[ContentKey], copies: int) -> None:
        """As `follow`, for a caller without a reference: no thread deletes meanwhile, so no copy outlives its block."""
        if keys:
            with self._store.move_lock.copying(keys):
                self.follow(keys, copies)

    def follow_bereft(self) -> None:
        """Removes what is left of contents whose block was removed before its replicas. Raises nothing.

        What a volume that fails may have is left to a later call.
        """
        store = self._store
        keys = [key for key in store.bereft() if self.may_have(key.signature, key.volume)]
        if not keys:
            return
        try:
            with store.move_lock:
                self.follow(keys)
                found = store.find_batch(keys, everywhere=True)
        except HoldfastError as error:
            log.warning("replicas of %d contents that were deleted may be left: %s", len(keys), error)
        else:
            store.note_bereft(held.key for held in found if held.lost or (held.away and not held.counted))

    def _plan(self, held: BlockLocations, copies: int, places: Sequence[str] | None, plan: _Plan) -> None:
        if self._store.finish_move(held):
            held = self._store.find(held.key)
        original = held.original
        if original is None:
            self._plan_removal(held, plan)
            return
        if original.facts.moving:  # another process is about to finish its migration
            return
        for replica in held.replicas:
            if replica.facts.references != original.references:
                recount = Recount(replica.facts.key, original.references, replica.facts.references, replica=True)
                plan.add(replica.volume.name, held.key, recount)
            if replica.facts.damaged and not original.facts.damaged:
                plan.copy(held, original, replica.volume.name)
        # A volume that just failed may hold a copy: replacing it at once would copy a lot on each failure.
        missing = copies - 1 - len(held.replicas) - sum(name not in self._store.down for name in held.away)
        if missing > 0:
            for name in self._targets(held, places)[:missing]:
                plan.copy(held, original, name)

    def _plan_removal(self, held: BlockLocations, plan: _Plan) -> None:
        """Removes the replicas if the block is gone; without the filter, in case the block has just moved.

        Where replicas are usual, also if none is known: the filter may not know those of other clients yet.
        """
        if held.lost or (self.is_usual and not held.blocks):
            (held,) = self._store.find_batch([held.key], everywhere=True)
        if held.lost:
            for replica in held.replicas:
                plan.add(
                    replica.volume.name, held.key, Recount(replica.facts.key, 0, replica.facts.references, replica=True)
                )

    def _targets(self, held: BlockLocations, places: Sequence[str] | None) -> list[str]:
        """The volumes that further copies may go to."""
        try:
            up = self._store.places(held.key.signature, held.blocks[0].volume.name)
        except (VolumeDown, VolumeReadOnly):
            return []
        ordered = [name for name in places or () if name in up] or up
        taken = held.names | set(held.away)
        return [name for name in ordered if name not in taken]

    def _plan_copies(self, plan: _Plan) -> None:
        for name, wanted in plan.copies.items():
            source = self._store.volume(name)
            keys = list({held.key: block_key(held.key, name) for held, _ in wanted}.values())
            try:
                blocks = dict(zip(keys, source.fetch(keys), strict=True))
            except (Damaged, VolumeDown) as error:
                self._store.warn(f"copying from {name}", f"cannot copy from volume {name!r}: {error}")
                continue
            for held, target in wanted:
                block = blocks[block_key(held.key, name)]
                if block is None:
                    continue
                try:
                    encoded = self.portable(block, source, self._store.writer(target))
                except FAILURES as error:
                    self._store.back_off(target, error)
                    continue
                place, there = block_key(held.key, target), held.at(target)
                if there is not None and there.facts.damaged:
                    plan.add(target, held.key, Heal(place, encoded, references=0))
                else:
                    plan.add(target, held.key, Adopt(place, encoded, block.references, replica=True, expected=0))

    def _carry_out(self, plan: _Plan) -> list[ContentKey]:
        """Commits the plan; returns the contents to check again: those that were changed or nearly changed."""
        again: dict[ContentKey, None] = {}
        responses = self._store.commit_each(plan.operations)
        for name, results in responses.results.items():
            self._store.report_healed(name, [outcome for _, _, outcome in results])
            for key, operation, _ in results:
                again[key] = None
                if isinstance(operation, Adopt):  # also if others were faster: the copy exists
                    self._store.note([key.signature], name)
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            for key, operation in plan.operations[name]:
                if isinstance(operation, Adopt):  # another volume may take the copy
                    again[key] = None
        return list(again)

    # -- the first copies of new contents, and the last --------------------------------------------------------------

    def spread(self, fresh: Sequence[NewBlock], copies: int) -> None:
        """Copies contents that were just stored.

        Nobody else usually knows them, so nothing is looked up; `follow` corrects the exceptions.
        """
        plan = _Plan()
        others: dict[ContentKey, None] = {}
        for each in fresh:
            targets = [name for name in each.places if name != each.key.volume][: copies - 1]
            for name in targets:
                encoded = self._ready(each, name)
                if encoded is None:
                    others[each.key] = None
                else:
                    adopt = Adopt(block_key(each.key, name), encoded, each.references, replica=True, expected=0)
                    plan.add(name, each.key, adopt)
            if len(targets) < copies - 1:
                self._store.warn("copies", f"fewer than {copies} volumes are up: contents have fewer copies")
        responses = self._store.commit_each(plan.operations)
        for name, results in responses.results.items():
            for key, _, outcome in results:
                self._store.note([key.signature], name)
                if outcome.effect is not Effect.NEW:
                    others[key] = None
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            others |= {key: None for key, _ in plan.operations[name]}
        places = {each.key: each.places for each in fresh}
        self.follow(others, copies, {key: places[key] for key in others})

    def _ready(self, fresh: NewBlock, name: str) -> Encoded | None:
        """The data for this target, if it can be used as it is."""
        try:
            source, target = self._store.volume(fresh.key.volume), self._store.writer(name)
            return self._portable(fresh.encoded, source, target)
        except (*FAILURES, Damaged, UnknownName):
            return None

    def withdraw(self, locations: Iterable[BlockLocations]) -> set[ContentKey]:
        """Removes all replicas of contents, and the copies of unfinished migrations.

        Returns the contents with a copy that changed meanwhile and stays: it was counted, or is moving. Raises
        VolumeDown if a copy cannot be removed: without its block, it would look like the rest of a lost one.
        """
        removals: dict[str, list[tuple[ContentKey, Operation]]] = {}
        for held in locations:
            for found in (*held.replicas, *(held.moving if held.counted else ())):
                facts = found.facts
                gone = Recount(facts.key, 0, facts.references, replica=facts.replica)
                removals.setdefault(found.volume.name, []).append((held.key, gone))
        responses = self._store.commit_each(removals)
        for error in responses.failed.values():
            raise error
        results = chain.from_iterable(responses.results.values())
        return {key for key, _, outcome in results if outcome.effect is not Effect.REMOVED}

    # -- encoded forms ----------------------------------------------------------------------------------------------

    def portable(self, block: Block, source: ReadableVolume, target: Volume) -> Encoded:
        """The block's data in a form that the target can decode: with its dictionary, or encoded again."""
        encoded = self._portable(block.encoded, source, target)
        if encoded is not None:
            return encoded
        try:
            content = self._store.encodings.decode(block, source)
        except Damaged:  # its dictionary is lost in both volumes: the bytes are kept as they are
            return block.encoded
        return self._store.encodings.encode(content, "auto", None, target)

    def _portable(self, encoded: Encoded, source: ReadableVolume, target: Volume) -> Encoded | None:
        """The data as it is, if the target has or gets the dictionary."""
        if encoded.codec == ALIAS:
            return None
        if encoded.codec != ZSTD_DICT:
            return encoded
        encodings = self._store.encodings
        wanted = encodings.dictionary(source, encoded.dictionary)
        present = encodings.dictionary(target, encoded.dictionary)
        if present is None and wanted is not None:
            target.add_dictionary(*wanted)
            return encoded
        return encoded if present == wanted and present is not None else None
