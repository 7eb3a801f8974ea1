"""Rebalancing: after a volume was added, blocks move to where a new content of theirs would be placed now (W6, W8).

Under weighted placement only what the new volume wins moves; under `mod` nearly everything does. Contentkeys stay
valid, and clients go on meanwhile (see `move`). Read-only volumes are left alone: nothing goes there, and emptying one
is a migration. What must go to a volume that is down stays for the next run. It can be interrupted and run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from holdfast.model import VolumeState
from holdfast.storage.maintenance.move import Mover, grouped
from holdfast.storage.store.fan_out import FAILURES
from holdfast.storage.store.locate import BlockLocations
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Block
from holdfast.storage.volumes.faults import CheckProgress

log = logging.getLogger("holdfast.storage")

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What was done."""

    blocks: int  # looked at
    moved: int
    bytes: int  # moved, as stored
    down: list[str]  # volumes out of which nothing was moved, or not all


class Rebalancer:
    """For one thread; clients may go on meanwhile."""

    def __init__(self, store: BlockStore, rate_bytes_s: int | None = None) -> None:
        self._store = store
        self._rate_bytes_s = rate_bytes_s
        self._copies = store.settings.store.replicas

    def run(self, progress: Progress | None = None) -> Rebalance:
        """Looks at every block of the writable volumes that are up. Durable on return."""
        watch = CheckProgress(progress, self._rate_bytes_s, self._store.env)
        moved = moved_bytes = 0
        down: list[str] = []
        for settings in self._store.settings.volume:
            name = settings.name
            if settings.state is not VolumeState.WRITABLE:
                continue
            try:
                mover = Mover(self._store, name)
                target = partial(self._target, name)
                for batch in grouped(self._misplaced(name, watch)):
                    count, size = mover.move([block.key for block in batch], target)
                    moved, moved_bytes = moved + count, moved_bytes + size
            except FAILURES as error:
                log.warning("not all blocks of volume %r were moved: %s", name, error)
                down.append(name)
        return Rebalance(watch.blocks, moved, moved_bytes, down)

    def _misplaced(self, name: str, watch: CheckProgress) -> Iterator[list[Block]]:
        """The blocks of a volume that belong elsewhere; they may lie far apart, and are moved together."""
        for batch in self._store.volume(name).scan(counted=False):
            watch.blocks += len(batch)
            watch.read(sum(len(block.encoded.data) for block in batch))
            yield [block for block in batch if name not in self._belongs(name, block)]

    def _belongs(self, name: str, block: Block) -> list[str]:
        """The volumes that a block of a volume should stand in one of, or a replica."""
        return self._store.placement(block.key.signature, name)[: self._copies if block.replica else 1]

    def _target(self, name: str, block: Block, held: BlockLocations) -> str | None:
        """Where the block belongs; None, if it must stay where it is."""
        belongs = self._belongs(name, block)
        up = [name for name in belongs if self._store.is_accepting(name)]
        if block.replica:
            up = [name for name in up if name not in held.names]
        return up[0] if up else None
