"""Migration: a volume's blocks move to other volumes while reads, stores and deletes go on (W8).

Contentkeys do not change: a block of v0 that moved to v1 stands there under its home, v0, and is found by it.
For each block the order is: copy, durable; then remove the original, on condition that its counter is still the one
that was copied. At any moment at least one of the two has the right counter, and the original's is in force while it
exists. A crash in between leaves a copy that the next run brings up to date; running the command again resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.storage.instance import Instance
from holdfast.storage.replicas import Replicator
from holdfast.storage.volume import Adopt, Block, BlockKey, Effect, Outcome, Recount, Volume

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
            by_target: dict[str, list[Block]] = {}
            for block in batch:
                by_target.setdefault(self._target(block), []).append(block)
            for name, blocks in by_target.items():
                self._move(name, blocks)
            moved += len(batch)
            size = sum(len(block.encoded.data) for block in batch)
            moved_bytes += size
            if progress is not None:
                progress(size)
        return Migration(moved, moved_bytes)

    def _move(self, name: str, blocks: list[Block]) -> None:
        if name == _NOWHERE:
            self._source.commit([Recount(block.key, 0) for block in blocks])
            return
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
        removals = self._source.commit([Recount(block.key, 0, expected=block.references) for block in blocks])
        for block, removed in zip(blocks, removals, strict=True):
            if removed.effect is not Effect.REMOVED:
                self._insist(target, block, removed)

    def _insist(self, target: Volume, block: Block, removed: Outcome) -> None:
        """The counter changed between copy and removal: the copy follows, until the removal succeeds."""
        key = self._key_in(target, block)
        while removed.effect is Effect.CONFLICT:
            target.commit([Recount(key, removed.references)])
            (removed,) = self._source.commit([Recount(block.key, 0, expected=removed.references)])
        if removed.effect is Effect.MISSING:  # deleted meanwhile, to the last reference
            target.commit([Recount(key, 0)])

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
