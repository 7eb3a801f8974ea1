"""Delete: one reference less; with the last one the content goes, from all volumes (W13).

Replicas go before their block: a crash in between leaves too few copies, never one too many. Other processes may count,
move and delete at the same time, so the volume has the last word: if a block has vanished since the probe (MISSING), it
has moved or was deleted, and is located again; if the last reference was not the last after all, the replicas are made
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.errors import ContentNotFound, HoldfastError, VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.codec import ALIAS
from holdfast.storage.store.encoder import alias_target
from holdfast.storage.store.locate import BlockLocation, BlockLocations
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import MOVING, BlockKey, Effect, Refer, Release

_TRIES_MAX = 8
_LOOKS_MAX = 8  # for a content that is not found
_PAUSE_S = 0.01  # before a block that has vanished is looked for again; twice as long each time


@dataclass(slots=True)
class _Deletion:
    """The references of one content that are to go."""

    key: ContentKey
    count: int
    left: list[int] = field(default_factory=list)  # after each of them
    withdrawn: bool = False  # its copies were removed
    changed: bool = False  # or some of them were changed by others, or not seen because they were being moved
    tries: int = 0

    @property
    def missing(self) -> int:
        return self.count - len(self.left)


class Deleter:
    """Thread-safe."""

    def __init__(self, store: BlockStore, replicator: Replicator) -> None:
        self._store = store
        self._replicator = replicator

    def delete(self, keys: Sequence[ContentKey]) -> list[int]:
        """Takes one reference away for each key; returns how many are left each time. If a key is unknown, none goes.

        Raises VolumeDown if a volume is down that may hold a block: then nothing has changed, unless it failed in the
        middle.
        """
        self._store.move_lock.await_copies(keys)
        if len(keys) == 1 and (left := self._delete_without_copies(keys[0])) is not None:
            return [left]
        deletions = [_Deletion(key, count) for key, count in Counter(keys).items()]
        with self._store.move_lock.deleting(keys):
            aliased = self._delete(deletions)
        if aliased:
            self.delete(aliased)
        counters = {deletion.key: iter(deletion.left) for deletion in deletions}
        return [next(counters[key]) for key in keys]

    def _delete(self, deletions: list[_Deletion]) -> list[ContentKey]:
        """Returns the contents that aliases stood for which are gone now."""
        locations = self._find_all(deletions)
        waiting = deletions
        aliased: list[ContentKey] = []
        while True:
            waiting = self._round(waiting, locations, aliased)
            if not waiting:
                break
            locations = self._find_again(waiting)
        self._follow(deletions)
        return aliased

    def _delete_without_copies(self, key: ContentKey) -> int | None:
        """One call to the volume, for a content that surely has no copy. None: it must be located."""
        volume = self._store.volumes.get(key.volume)
        if volume is None or self._replicator.may_have(key.signature, key.volume):
            return None
        writer, wanted = self._store.writer(key.volume), BlockKey(key.signature, key.overflow)
        (outcome,) = writer.commit([Release(wanted)])
        if outcome.effect is Effect.MISSING:
            return None
        if outcome.references >= MOVING - 1:  # the copy of a migration: its original is the one to be counted
            writer.commit([Refer(wanted)])
            return None
        return outcome.references

    # -- finding ----------------------------------------------------------------------------------------------------

    def _find_all(self, deletions: Sequence[_Deletion]) -> dict[ContentKey, BlockLocations]:
        found = self._find([deletion.key for deletion in deletions])
        for deletion in deletions:
            held = found[deletion.key]
            references = sum(each.facts.references for each in held.counted)
            if not held.counted:
                raise self._not_found(held)
            if deletion.count > references:
                raise ContentNotFound(
                    f"content {deletion.key} has {references} references, fewer than {deletion.count}"
                )
            if deletion.count == references and held.away and self._replicator.is_usual:  # or it would come back
                raise VolumeDown(
                    f"cannot delete the last reference to {deletion.key}: "
                    f"{' and '.join(held.away)} may hold a copy and is down"
                )
        return found

    def _find(self, keys: Sequence[ContentKey]) -> dict[ContentKey, BlockLocations]:
        """The blocks of each content. Where there should be replicas, all volumes are asked: others make them, too.

        All are asked twice before it is said that there is no block: one that moves from a volume not asked yet to one
        that was asked already is seen in neither.
        """
        everywhere = self._replicator.is_usual
        found = {held.key: held for held in self._store.find_batch(keys, everywhere=everywhere)}
        complete: Counter[ContentKey] = Counter()
        for _ in range(_LOOKS_MAX):
            unsettled = [key for key, held in found.items() if not held.counted and complete[key] < 2]
            if not unsettled:
                break
            for held in self._store.find_batch(unsettled, everywhere=True):
                found[held.key] = held
                complete[held.key] += not held.away
                if self._store.finish_move(held):
                    (found[held.key],) = self._store.find_batch([held.key], everywhere=True)
        return found

    def _find_again(self, deletions: list[_Deletion]) -> dict[ContentKey, BlockLocations]:
        """Looks again for blocks that have vanished: whoever moves one may not have put its copy in force yet."""
        while True:
            found = self._find([deletion.key for deletion in deletions])
            gone = [deletion for deletion in deletions if not found[deletion.key].counted]
            for deletion in gone:
                deletion.tries += 1
                if deletion.tries > _TRIES_MAX or found[deletion.key].away:
                    raise self._not_found(found[deletion.key])
            if not gone:
                return found
            self._store.env.sleep(_PAUSE_S * 2 ** max(deletion.tries for deletion in gone))

    def _not_found(self, held: BlockLocations) -> HoldfastError:
        if damage := self._store.damage_of(held.key):
            return damage
        if held.away:
            return VolumeDown(f"cannot delete content {held.key}: {' and '.join(held.away)} may hold it and is down")
        return ContentNotFound(f"no content {held.key}")

    # -- releasing --------------------------------------------------------------------------------------------------

    def _round(
        self, deletions: list[_Deletion], locations: dict[ContentKey, BlockLocations], aliased: list[ContentKey]
    ) -> list[_Deletion]:
        """Releases what the first block of each content has; returns those of which more must go."""
        last = self._last(deletions, locations)
        leaving = {deletion.key for deletion in last}
        changed = self._replicator.withdraw([locations[deletion.key] for deletion in last])
        by_volume: dict[str, list[tuple[_Deletion, BlockLocation]]] = {}
        for deletion in deletions:
            deletion.withdrawn |= deletion.key in leaving
            few = len(locations[deletion.key].replicas) < self._store.settings.store.replicas - 1
            deletion.changed |= few or deletion.key in changed
            for original in locations[deletion.key].counted[:1]:
                by_volume.setdefault(original.volume.name, []).append((deletion, original))
        responses = self._store.fan_out.each(list(by_volume), lambda name: self._release(name, by_volume[name]))
        for error in responses.failed.values():
            raise error
        for targets in responses.results.values():
            aliased += targets
        return [deletion for deletion in deletions if deletion.missing]

    def _last(self, deletions: list[_Deletion], locations: dict[ContentKey, BlockLocations]) -> list[_Deletion]:
        """Those whose block is about to go.

        A copy that a migration makes is withdrawn only if the block was seen to have no other references after the copy
        was seen: or what was counted in between would go with it.
        """
        unsure = [each for each in deletions if locations[each.key].moving]
        while unsure:
            before = {each.key: locations[each.key] for each in unsure}
            locations.update(self._find([each.key for each in unsure]))
            unsure = [
                each for each in unsure if locations[each.key].counted and locations[each.key] != before[each.key]
            ]
        return [
            each
            for each in deletions
            if locations[each.key].counted and each.missing >= locations[each.key].counted[0].facts.references
        ]

    def _release(self, name: str, wanted: list[tuple[_Deletion, BlockLocation]]) -> list[ContentKey]:
        """Returns the contents that aliases stood for which are gone now."""
        volume = self._store.writer(name)
        aliases = [found.facts.key for _, found in wanted if not found.facts.stored and found.facts.size]
        targets = {
            block.key: alias_target(block, volume)
            for block in (volume.fetch(aliases) if aliases else [])
            if block is not None and block.encoded.codec == ALIAS
        }
        counts = [min(deletion.missing, found.facts.references) for deletion, found in wanted]
        operations = [
            Release(found.facts.key) for (_, found), count in zip(wanted, counts, strict=True) for _ in range(count)
        ]
        outcomes = iter(volume.commit(operations))
        aliased = []
        for (deletion, found), count in zip(wanted, counts, strict=True):
            for outcome in [next(outcomes) for _ in range(count)]:
                if outcome.effect is not Effect.MISSING:
                    deletion.left.append(outcome.references)
                if outcome.effect is Effect.REMOVED and found.facts.key in targets:
                    aliased.append(targets[found.facts.key])
        return aliased

    def _follow(self, deletions: Sequence[_Deletion]) -> None:
        """Replicas repeat the counters, or go with a block whose last reference this has turned out to be.

        If what seemed to be the last reference was not, there must be copies again.
        """
        again = [each.key for each in deletions if each.withdrawn and each.left[-1]]
        others = [each.key for each in deletions if not each.withdrawn or each.changed]
        self._replicator.follow([key for key in others if self._replicator.may_have(key.signature, key.volume)])
        self._replicator.follow(again, self._store.settings.store.replicas)
