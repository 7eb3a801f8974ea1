"""Merging: a content stored in two volumes becomes one block again (W6).

Two clients that store the same new content at once, each with an outdated view of the other's volume, may make two
counted blocks with different keys. Both keys are valid; the second block only costs space. A merge usually keeps the
block with more references. The other becomes an *alias* in the same volume: a block under the other's key, with its
counter and size, codec `alias` and no data, whose field `dictionary` is the overflow number of the block with the
content. The alias counts as one reference to that block. Then the other block is removed.

The order is: add a reference to the block that stays; write the alias as moving (`MOVING`); remove the other block, if
its counter has not changed; activate the alias. It is a move, and as safe as one (see `move`): a crash leaves at worst
one reference too many to each block that was being merged.

An alias refers to a block of its own volume, so a block that has moved is never kept; two of them are not merged.
Neither are blocks in read-only volumes, nor those stored under another overflow number on purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from dataclasses import dataclass

from holdfast.errors import Damaged, VolumeDown
from holdfast.model import VolumeState
from holdfast.storage.codec import ALIAS
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocation, BlockStore, block_key
from holdfast.storage.volume import BlockFacts, BlockKey, Effect, Encoded, Refer, Release

log = logging.getLogger("holdfast.storage")

TOGETHER = 256  # blocks merged at a time: each time waits until other processes know the aliases


@dataclass(frozen=True, slots=True)
class Doubled:
    """Two blocks that seem to hold the same content: the one to keep, and the other."""

    kept: BlockLocation
    other: BlockLocation


def find_doubled(store: BlockStore, name: str, signatures: Sequence[bytes]) -> list[Doubled]:
    """Contents of a volume that another one holds too; each pair is found from one side only."""
    writable = [each.name for each in store.settings.volume if each.state is VolumeState.WRITABLE]
    if name not in writable or not signatures:
        return []
    names = [other for other in writable if other in store.volumes and store.is_up(other)]
    responses = store.each(names, lambda other: store.volume(other).probe(signatures)).results
    doubled = []
    for index in range(len(signatures)):
        found = [
            BlockLocation(store.volume(other), facts)
            for other in names
            if other in responses
            for facts in responses[other][index]
            if _counts(facts)
        ]
        for mine in (each for each in found if each.volume.name == name):
            rivals = [each for each in found if _are_doubled(store, mine, each)]
            if rivals:
                kept = max(rivals, key=_weight)
                if _weight(mine) < _weight(kept) and not kept.facts.key.home:
                    doubled.append(Doubled(kept, mine))
    return doubled


def _counts(facts: BlockFacts) -> bool:
    return not facts.replica and not facts.moving and facts.stored > 0


def _weight(found: BlockLocation) -> tuple[bool, int, str, BlockKey]:
    """The heavier block stays. No two weights are equal, so every process chooses the same."""
    return not found.facts.key.home, found.facts.references, found.volume.name, found.facts.key


def _are_doubled(store: BlockStore, one: BlockLocation, other: BlockLocation) -> bool:
    homes = {store.content_key(each.volume, each.facts.key).volume for each in (one, other)}
    return one.volume is not other.volume and one.facts.size == other.facts.size and len(homes) == 2


class Merger:
    """Merges doubled contents. For one thread; clients may continue."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._replicator = Replicator(store)
        self.merged = 0

    def run(self) -> int:
        """Merges all contents of the writable volumes that are up; returns the number merged."""
        for name, volume in self._store.volumes.items():
            doubled: dict[BlockKey, Doubled] = {}  # from the whole volume: they are far apart
            try:
                for batch in volume.scan(counted=False):
                    signatures = list(dict.fromkeys(block.key.signature for block in batch if not block.replica))
                    doubled |= {each.other.facts.key: each for each in find_doubled(self._store, name, signatures)}
                    if len(doubled) >= TOGETHER:
                        self._merge(name, list(doubled.values()))
                        doubled = {}
                if doubled:
                    self._merge(name, list(doubled.values()))
            except VolumeDown as error:
                log.warning("cannot merge volume %r: %s", name, error)
        return self.merged

    def _merge(self, name: str, doubled: Sequence[Doubled]) -> None:
        """Turns blocks of a volume into aliases of equal blocks in others.

        All at once: before a mover removes originals, it waits until other processes know the copies.
        """
        equal = [each for each in doubled if self._are_equal(each.kept, each.other)]
        counted = [each for theirs in _by_keeper(equal).values() for each in self._counted(theirs)]
        if not counted:
            return
        aliases = {
            each.other.facts.key: Encoded(ALIAS, each.kept.facts.key.overflow, each.kept.facts.size, b"")
            for each in counted
        }
        targets = {each.other.facts.key: each.kept.volume.name for each in counted}
        mover = Mover(self._store, name, aliases)
        mover.move(list(aliases), lambda block, held: None if block.replica else targets[block.key])
        # If that fails, references stay: an alias may be moving, and needs its reference once the move is finished.
        for target, theirs in _by_keeper(counted).items():
            self._release_unmerged(target, theirs, mover.replaced)
        keys = [
            self._store.content_key(each.volume, each.facts.key) for pair in counted for each in (pair.other, pair.kept)
        ]
        self._replicator.follow_undeleted(keys, self._store.settings.store.replicas)

    def _counted(self, doubled: Sequence[Doubled]) -> list[Doubled]:
        """Adds a reference to each block to keep, all in one volume; returns those that were counted."""
        keeper = self._store.writer(doubled[0].kept.volume.name)
        outcomes = keeper.commit([Refer(each.kept.facts.key) for each in doubled])
        return [each for each, outcome in zip(doubled, outcomes, strict=True) if outcome.effect is Effect.COUNTED]

    def _release_unmerged(self, target: str, doubled: Sequence[Doubled], replaced: Container[BlockKey]) -> None:
        """Releases the references of those that did not become aliases."""
        keeper = self._store.writer(target)
        keys = [self._store.content_key(each.other.volume, each.other.facts.key) for each in doubled]
        left = []
        for each, there in zip(doubled, keeper.fetch([block_key(key, target) for key in keys]), strict=True):
            is_whole = there is not None and there.encoded.codec != ALIAS  # copied by an earlier migration
            if each.other.facts.key in replaced and not is_whole:
                self.merged += 1
            else:  # not merged, or deleted before
                left.append(Release(each.kept.facts.key))
        if left:
            keeper.commit(left)

    def _are_equal(self, *blocks: BlockLocation) -> bool:
        contents = set()
        for found in blocks:
            try:
                (block,) = found.volume.fetch([found.facts.key])
                if block is None or block.encoded.codec == ALIAS:
                    return False
                contents.add(self._store.encodings.decode(block, found.volume))
            except (Damaged, VolumeDown):
                return False
        return len(contents) == 1


def _by_keeper(doubled: Sequence[Doubled]) -> dict[str, list[Doubled]]:
    """Grouped by the volume whose block stays."""
    found: dict[str, list[Doubled]] = {}
    for each in doubled:
        found.setdefault(each.kept.volume.name, []).append(each)
    return found
