"""Migration: decides which blocks move where, while clients read, store and delete (W8, B8); `move` moves them.

- *Migration* moves everything out of one volume.
- *Rebalancing* moves blocks to where placement puts them after a volume was added. Under weighted placement only the
  new volume's share moves; under `mod` nearly everything does. Read-only volumes are skipped. Blocks for a volume that
  is down wait for the next run.
- *Transfer* moves the contents of the update volumes to the read volumes, in the order of signatures, so that a hash
  volume gets all blocks of a bucket together.

Contentkeys stay valid. Each can be interrupted and run again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from holdfast.errors import UsageError
from holdfast.storage import placement
from holdfast.storage.maintenance.move import GROUP_BLOCKS, NOWHERE, Mover
from holdfast.storage.store.store import BlockLocations, BlockStore
from holdfast.storage.volume import FAILURES, Block, BlockFacts, BlockKey, ReadableVolume
from holdfast.storage.volumes.damage import CheckProgress

log = logging.getLogger("holdfast.storage")

Progress = Callable[[int], None]
_SORTED_AT_ONCE = 1 << 20  # signatures, about 80 MiB
_PREFIX = 2  # bytes of a signature by which they are counted


@dataclass(frozen=True, slots=True)
class Migration:
    """What was moved."""

    blocks: int
    bytes: int


class Migrator:
    """Moves everything out of one volume, which accepts no new contents meanwhile."""

    def __init__(self, store: BlockStore, source: str, targets: Sequence[str]) -> None:
        self._store = store
        self._source = store.writer(source)
        self._allowed = list(targets)
        for name in self._allowed:
            store.chosen(name)
        if source in self._allowed:
            raise UsageError(f"volume {source!r} cannot be migrated to itself")
        if not self._allowed and not [name for name in store.places(b"\0", source) if name != source]:
            raise UsageError(f"volume {source!r} cannot be migrated: no other volume is writable")

    def run(self, progress: Progress | None = None) -> Migration:
        """Moves until nothing is left. Durable on return."""
        mover = Mover(self._store, self._source.name)
        blocks = (block for batch in self._source.scan(counted=False) for block in batch)
        mover.move_all(((block.key, len(block.encoded.data)) for block in blocks), self._target, progress)
        return Migration(mover.blocks, mover.bytes)

    def _target(self, block: Block, held: BlockLocations) -> str:
        own = self._source.name
        places = self._allowed or [name for name in self._store.places(held.key.signature, own) if name != own]
        return target_of(block, held, places)


def target_of(block: Block, held: BlockLocations, places: Sequence[str]) -> str:
    """The volume to move a block to; NOWHERE for a replica of a content that all of them hold."""
    begun = [found.volume.name for found in held.moving if found.volume.name in places]
    if begun and not block.replica:
        return begun[0]  # an earlier run copied it there
    free = [name for name in places if name not in held.names]
    if block.replica:
        return free[0] if free else NOWHERE
    return (free or places)[0]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What was done."""

    blocks: int  # examined
    moved: int
    bytes: int  # moved, as stored
    down: list[str]  # volumes from which not everything was moved


class Rebalancer:
    """Moves blocks to where placement would put them now. For one thread; clients may continue."""

    def __init__(self, store: BlockStore, rate_bytes_s: int | None = None) -> None:
        self._store = store
        self._rate_bytes_s = rate_bytes_s
        self._copies = store.settings.store.replicas

    def run(self, progress: Progress | None = None) -> Rebalance:
        """Examines every block of the writable volumes that are up. Durable on return."""
        watch = CheckProgress(progress, self._rate_bytes_s, self._store.env)
        movers: list[Mover] = []
        down: list[str] = []
        for volume in placement.writable(self._store.settings):
            try:
                movers.append(Mover(self._store, volume.name))
                movers[-1].move_all(self._misplaced(volume.name, watch), partial(self._target, volume.name))
            except FAILURES as error:
                log.warning("not all blocks of volume %r were moved: %s", volume.name, error)
                down.append(volume.name)
        return Rebalance(watch.blocks, *_moved_by(movers), down)

    def _misplaced(self, name: str, watch: CheckProgress) -> Iterator[tuple[BlockKey, int]]:
        """The blocks of a volume that belong elsewhere, with their sizes."""
        for batch in self._store.volume(name).scan(counted=False):
            watch.blocks += len(batch)
            watch.read(sum(len(block.encoded.data) for block in batch))
            for block in batch:
                if name not in self._belongs(name, block):
                    yield block.key, len(block.encoded.data)

    def _belongs(self, name: str, block: Block) -> list[str]:
        """The volumes where a block, or a replica, belongs."""
        return self._store.placement(block.key.signature, name)[: self._copies if block.replica else 1]

    def _target(self, name: str, block: Block, held: BlockLocations) -> str | None:
        """Where the block belongs; None if it must stay."""
        up = [name for name in self._belongs(name, block) if self._store.is_accepting(name)]
        if block.replica:
            up = [name for name in up if name not in held.names]
        return up[0] if up else None


class Transfer:
    """For one thread; clients may continue. What they store may wait for the next transfer."""

    def __init__(self, store: BlockStore, signatures_max: int = _SORTED_AT_ONCE) -> None:
        """Raises UsageError if no volume can take blocks, VolumeDown if a source is down."""
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

        With `resumed`, also finishes the moves of an interrupted transfer: no block stays moving. For that it reads the
        tables of the read volumes, not their blocks.
        """
        movers = [Mover(self._store, name) for name in self._sources]
        for name, mover in zip(self._sources, movers, strict=True):
            found = self._sorted(self._store.volume(name))
            mover.move_all(((facts.key, facts.stored) for facts in found), self._target, progress)
        if resumed:
            self._finish_moves()
        return Migration(*_moved_by(movers))

    def _finish_moves(self) -> None:
        for each in placement.for_moved(self._store.settings):
            volume = self._store.volume(each.name)
            signatures = volume.signatures()
            while some := list(islice(signatures, GROUP_BLOCKS)):
                moving = [facts.key for found in volume.probe(some) for facts in found if facts.moving]
                for held in self._store.find_batch([self._store.content_key(volume, key) for key in moving]):
                    self._store.finish_move(held)

    def _target(self, block: Block, held: BlockLocations) -> str:
        return target_of(block, held, self._store.places(block.key.signature, self._beside))

    def _sorted(self, volume: ReadableVolume) -> Iterator[BlockFacts]:
        """The facts of each block, by signature. Memory does not grow with their number."""
        counts = Counter(signature[:_PREFIX] for signature in volume.signatures())
        for first, last in _ranges(counts, self._signatures_max):
            found = sorted(each for each in volume.signatures() if first <= each[:_PREFIX] <= last)
            for start in range(0, len(found), GROUP_BLOCKS):
                for facts in volume.probe(found[start : start + GROUP_BLOCKS]):
                    yield from facts


def _moved_by(movers: Sequence[Mover]) -> tuple[int, int]:
    """Blocks and bytes."""
    return sum(mover.blocks for mover in movers), sum(mover.bytes for mover in movers)


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
