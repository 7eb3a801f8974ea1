"""Transfer: the contents of the update volumes move to the read volumes, in the order of signatures (B8).

The order is what a volume of organization hash wants: all that goes to one bucket comes together. Contentkeys stay
valid, and clients go on meanwhile (see `move`). It can be interrupted and run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from holdfast.errors import UsageError
from holdfast.storage import placement
from holdfast.storage.maintenance.migrate import Migration, target_of
from holdfast.storage.maintenance.move import GROUP_BLOCKS, GROUP_BYTES, Mover
from holdfast.storage.store.locate import BlockLocations
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Block, BlockFacts, BlockKey, ReadableVolume

Progress = Callable[[int], None]
_SORTED_AT_ONCE = 1 << 20  # signatures, about 80 MB
_PREFIX = 2  # bytes of a signature by which they are counted first


class Transfer:
    """For one thread; others may read, store and delete meanwhile. What they store may stay for the next time."""

    def __init__(self, store: BlockStore, signatures_max: int = _SORTED_AT_ONCE) -> None:
        """Raises UsageError if there is no volume to move to, VolumeDown if one to move from is down."""
        self._store = store
        self._signatures_max = signatures_max
        targets = placement.for_moved(store.settings)
        if not targets:
            raise UsageError("an update needs a writable read volume to move contents to: add one, or set one writable")
        self._beside = targets[0].name
        self._sources = [each.name for each in store.settings.volume if placement.is_update(store.settings, each)]
        for name in self._sources:
            store.writer(name).stat()

    def run(self, progress: Progress | None = None, *, resumed: bool = False) -> Migration:
        """Moves what the update volumes hold now. Durable on return.

        One that is `resumed` also finishes the moves that an interrupted one left behind: no block stays moving. For
        that it reads the tables of the read volumes, not their blocks.
        """
        blocks = total = 0
        for name in self._sources:
            mover = Mover(self._store, name)
            for keys in self._groups(self._store.volume(name)):
                moved, size = mover.move(keys, self._target)
                blocks, total = blocks + moved, total + size
                if progress is not None:
                    progress(size)
        if resumed:
            self._finish_moves()
        return Migration(blocks, total)

    def _finish_moves(self) -> None:
        for name in [each.name for each in placement.for_moved(self._store.settings)]:
            volume = self._store.volume(name)
            signatures = volume.signatures()
            while some := list(islice(signatures, GROUP_BLOCKS)):
                moving = [facts.key for found in volume.probe(some) for facts in found if facts.moving]
                for held in self._store.find_batch([self._store.content_key(volume, key) for key in moving]):
                    self._store.finish_move(held)

    def _target(self, block: Block, held: BlockLocations) -> str:
        return target_of(block, held, self._store.places(block.key.signature, self._beside))

    def _groups(self, volume: ReadableVolume) -> Iterator[list[BlockKey]]:
        """All blocks of a volume, sorted, in groups that are moved together."""
        group: list[BlockKey] = []
        size = 0
        for facts in self._sorted(volume):
            group.append(facts.key)
            size += facts.stored
            if len(group) >= GROUP_BLOCKS or size >= GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _sorted(self, volume: ReadableVolume) -> Iterator[BlockFacts]:
        """What is known of each block, by signature. Memory does not depend on how many there are."""
        counts = Counter(signature[:_PREFIX] for signature in volume.signatures())
        for first, last in _ranges(counts, self._signatures_max):
            found = sorted(each for each in volume.signatures() if first <= each[:_PREFIX] <= last)
            for start in range(0, len(found), GROUP_BLOCKS):
                for facts in volume.probe(found[start : start + GROUP_BLOCKS]):
                    yield from facts


def _ranges(counts: Counter[bytes], most: int) -> Iterator[tuple[bytes, bytes]]:
    """First and last prefix of ranges that hold about `most` signatures each."""
    prefixes: list[bytes] = []
    total = 0
    for prefix in sorted(counts):
        if prefixes and total + counts[prefix] > most:
            yield prefixes[0], prefixes[-1]
            prefixes, total = [], 0
        prefixes.append(prefix)
        total += counts[prefix]
    if prefixes:
        yield prefixes[0], prefixes[-1]
