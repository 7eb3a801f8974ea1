"""Replicas: copies of a block in other volumes, under the key of the volume whose block it is (W7, N10).

The counter of the block itself is in force; replicas repeat it, so that a lost block comes back with the right
counter. They are written after the block's own commit and before the put returns, and they are removed before the
block. So after a crash in between, a replica differs from its block only by what was never acknowledged; the next
operation on the content brings it in line, and so does `check --repair`.

Other processes may count and copy at the same time. So a replica is changed only if it still is what was seen, and
after each change the block is probed again: if it was counted meanwhile, there is another round. A replica is removed
for want of its block only if every volume that might hold the block is up and says that it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.errors import Damaged, UnknownName, VolumeDown, VolumeReadOnly
from holdfast.model import ContentKey
from holdfast.storage.codec import ALIAS, ZSTD_DICT
from holdfast.storage.store.fan_out import FAILURES
from holdfast.storage.store.locate import BlockLocation, BlockLocations
from holdfast.storage.store.store import BlockStore, block_key
from holdfast.storage.volume import (
    Adopt,
    Block,
    Effect,
    Encoded,
    Heal,
    Operation,
    OperationResult,
    ReadableVolume,
    Recount,
    Volume,
)

_ROUNDS_MAX = 100  # each means that somebody else counted in between
Places = Mapping[ContentKey, Sequence[str]]
_ANYWHERE: Places = {}


class NewBlock(NamedTuple):
    """A content that was stored just now, and where its copies may go."""

    key: ContentKey
    encoded: Encoded
    references: int
    places: Sequence[str]


class _Plan:
    """What one round is about to do: operations by volume, and the contents they are for."""

    def __init__(self) -> None:
        self.operations: dict[str, list[tuple[ContentKey, Operation]]] = {}
        self.copies: dict[str, list[tuple[BlockLocations, str]]] = {}  # by the volume to be read from

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
        """Whether contents have replicas as a rule."""
        return self._store.settings.store.replicas > 1 and len(self._store.settings.volume) > 1

    def may_have(self, signature: bytes, name: str) -> bool:
        """Whether there may be copies of a content of this volume: with replicas, one may have come just now."""
        store = self._store
        if len(store.volumes) < 2:
            return False
        return store.settings.store.replicas > 1 or bool(store.others(signature, name))

    # -- aligning -----------------------------------------------------------------------------------------------

    def follow(self, keys: Iterable[ContentKey], copies: int = 1, places: Places = _ANYWHERE) -> None:
        """Brings the replicas in line with their blocks: same counter, at least `copies` in all, none if it is gone.

        One probe of each volume for all keys, one fetch of each source, one commit to each target, until nothing is
        left to do. What a volume that is down should have got, a repair will bring.
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
        """As `follow`, without a reference of our own: no thread deletes meanwhile, so no copy outlives its block."""
        if keys:
            with self._store.move_lock.copying(keys):
                self.follow(keys, copies)

    def _plan(self, held: BlockLocations, copies: int, places: Sequence[str] | None, plan: _Plan) -> None:
        if self._store.finish_move(held):
            held = self._store.find(held.key)
        original = held.original
        if original is None:
            self._plan_removal(held, plan)
            return
        if original.facts.moving:  # somebody is just about to finish its migration
            return
        for replica in held.replicas:
            if replica.facts.references != original.references:
                recount = Recount(replica.facts.key, original.references, replica.facts.references, replica=True)
                plan.add(replica.volume.name, held.key, recount)
            if replica.facts.damaged and not original.facts.damaged:
                plan.copy(held, original, replica.volume.name)
        # A volume that has failed just now may well hold one: it is not made up for, or each failure would copy a lot.
        missing = copies - 1 - len(held.replicas) - sum(name not in self._store.down for name in held.away)
        if missing > 0:
            for name in self._targets(held, places)[:missing]:
                plan.copy(held, original, name)

    def _plan_removal(self, held: BlockLocations, plan: _Plan) -> None:
        """The block is gone, it seems: if it has just moved, those who do not trust the filter see it."""
        if held.lost:
            (held,) = self._store.find_batch([held.key], everywhere=True)
        if held.lost:
            for replica in held.replicas:
                plan.add(
                    replica.volume.name, held.key, Recount(replica.facts.key, 0, replica.facts.references, replica=True)
                )

    def _targets(self, held: BlockLocations, places: Sequence[str] | None) -> list[str]:
        """Where further copies may go."""
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
                if block is not None:
                    there = held.at(target)
                    damaged = there is not None and there.facts.damaged
                    self._plan_adoption(held.key, block, source, target, plan, damaged=damaged)

    def _plan_adoption(
        self, key: ContentKey, block: Block, source: ReadableVolume, target: str, plan: _Plan, *, damaged: bool
    ) -> None:
        """A copy for the target; if it has one that is damaged, for the place of that."""
        try:
            encoded = self.portable(block, source, self._store.writer(target))
        except FAILURES as error:
            self._store.back_off(target, error)
            return
        place = block_key(key, target)
        if damaged:
            plan.add(target, key, Heal(place, encoded, references=0))
        else:
            plan.add(target, key, Adopt(place, encoded, block.references, replica=True, expected=0))

    def _carry_out(self, plan: _Plan) -> list[ContentKey]:
        """Commits what is planned; returns the contents to look at again: those that were changed, or almost."""
        again: dict[ContentKey, None] = {}
        responses = self._store.fan_out.each(list(plan.operations), lambda name: self._commit(name, plan))
        for name, outcomes in responses.results.items():
            self._store.report_healed(name, outcomes)
            for key, operation in plan.operations[name]:
                again[key] = None
                if isinstance(operation, Adopt):  # also if others were faster: then it is there
                    self._store.note(key.signature, name)
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            for key, operation in plan.operations[name]:
                if isinstance(operation, Adopt):  # another volume may take the copy
                    again[key] = None
        return list(again)

    def _commit(self, name: str, plan: _Plan) -> list[OperationResult]:
        return self._store.writer(name).commit([operation for _, operation in plan.operations[name]])

    # -- the first copies of new contents, and the last --------------------------------------------------------------

    def spread(self, fresh: Sequence[NewBlock], copies: int) -> None:
        """Copies contents that were stored just now.

        Nobody else knows them, as a rule, so nothing is looked up; where that was wrong, `follow` sees to it.
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
        responses = self._store.fan_out.each(list(plan.operations), lambda name: self._commit(name, plan))
        for name, outcomes in responses.results.items():
            for (key, _), outcome in zip(plan.operations[name], outcomes, strict=True):
                self._store.note(key.signature, name)
                if outcome.effect is not Effect.NEW:
                    others[key] = None
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            others |= {key: None for key, _ in plan.operations[name]}
        places = {each.key: each.places for each in fresh}
        self.follow(others, copies, {key: places[key] for key in others})

    def _ready(self, fresh: NewBlock, name: str) -> Encoded | None:
        """The data for this target, if it can have it as it is."""
        try:
            source, target = self._store.volume(fresh.key.volume), self._store.writer(name)
            return self._portable(fresh.encoded, source, target)
        except (*FAILURES, Damaged, UnknownName):
            return None

    def withdraw(self, locations: Iterable[BlockLocations]) -> set[ContentKey]:
        """Removes all replicas of contents, and the copies of migrations that were not finished.

        Returns the contents of which one had changed meanwhile, and stays: it was counted, or is being moved. Raises
        VolumeDown if one cannot be removed: without its block, it would pass for what is left of a lost one.
        """
        removals: dict[str, list[tuple[ContentKey, Operation]]] = {}
        for held in locations:
            for found in (*held.replicas, *(held.moving if held.counted else ())):
                facts = found.facts
                gone = Recount(facts.key, 0, facts.references, replica=facts.replica)
                removals.setdefault(found.volume.name, []).append((held.key, gone))
        responses = self._store.fan_out.each(
            list(removals),
            lambda name: self._store.writer(name).commit([operation for _, operation in removals[name]]),
        )
        for error in responses.failed.values():
            raise error
        return {
            key
            for name, outcomes in responses.results.items()
            for (key, _), outcome in zip(removals[name], outcomes, strict=True)
            if outcome.effect is not Effect.REMOVED
        }

    # -- encoded forms ----------------------------------------------------------------------------------------------

    def portable(self, block: Block, source: ReadableVolume, target: Volume) -> Encoded:
        """The block's data in a form that the target can decode by itself: with its dictionary, or encoded again."""
        encoded = self._portable(block.encoded, source, target)
        if encoded is not None:
            return encoded
        try:
            content = self._store.encodings.decode(block, source)
        except Damaged:  # its dictionary is lost, here and there: the bytes are kept, as they are
            return block.encoded
        return self._store.encodings.encode(content, "auto", None, target)

    def _portable(self, encoded: Encoded, source: ReadableVolume, target: Volume) -> Encoded | None:
        """The data as it is, if the target has or gets what decodes it."""
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
