"""Migration: a volume's blocks move to other volumes while reads, stores and deletes go on (W8).

Contentkeys do not change: a block of v0 that moved to v1 stands there under its home, v0, and is found by it.
For each batch the order is: copy, durable; then remove the originals. Nobody counts meanwhile (`gate`), so a crash in
between leaves two blocks with one counter. The original's is in force while it exists; the copy is replaced when the
migration is run again, which resumes it, and removed when the content is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.storage.instance import Instance
from holdfast.storage.replicas import Replicator
from holdfast.storage.volume import Adopt, Block, BlockKey, Recount, Volume

Progress = Callable[[int], None]
_NOWHERE = ""


@dataclass(frozen=True, slots=True)
class Migration:
    """What was moved."""

    blocks: int
    bytes: int


class Migrator:
    """Moves everything out of one volume, which takes no new contents meanwhile."""

    def __init__(self, instance: Instance, source: str, targets: Sequence[str]) -> None:
        self._instance = instance
        self._replicator = Replicator(instance)
        self._source = instance.writer(source)
        self._allowed = list(targets)
        for name in self._allowed:
            instance.chosen(name)
        if source in self._allowed:
            raise UsageError(f"volume {source!r} cannot be migrated to itself")
        if not self._allowed and not [name for name in instance.places(b"\0") if name != source]:
            raise UsageError(f"volume {source!r} cannot be migrated: no other volume is writable")

    def run(self, progress: Progress | None = None) -> Migration:
        """Moves until nothing is left. Durable on return."""
        moved = moved_bytes = 0
        for batch in self._source.scan():
            with self._instance.gate.moving():
                self._move_batch(self._source.fetch([block.key for block in batch]))
            moved += len(batch)
            size = sum(len(block.encoded.data) for block in batch)
            moved_bytes += size
            if progress is not None:
                progress(size)
        return Migration(moved, moved_bytes)

    def _move_batch(self, batch: Sequence[Block | None]) -> None:
        """The blocks as they are now; those that were deleted since the scan are None."""
        by_target: dict[str, list[Block]] = {}
        for block in batch:
            if block is not None:
                by_target.setdefault(self._target(block), []).append(block)
        for name, blocks in by_target.items():
            if name != _NOWHERE:
                self._copy(name, blocks)
            self._source.commit([Recount(block.key, 0) for block in blocks])

    def _copy(self, name: str, blocks: list[Block]) -> None:
        target = self._instance.writer(name)
        adopted = [
            Adopt(
                self._key_in(target, block),
                self._replicator.portable(block, self._source, target),
                block.references,
                block.replica,
            )
            for block in blocks
        ]
        target.commit(adopted)
        for block in blocks:
            self._instance.note(block.key.signature, name)

    def _key_in(self, target: Volume, block: Block) -> BlockKey:
        key = self._instance.content_key(self._source, block.key)
        return BlockKey(key.signature, key.overflow, b"" if target.name == key.volume else key.volume.encode())

    def _target(self, block: Block) -> str:
        """The volume to move a block to; nowhere for a replica of a content that all others hold already."""
        key = self._instance.content_key(self._source, block.key)
        places = self._allowed or [name for name in self._instance.places(key.signature) if name != self._source.name]
        holders = {found.volume.name for found in self._instance.find(key)}
        free = [name for name in places if name not in holders]
        if block.replica:
            return free[0] if free else _NOWHERE
        return (free or places)[0]
