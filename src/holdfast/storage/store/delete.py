"""Delete: remove a reference; the last one removes the content from all volumes (W13).

Replicas are removed before their block: a crash in between leaves too few copies, never one too many. Other processes
may count, move and delete at the same time, so the volume decides. If a block vanished since the probe (MISSING), it
was moved or deleted, and is located again. If the last reference was not the last after all, replicas are written
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
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocation, BlockLocations, BlockStore
from holdfast.storage.volume import MOVING, BlockKey, Effect, Refer, Release

_TRIES_MAX = 8
_LOOKS_MAX = 8  # for a content that is not found
_PAUSE_S = 0.01  # before looking again for a block that vanished; doubles each time


@dataclass(slots=True)
class _Deletion:
    """The references to remove from one content."""

    key: ContentKey
    count: int
    left: list[int] = field(default_factory=list)  # the counter after each removal
    withdrawn: bool = False  # its copies were removed
    changed: bool = False  # some copies were changed by others, or missed because they were moving
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
        """Removes one reference per key; returns the counter after each removal. If a key is unknown, removes nothing.

        Raises VolumeDown if a volume that may hold a block is down. Nothing has changed then, unless the volume failed
        halfway.
        """
        self._store.move_lock.await_copies(keys)
        left = self._delete_without_copies(keys)
        known = [references for references in left if references is not None]
        if len(known) == len(keys):
            return known
        others = [key for key, references in zip(keys, left, strict=True) if references is None]
        deletions = [_Deletion(key, count) for key, count in Counter(others).items()]
        with self._store.move_lock.deleting(others):
            aliased = self._delete(deletions)
        if aliased:
            self.delete(aliased)
        counters = {deletion.key: iter(deletion.left) for deletion in deletions}
        return [
            next(counters[key]) if references is None else references
            for key, references in zip(keys, left, strict=True)
        ]

    def _delete(self, deletions: list[_Deletion]) -> list[ContentKey]:
        """Returns the targets of aliases that were removed."""
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

    def _delete_without_copies(self, keys: Sequence[ContentKey]) -> list[int | None]:
        """One commit to each volume, if the contents certainly have no copies. None: it must be located.

        Several are probed first: if a key is unknown, nothing may be removed. Then all must be located.
        """
        store, wanted = self._store, dict[str, list[int]]()
        for index, key in enumerate(keys):
            if key.volume not in store.volumes or self._replicator.may_have(key.signature, key.volume):
                return [None] * len(keys)
            wanted.setdefault(key.volume, []).append(index)
        if len(keys) == 1:
            return self._release_all(keys[0].volume, keys)
        probes = store.each(list(wanted), lambda name: self._are_counted(name, [keys[index] for index in wanted[name]]))
        if probes.failed or not all(probes.results.values()):
            return [None] * len(keys)
        left: list[int | None] = [None] * len(keys)
        found = store.each(list(wanted), lambda name: self._release_all(name, [keys[index] for index in wanted[name]]))
        for error in found.failed.values():
            raise error
        for name, counters in found.results.items():
            for index, references in zip(wanted[name], counters, strict=True):
                left[index] = references
        return left

    def _are_counted(self, name: str, keys: Sequence[ContentKey]) -> bool:
        """Whether the volume has all of these blocks, with enough references, and none of them is moving."""
        wanted = Counter([BlockKey(key.signature, key.overflow) for key in keys])
        probed = self._store.volume(name).probe([key.signature for key in wanted])
        known = {facts.key: facts for found in probed for facts in found}
        for key, count in wanted.items():
            facts = known.get(key)
            if facts is None or facts.replica or not count <= facts.references < MOVING:
                return False
        return True

    def _release_all(self, name: str, keys: Sequence[ContentKey]) -> list[int | None]:
        """The counter of each block after its release; None if it is not there, or not to be counted here."""
        writer = self._store.writer(name)
        outcomes = writer.commit([Release(BlockKey(key.signature, key.overflow)) for key in keys])
        if moving := [each.key for each in outcomes if each.references >= MOVING - 1]:
            writer.commit([Refer(key) for key in moving])  # copies of a migration: their originals must be counted
        return [
            None if effect is Effect.MISSING or references >= MOVING - 1 else references
            for effect, _, references, _ in outcomes
        ]

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
        """The blocks of each content. Asks all volumes if replicas are usual: other processes make them too.

        Asks all volumes twice before it concludes that there is no block: one that moves from a volume not yet asked to
        one already asked is seen in neither.
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
        """Looks again for blocks that vanished: a mover may not have finished the copy yet."""
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
        """Releases references of the first block of each content; returns the deletions that need more."""
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
        responses = self._store.each(list(by_volume), lambda name: self._release(name, by_volume[name]))
        for error in responses.failed.values():
            raise error
        for targets in responses.results.values():
            aliased += targets
        return [deletion for deletion in deletions if deletion.missing]

    def _last(self, deletions: list[_Deletion], locations: dict[ContentKey, BlockLocations]) -> list[_Deletion]:
        """The deletions that remove a block.

        The copy of a migration is withdrawn only if the block had no other references after the copy was seen.
        Otherwise references counted in between would be lost with it.
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
        """Returns the targets of aliases that were removed."""
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
        """Brings replicas in line: they repeat the counter, or go with a removed block.

        If the last reference was not the last after all, copies are written again.
        """
        again = [each.key for each in deletions if each.withdrawn and each.left[-1]]
        others = [each.key for each in deletions if not each.withdrawn or each.changed]
        self._replicator.follow([key for key in others if self._replicator.may_have(key.signature, key.volume)])
        self._replicator.follow(again, self._store.settings.store.replicas)
        if self._replicator.is_usual:  # a volume may have failed just now
            left = {each.key: each.left[-1] for each in deletions}
            self._store.note_bereft(key for key in others if not left[key])
