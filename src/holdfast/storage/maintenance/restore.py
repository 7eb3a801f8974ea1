"""Brings the volumes of a store in line with each other, after one was down or lost.

Blocks that are gone from their volume come back from replicas, with their counters; missing replicas are made, older
counters follow; dictionaries that a volume lost come back from others. All of it in batches, beside clients that
store and delete: each change is made only if things still are as they were seen. It can be interrupted and run again,
and then finds little to do where it has been already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.errors import Damaged, HoldfastError, VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.codec import ZSTD_DICT
from holdfast.storage.maintenance.check import unfinished
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.store.fan_out import FAILURES
from holdfast.storage.store.locate import BlockLocation, BlockLocations
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockStore, block_key
from holdfast.storage.volume import MOVING, Adopt, Block, BlockKey, Effect, ReadableVolume, Recount

log = logging.getLogger("holdfast.storage")

GRACE_S = 5.0  # what others have begun is finished by then, or was abandoned
BATCH = 256
LOST_TOGETHER = 50_000  # lost blocks that are restored at a time

Progress = Callable[[int], None]


@dataclass(slots=True)
class Restoration:
    """What was done."""

    blocks: int = 0  # looked at
    restored: int = 0  # blocks that were gone, from replicas
    aligned: int = 0  # contents whose copies were too few, or had another counter
    dictionaries: int = 0
    lost: int = 0  # blocks that are gone, and no replica can be read
    down: list[str] = field(default_factory=list)  # volumes that were not looked at, or not to the end


class Restorer:
    """For one thread; clients may go on meanwhile. With `names`, only contents that concern those volumes."""

    def __init__(self, store: BlockStore, names: Sequence[str] = ()) -> None:
        self._store = store
        self._replicator = Replicator(store)
        self._names = frozenset(names)
        self._copies = min(store.settings.store.replicas, max(store.writable_count, 1))
        self._dictionaries: set[tuple[str, int]] = set()  # seen to be there
        self._lost: dict[ContentKey, None] = {}
        self._doubles: dict[str, list[BlockKey]] = {}  # by volume: blocks under a key that has another block
        self._leftovers: list[tuple[ContentKey, str, int]] = []  # copies on their way: volume and counter
        self.done = Restoration()

    def run(self, progress: Progress | None = None) -> Restoration:
        """Looks at every block of every volume that is up."""
        self.done.down = list(self._store.down)
        for name, volume in self._store.volumes.items():
            try:
                for batch in volume.scan():
                    self._look(volume, batch)
                    if progress is not None:
                        progress(sum(len(block.encoded.data) for block in batch))
                    if len(self._lost) >= LOST_TOGETHER:
                        self._restore_lost()
            except FAILURES as error:
                self._leave(name, error)
        self._restore_lost()
        self._join_doubles()
        self._remove_leftovers()
        return self.done

    def _look(self, volume: ReadableVolume, batch: Sequence[Block]) -> None:
        """Sees to some blocks of a volume, and to their copies."""
        known = {each.name for each in self._store.settings.volume}
        keyed = [(self._store.content_key(volume, block.key), block) for block in batch]
        keyed = [(key, block) for key, block in keyed if key.volume in known]
        wrong: list[ContentKey] = []
        self.done.blocks += len(batch)
        for block in batch:
            self._restore_dictionary(volume, block)
        locations = self._store.find_batch([key for key, _ in keyed])
        for (key, block), held in zip(keyed, locations, strict=True):
            if not self._concerns(held):
                continue
            if block.references >= MOVING:
                if self._store.finish_move(held):
                    wrong.append(key)
                else:
                    self._leftovers.append((key, volume.name, block.references))
            elif held.lost:
                self._lost[key] = None
            elif unfinished(self._store, volume, block, held):
                wrong.append(key)
                if not block.replica and held.counted[0].volume is not volume:
                    self._doubles.setdefault(volume.name, []).append(block.key)
        self.done.aligned += len(set(wrong))
        self._replicator.follow_undeleted(wrong, self._copies)

    def _concerns(self, held: BlockLocations) -> bool:
        if not self._names:
            return True
        name = held.blocks[0].volume.name if held.blocks else held.key.volume
        belongs = self._store.placement(held.key.signature, name)[: self._copies]
        return not self._names.isdisjoint({held.key.volume, *held.names, *belongs})

    # -- blocks that are gone -----------------------------------------------------------------------------------------

    def _restore_lost(self) -> None:
        """Puts blocks back where their keys lead.

        A replica without its block may be one that is about to be removed, or was made while the block was being
        deleted: so they are looked at again after a while, and nobody in this process counts meanwhile.
        """
        if self._lost:
            self._wait()
        keys = list(self._lost)
        self._lost.clear()
        for start in range(0, len(keys), BATCH):
            with self._store.move_lock.moving():
                locations = self._store.find_batch(keys[start : start + BATCH], everywhere=True)
                lost = [held for held in locations if held.lost and self._store.is_up(held.key.volume)]
                back = self._restore(lost)
            self._replicator.follow_undeleted(back, self._copies)  # of others, replicas are all that is left

    def _restore(self, lost: list[BlockLocations]) -> list[ContentKey]:
        """One fetch of each volume that has replicas, one commit to each that lost blocks. What is there again."""
        by_source: dict[str, list[BlockLocations]] = {}
        for held in lost:
            by_source.setdefault(held.replicas[0].volume.name, []).append(held)
        adopted: dict[str, list[tuple[ContentKey, Adopt]]] = {}
        back: list[ContentKey] = []
        for name, theirs in by_source.items():
            source = self._store.volume(name)
            for held, block in zip(theirs, self._fetched(source, theirs), strict=True):
                found = (block, source) if block is not None else self._sound(held.replicas[1:])
                if found is None:
                    self.done.lost += 1
                    log.error("content %s is lost: no replica can be read", held.key)
                else:
                    adopted.setdefault(held.key.volume, []).append((held.key, self._adoption(held, *found)))
        for home, adoptions in adopted.items():
            try:
                outcomes = self._store.writer(home).commit([adoption for _, adoption in adoptions])
            except FAILURES as error:  # others may take theirs
                self._store.back_off(home, error)
                self._leave(home, error)
                continue
            for (key, _), outcome in zip(adoptions, outcomes, strict=True):
                self._store.note(key.signature, home)
                self.done.restored += outcome.effect is Effect.NEW
                back.append(key)
        return back

    def _leave(self, name: str, error: HoldfastError) -> None:
        """The volume could not be brought in line, or not to the end."""
        log.warning("volume %r was not, or not completely, brought in line: %s", name, error)
        if name not in self.done.down:
            self.done.down.append(name)

    def _fetched(self, source: ReadableVolume, lost: list[BlockLocations]) -> list[Block | None]:
        try:
            return source.fetch([held.replicas[0].facts.key for held in lost])
        except (Damaged, VolumeDown):  # one by one, then
            found = [self._sound(held.replicas[:1]) for held in lost]
            return [each[0] if each is not None else None for each in found]

    def _adoption(self, held: BlockLocations, block: Block, source: ReadableVolume) -> Adopt:
        home = held.key.volume
        there = held.at(home)  # a replica may stand there, if the block had moved
        expected = there.facts.references if there is not None else 0
        references = max(replica.facts.references for replica in held.replicas)
        encoded = self._replicator.portable(block, source, self._store.writer(home))
        return Adopt(block_key(held.key, home), encoded, references, replica=False, expected=expected)

    def _sound(self, replicas: Sequence[BlockLocation]) -> tuple[Block, ReadableVolume] | None:
        for replica in replicas:
            try:
                (block,) = replica.volume.fetch([replica.facts.key])
            except (Damaged, VolumeDown):
                continue
            if block is not None:
                return block, replica.volume
        return None

    def _wait(self) -> None:
        """Where other processes may be at work, what they have begun is finished after this."""
        if any(self._store.is_shared(name) for name in self._store.volumes):
            self._store.env.sleep(GRACE_S)

    def _join_doubles(self) -> None:
        """Two blocks under one key, of clients that could not see each other's volume, become one."""
        for name, keys in self._doubles.items():
            Mover(self._store, name).move(keys, _to_the_first)
        self._doubles.clear()

    # -- copies that a migration did not live to put in force ---------------------------------------------------------

    def _remove_leftovers(self) -> None:
        """Removes them, if their block is there, and if nobody has moved them on in a while."""
        if not self._leftovers:
            return
        self._wait()
        locations = self._store.find_batch([key for key, _, _ in self._leftovers])
        for (key, name, references), held in zip(self._leftovers, locations, strict=True):
            if held.counted:
                gone = Recount(block_key(key, name), 0, references, replica=False)
                self._store.writer(name).commit([gone])
        self._replicator.follow_undeleted([key for key, _, _ in self._leftovers], self._copies)
        self._leftovers.clear()

    # -- dictionaries -------------------------------------------------------------------------------------------------

    def _restore_dictionary(self, volume: ReadableVolume, block: Block) -> None:
        """A volume can be read by itself: it has every dictionary that its blocks name."""
        number = block.encoded.dictionary
        if block.encoded.codec != ZSTD_DICT or (volume.name, number) in self._dictionaries:
            return
        self._dictionaries.add((volume.name, number))
        try:
            if volume.dictionary(number) is not None:
                return
        except Damaged:
            return  # for `check` to mend
        for other in self._store.volumes.values():
            if other is not volume and self._store.is_up(other.name):
                found = other.dictionary(number)
                if found is not None:
                    self._store.writer(volume.name).add_dictionary(*found)
                    self.done.dictionaries += 1
                    return


def _to_the_first(block: Block, held: BlockLocations) -> str | None:
    first = held.counted[0] if held.counted else None
    return first.volume.name if first is not None and not block.replica else None
