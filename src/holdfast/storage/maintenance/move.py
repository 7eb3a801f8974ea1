"""Moves blocks from one volume to others while clients read, store and delete (W8).

Contentkeys do not change: a block of v0 that moved to v1 stands there under its home, v0, and is found by it.

For each batch the order is: copy, durable, with a counter that marks the copy as moving (`MOVING`); remove the
original if its counter still is what was copied; give the copy its own counter. At any moment exactly one of the two
counts. If a client counted the original in between (CONFLICT), the copy is brought in line first; if the original was
deleted (MISSING), the copy goes too. A copy that a crash left beside its original has no effect, and is reused when
the migration is run again. A copy that a crash left without its original is the block: whoever needs to count it
gives it its counter (`BlockStore.finish_move`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.model import ContentKey
from holdfast.storage.codec import ALIAS
from holdfast.storage.store.delete import Deleter
from holdfast.storage.store.encoder import alias_target
from holdfast.storage.store.locate import BlockLocations
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockStore, block_key
from holdfast.storage.volume import MOVING, Adopt, Block, BlockKey, Effect, Encoded, Operation, Recount, Volume

GROUP_BLOCKS = 4096
GROUP_BYTES = 32 << 20
NOWHERE = ""  # target of a replica that is not needed

_NOTHING: Mapping[BlockKey, Encoded] = {}
Choose = Callable[[Block, BlockLocations], str | None]


@dataclass(slots=True)
class _Move:
    """A block that is being moved. `counter` is that of the copy; `copied` of it come from the original."""

    key: ContentKey
    block: Block
    held: BlockLocations
    target: str
    copied: int
    counter: int = 0
    made: bool = False  # this mover made the copy
    removed: bool = False  # and removed the original

    @property
    def place(self) -> BlockKey:
        return block_key(self.key, self.target)

    @property
    def replaces(self) -> bool:
        """Whether the copy takes the place of a replica."""
        there = self.held.at(self.target)
        return there is not None and there.facts.replica


class Mover:
    """Moves blocks out of one volume. For one thread; clients may do anything meanwhile."""

    def __init__(self, store: BlockStore, source: str, instead: Mapping[BlockKey, Encoded] = _NOTHING) -> None:
        """`instead` gives the form that some blocks are to have at their target."""
        self._store = store
        self._replicator = Replicator(store)
        self._deleter = Deleter(store, self._replicator)
        self._source = store.writer(source)
        self._instead = instead
        self.replaced: set[BlockKey] = set()  # blocks of which only the copy is left
        self._failed: dict[str, HoldfastError] = {}  # targets, during one move

    def move(self, keys: Sequence[BlockKey], choose: Choose) -> tuple[int, int]:
        """Moves the blocks to where `choose` says; returns how many have left, and their bytes. Durable on return.

        If `choose` returns None, a block stays. A target that fails gets nothing for a while, and `choose` is called
        again; if it returns the same target, the error is raised.
        """
        left = left_bytes = 0
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
            left += len(gone)
            left_bytes += sum(len(move.block.encoded.data) for move in gone)
            done |= {move.block.key for move in gone}
            waiting = [block.key for block in blocks if block.key not in done]
        return left, left_bytes

    def _await_propagation(self, copied: Sequence[_Move]) -> None:
        """Other processes learn from the target that it may hold these contents, before the originals go.

        Else, if this process ended before it has put the copies in force, they might give the keys to new blocks.
        """
        if any(move.made and self._store.is_shared(move.target) for move in copied):
            self._store.env.sleep(2 * self._store.settings.remote.follow_s)

    def _release_aliased(self, gone: Sequence[_Move]) -> None:
        """An alias has taken its content along: the block that it stood for has one reference less."""
        aliases = [move.block for move in gone if move.removed and move.block.encoded.codec == ALIAS]
        if aliases:
            self._deleter.delete([alias_target(block, self._source) for block in aliases])

    def _plan(self, blocks: Sequence[Block], choose: Choose) -> tuple[list[_Move], set[BlockKey]]:
        """What goes where, and what stays."""
        keys = [self._store.content_key(self._source, block.key) for block in blocks]
        moves, stay = [], set()
        for key, block, held in zip(keys, blocks, self._store.find_batch(keys), strict=True):
            if block.references >= MOVING and self._store.finish_move(held):
                continue  # it is the block now; the next round sees it
            target = choose(block, held) if block.references < MOVING else None  # its own mover finishes it
            if target in (None, self._source.name) or self._is_wrong_way(held, target):
                stay.add(block.key)
            elif target in self._failed:
                raise self._failed[target]
            elif self._is_joined(block, held, target):
                moves.append(_Move(key, block, held, target, block.references))
        return moves, stay

    def _is_joined(self, block: Block, held: BlockLocations, target: str) -> bool:
        """Whether the block may go there. If there is one already, they join, but only if both are surely there.

        What looks like a second block may be this one, which somebody else has moved in between.
        """
        if block.replica or all(found.volume.name != target for found in held.counted):
            return True
        (again,) = self._store.find_batch([held.key])
        here = again.at(self._source.name)
        return here is not None and here in again.counted and here.facts.references == block.references

    def _is_wrong_way(self, held: BlockLocations, target: str) -> bool:
        """Two blocks under one key join in the first of them: if they went both ways, they would count each other."""
        names = [found.volume.name for found in held.counted]
        if target not in names:
            return False
        there, here = held.at(target), held.at(self._source.name)
        unlike = there is not None and here is not None and there.facts.size != here.facts.size
        return unlike or self._source.name in names[: names.index(target)]

    def _still_there(self, moves: Sequence[_Move]) -> list[_Move]:
        """Those whose block was not deleted since it was read: a copy of another would bring it back."""
        found = self._source.probe([move.block.key.signature for move in moves])
        return [
            move
            for move, there in zip(moves, found, strict=True)
            if any(facts.key == move.block.key for facts in there)
        ]

    # -- copying ----------------------------------------------------------------------------------------------------

    def _copy(self, moves: Sequence[_Move]) -> list[_Move]:
        """Makes the copies; returns those whose original may go now."""
        self._clear(moves)
        by_target: dict[str, list[_Move]] = {}
        ready = []
        for move in moves:
            if move.target == NOWHERE:
                ready.append(move)
            else:
                by_target.setdefault(move.target, []).append(move)
        responses = self._store.fan_out.each(list(by_target), lambda name: self._copy_to(name, by_target[name]))
        for copied in responses.results.values():
            ready += copied
        for name, error in responses.failed.items():
            self._store.back_off(name, error)
            self._failed[name] = error
        return ready

    def _clear(self, moves: Sequence[_Move]) -> None:
        """Removes copies that earlier migrations left elsewhere: once the original is gone, there must be one only."""
        removals: dict[str, list[Operation]] = {}
        for move in moves:
            for found in move.held.moving if move.held.counted and not move.block.replica else ():
                if found.volume.name != move.target:
                    gone = Recount(found.facts.key, 0, found.facts.references, replica=False)
                    removals.setdefault(found.volume.name, []).append(gone)
        responses = self._store.fan_out.each(
            list(removals), lambda name: self._store.writer(name).commit(removals[name])
        )
        for error in responses.failed.values():
            raise error

    def _copy_to(self, name: str, moves: Sequence[_Move]) -> list[_Move]:
        target = self._store.writer(name)
        outcomes = target.commit([self._copying(move, target) for move in moves])
        ready = []
        for move, outcome in zip(moves, outcomes, strict=True):
            move.made = outcome.effect is Effect.NEW
            self._store.note(move.key.signature, name)  # also if others were faster: then it is there
            if outcome.effect in (Effect.NEW, Effect.COUNTED) or move.block.replica:
                move.counter = outcome.references
                ready.append(move)
        return ready

    def _copying(self, move: _Move, target: Volume) -> Operation:
        """Puts the copy into the target, or brings the one that is there in line."""
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
        """Removes the originals and puts the copies in force; returns those that are done."""
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
        """The original was counted: the copy accounts for that before the original goes."""
        if not self._adjust(move, references - move.copied) and move.counter >= MOVING:  # a deleter took it away
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

        for name, error in self._store.fan_out.each(list(by_target), put).failed.items():
            self._store.back_off(name, error)  # the copies have no original now, which will put them in force
            self._failed[name] = error

    def _adopt_again(self, move: _Move) -> None:
        """The copy has vanished: another process has moved it on already, or removed it as a leftover."""
        (held,) = self._store.find_batch([move.key], everywhere=True)
        if not held.counted:
            target = self._store.writer(move.target)
            encoded = self._portable(move, target)
            target.commit([Adopt(move.place, encoded, move.copied, replica=False, expected=0)])

    def _adjust(self, move: _Move, change: int) -> bool:
        """Changes the counter of the copy by so much, also if others count it meanwhile; False if it is gone.

        A copy without references goes.
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
                return True  # somebody has put it in force
            move.counter = outcome.references


def grouped(batches: Iterable[list[Block]]) -> Iterator[list[Block]]:
    """Larger batches: each that is moved to another machine waits until others know of it."""
    group: list[Block] = []
    size = 0
    for batch in batches:
        group += batch
        size += sum(len(block.encoded.data) for block in batch)
        if len(group) >= GROUP_BLOCKS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
