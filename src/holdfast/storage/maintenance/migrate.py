"""Migration: a volume's blocks move to other volumes while reads, stores and deletes go on (W8); see `move`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.storage.maintenance.move import NOWHERE, Mover, grouped
from holdfast.storage.store.locate import BlockLocations
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Block

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Migration:
    """What was moved."""

    blocks: int
    bytes: int


class Migrator:
    """Moves everything out of one volume, which takes no new contents meanwhile."""

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
        """Moves until nothing is left. Can be run again after an interruption. Durable on return."""
        blocks = total = 0
        mover = Mover(self._store, self._source.name)
        for batch in grouped(self._source.scan(counted=False)):
            moved, size = mover.move([block.key for block in batch], self._target)
            blocks += moved
            total += size
            if progress is not None:
                progress(sum(len(block.encoded.data) for block in batch))
        return Migration(blocks, total)

    def _target(self, block: Block, held: BlockLocations) -> str:
        own = self._source.name
        return target_of(
            block,
            held,
            self._allowed or [name for name in self._store.places(held.key.signature, own) if name != own],
        )


def target_of(block: Block, held: BlockLocations, places: Sequence[str]) -> str:
    """Which of the volumes to move a block to; nowhere for a replica of a content that all of them hold already."""
    begun = [found.volume.name for found in held.moving if found.volume.name in places]
    if begun and not block.replica:
        return begun[0]  # an earlier run has brought a copy there
    free = [name for name in places if name not in held.names]
    if block.replica:
        return free[0] if free else NOWHERE
    return (free or places)[0]
