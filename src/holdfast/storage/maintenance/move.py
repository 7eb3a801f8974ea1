"""Moves blocks from one volume to others while clients read, store and delete (W8).

Contentkeys do not change: a block of v0 that moved to v1 has home v0 there, and is found by it.

For each batch the order is: copy, durably, with a counter that marks the copy as moving (`MOVING`); remove the original
if its counter has not changed; activate the copy by giving it its own counter. At any moment exactly one of the two is
valid. If a client counted the original in between (CONFLICT), the copy is adjusted first; if it deleted the original
(MISSING), the copy is removed too. A copy that a crash left beside its original has no effect; the next run uses it. A
copy that a crash left without its original is the block: the next client to count it activates it
(`BlockStore.finish_move`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.model import ContentKey
from holdfast.storage.codec import ALIAS
from holdfast.storage.store.delete import Deleter
from holdfast.storage.store.encoder import alias_target
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocations, BlockStore, block_key
from holdfast.storage.volume import MOVING, Adopt, Block, BlockKey, Effect, Encoded, Operation, Recount, Volume

GROUP_BLOCKS = 4096
GROUP_BYTES = 32 << 20
NOWHERE = ""  # target of a replica that is not needed

_NOTHING: Mapping[BlockKey, Encoded] = {}
Choose = Callable[[Block, BlockLocations], str | None]


@dataclass(slots=True)
class _Move:
    """A block that is being moved. `counter` is the copy's; `copied` is the part from the original."""

    key: ContentKey
    block: Block
    held: BlockLocations
    target: str
    copied: int
    counter: int = 0
    made: bool = False  # this mover made the copy
    removed: bool = False  # this mover removed the original

    @property
    def place(self) -> BlockKey:
        return block_key(self.key, self.target)

    @property
    def replaces(self) -> bool:
        """True if the copy replaces a replica."""
        there = self.held.at(self.target)
        return there is not None and there.facts.replica


class Mover:
    """Moves blocks out of one volume. For one thread; clients may continue."""

    def __init__(self, store: BlockStore, source: str, instead: Mapping[BlockKey, Encoded] = _NOTHING) -> None:
        """`instead`: the form that some blocks get at their target."""
        self._store = store
        self._replicator = Replicator(store)
        self._deleter = Deleter(store, self._replicator)
        self._source = store.writer(source)
        self._instead = instead
        self.blocks = self.bytes = 0  # moved
        self.replaced: set[BlockKey] = set()  # blocks whose original was removed
        self._failed: dict[str, HoldfastError] = {}  # targets, during one move

    def move_all(
        self, sized: Iterable[tuple[BlockKey, int]], choose: Choose, progress: Callable[[int], None] | None = None
    ) -> None:
        """Moves blocks, given with their bytes, in groups."""
        for keys, size in _grouped(sized):
            self.move(keys, choose)
            if progress is not None:
                progress(size)

    def move(self, keys: Sequence[BlockKey], choose: Choose) -> None:
        """Moves the blocks to the volumes that `choose` returns. Durable on return.

        If `choose` returns None, a block stays. After a target fails, `choose` is called again; if it returns the same
        target, the error is raised.
        """
        waiting = list(keys)
        self._failed.clear()
        while waiting:
            blocks = [block for block in self._source.fetch(waiting) if block is not None]
            moves, done = self._plan(blocks, choose)
            with self._store.move_lock.copying([move.key for move in moves]):
                copied = self._copy(self._still_there(moves))
            self._await_propagation(copied)
            with self._store.move_lock.moving():
                gone = self._switch(copied)
            self._release_aliased(gone)
            self._replicator.follow_undeleted(
                [move.key for move in copied if move.block.replica or move.replaces],
                self._store.settings.store.replicas,
            )
            self.blocks += len(gone)
            self.bytes += sum(len(move.block.encoded.data) for move in gone)
            done |= {move.block.key for move in gone}
            waiting = [block.key for block in blocks if block.key not in done]

    def _await_propagation(self, copied: Sequence[_Move]) -> None:
        """Waits until other processes know that the target may hold these contents.

        Otherwise, if this process died before it activated the copies, they might assign the keys to new blocks.
        """
        if any(move.made and self._store.is_shared(move.target) for move in copied):
            self._store.env.sleep(2 * self._store.settings.remote.follow_s)

    def _release_aliased(self, gone: Sequence[_Move]) -> None:
        """Releases the reference of each alias that moved: its copy has the content."""
        aliases = [move.block for move in gone if move.removed and move.block.encoded.codec == ALIAS]
        if aliases:
            self._deleter.delete([alias_target(block, self._source) for block in aliases])

    def _plan(self, blocks: Sequence[Block], choose: Choose) -> tuple[list[_Move], set[BlockKey]]:
        """The moves, and the blocks that stay."""
        keys = [self._store.content_key(self._source, block.key) for block in blocks]
        moves, stay = [], set()
        for key, block, held in zip(keys, blocks, self._store.find_batch(keys), strict=True):
            if block.references >= MOVING and self._store.finish_move(held):
                continue  # now an ordinary block: for the next round
            target = choose(block, held) if block.references < MOVING else None  # its own mover finishes it
            if target in (None, self._source.name) or self._is_wrong_way(held, target):
                stay.add(block.key)
            elif target in self._failed:
                raise self._failed[target]
            elif self._is_joined(block, held, target):
                moves.append(_Move(key, block, held, target, block.references))
        return moves, stay

    def _is_joined(self, block: Block, held: BlockLocations, target: str) -> bool:
        """True if the block may move there. Two blocks under one key join, if both certainly exist.

        An apparent second block may be this one, moved by another process in between.
        """
        if block.replica or all(found.volume.name != target for found in held.counted):
            return True
        (again,) = self._store.find_batch([held.key])
        here = again.at(self._source.name)
        return here is not None and here in again.counted and here.facts.references == block.references

    def _is_wrong_way(self, held: BlockLocations, target: str) -> bool:
        """True if two blocks under one key would join in the wrong one. They join in the first, never both ways."""
        names = [found.volume.name for found in held.counted]
        if target not in names:
            return False
        there, here = held.at(target), held.at(self._source.name)
        unlike = there is not None and here is not None and there.facts.size != here.facts.size
        return unlike or self._source.name in names[: names.index(target)]

    def _still_there(self, moves: Sequence[_Move]) -> list[_Move]:
        """The moves whose block was not deleted since it was read: a copy would bring it back."""
        found = self._source.probe([move.block.key.signature for move in moves])
        return [
            move
            for move, there in zip(moves, found, strict=True)
            if any(facts.key == move.block.key for facts in there)
        ]

    # -- copying ----------------------------------------------------------------------------------------------------

    def _copy(self, moves: Sequence[_Move]) -> list[_Move]:
        """Makes the copies; returns the moves whose original may be removed."""
        self._clear(moves)
        by_target: dict[str, list[_Move]] = {}
        ready = []
        for move in moves:
            if move.target == NOWHERE:
                ready.append(move)
            else:
                by_target.setdefault(move.target, []).append(move)
        responses = self._store.each(list(by_target), lambda name: self._copy_to(name, by_target[name]))
        for copied in responses.results.values():
            ready += copied
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            self._failed[name] = error
        return ready

    def _clear(self, moves: Sequence[_Move]) -> None:
        """Removes copies that earlier migrations left elsewhere: without the original there must be one only."""
        removals: dict[str, list[tuple[_Move, Operation]]] = {}
        for move in moves:
            for found in move.held.moving if move.held.counted and not move.block.replica else ():
                if found.volume.name != move.target:
                    gone = Recount(found.facts.key, 0, found.facts.references, replica=False)
                    removals.setdefault(found.volume.name, []).append((move, gone))
        for error in self._store.commit_each(removals).failed.values():
            raise error

    def _copy_to(self, name: str, moves: Sequence[_Move]) -> list[_Move]:
        target = self._store.writer(name)
        outcomes = target.commit([self._copying(move, target) for move in moves])
        ready = []
        for move, outcome in zip(moves, outcomes, strict=True):
            move.made = outcome.effect is Effect.NEW
            self._store.note([move.key.signature], name)  # also if another process was faster
            if outcome.effect in (Effect.NEW, Effect.COUNTED) or move.block.replica:
                move.counter = outcome.references
                ready.append(move)
        return ready

    def _copying(self, move: _Move, target: Volume) -> Operation:
        """The operation that makes the copy, or adjusts an existing one."""
        there, references = move.held.at(move.target), move.block.references
        if move.block.replica:
            return Adopt(move.place, self._portable(move, target), references, replica=True, expected=0)
        if there is None or there.facts.replica:
            seen = there.facts.references if there is not None else 0
            encoded = self._portable(move, target)
            return Adopt(move.place, encoded, MOVING + references, replica=False, expected=seen)
        seen = there.facts.references
        if there.facts.moving:
            return Recount(move.place, MOVING + references, seen, replica=False)
        return Recount(move.place, seen + references, seen, replica=False)  # a second block under the key: they join

    def _portable(self, move: _Move, target: Volume) -> Encoded:
        instead = self._instead.get(move.block.key)
        return instead if instead is not None else self._replicator.portable(move.block, self._source, target)

    # -- switching --------------------------------------------------------------------------------------------------

    def _switch(self, moves: Sequence[_Move]) -> list[_Move]:
        """Removes the originals and activates the copies; returns the finished moves."""
        gone, ready, waiting = list[_Move](), list[_Move](), list(moves)
        while waiting:
            outcomes = self._source.commit(
                [Recount(move.block.key, 0, move.copied, replica=move.block.replica) for move in waiting]
            )
            again = []
            for move, outcome in zip(waiting, outcomes, strict=True):
                real = move.target != NOWHERE and not move.block.replica
                if outcome.effect is Effect.CONFLICT:  # counted meanwhile
                    if real:
                        self._adjust_copy(move, outcome.references)
                    move.copied = outcome.references
                    again.append(move)
                    continue
                gone.append(move)
                move.removed = outcome.effect is Effect.REMOVED
                if real and move.removed:
                    ready.append(move)
                    self.replaced.add(move.block.key)
                elif real and (move.made or move.counter < MOVING):  # deleted meanwhile
                    self._adjust(move, -move.copied)
            waiting = again
        self._activate(ready)
        return gone

    def _adjust_copy(self, move: _Move, references: int) -> None:
        """Adjusts the copy to a changed counter of the original."""
        if not self._adjust(move, references - move.copied) and move.counter >= MOVING:  # removed by a deleter
            target = self._store.writer(move.target)
            move.counter = MOVING + references
            target.commit([Adopt(move.place, self._portable(move, target), move.counter, replica=False, expected=0)])

    def _activate(self, moves: Sequence[_Move]) -> None:
        by_target: dict[str, list[_Move]] = {}
        for move in moves:
            if move.counter >= MOVING:
                by_target.setdefault(move.target, []).append(move)

        def put(name: str) -> None:
            moves = by_target[name]
            counts = [Recount(move.place, move.counter - MOVING, move.counter, replica=False) for move in moves]
            outcomes = self._store.writer(name).commit(counts)
            for move, outcome in zip(moves, outcomes, strict=True):
                if outcome.effect is Effect.MISSING:
                    self._adopt_again(move)
                elif outcome.effect is Effect.CONFLICT and outcome.references >= MOVING:
                    move.counter = outcome.references
                    self._adjust(move, -MOVING)

        for name, error in self._store.each(list(by_target), put).failed.items():
            self._store.back_off(name, error)  # without their originals, the copies will be activated by `finish_move`
            self._failed[name] = error

    def _adopt_again(self, move: _Move) -> None:
        """The copy is gone: another process moved it on, or removed it as a leftover."""
        (held,) = self._store.find_batch([move.key], everywhere=True)
        if not held.counted:
            target = self._store.writer(move.target)
            encoded = self._portable(move, target)
            target.commit([Adopt(move.place, encoded, move.copied, replica=False, expected=0)])

    def _adjust(self, move: _Move, change: int) -> bool:
        """Changes the counter of the copy, also while others count it; False if the copy is gone.

        A copy without references is removed.
        """
        target = self._store.writer(move.target)
        while True:
            wanted = move.counter + change
            counter = 0 if wanted in (0, MOVING) else wanted
            (outcome,) = target.commit([Recount(move.place, counter, move.counter, replica=False)])
            if outcome.effect is Effect.MISSING:
                return False
            if outcome.effect is not Effect.CONFLICT:
                move.counter = wanted
                return True
            if move.counter >= MOVING > outcome.references:
                return True  # already activated
            move.counter = outcome.references


def _grouped(sized: Iterable[tuple[BlockKey, int]]) -> Iterator[tuple[list[BlockKey], int]]:
    """Groups of blocks to move together, with their bytes: each group waits until other machines know it."""
    keys: list[BlockKey] = []
    total = 0
    for key, size in sized:
        keys.append(key)
        total += size
        if len(keys) >= GROUP_BLOCKS or total >= GROUP_BYTES:
            yield keys, total
            keys, total = [], 0
    if keys:
        yield keys, total
