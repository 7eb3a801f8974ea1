"""A seeded script of everything a volume can do, and a plain model that says what must be there after each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest

from holdfast.errors import UsageError
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    IdempotencyKey,
    Operation,
    OperationResult,
    ReadableVolume,
    Recount,
    Refer,
    Release,
    Store,
    Volume,
)
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.storage.volumes.organizations import compact_volume
from holdfast.testing.volumes import plain, sign


class Held(NamedTuple):
    """A block as the model knows it."""

    data: bytes
    references: int
    replica: bool


class State(NamedTuple):
    """All that a volume holds."""

    blocks: dict[BlockKey, Held]
    dictionaries: dict[int, bytes]


def after(state: State, operation: Operation) -> State:
    """The model's answer to an operation."""
    blocks = dict(state.blocks)
    match operation:
        case Store(signature, encoded):
            same = [
                key
                for key, held in blocks.items()
                if key.signature == signature and not key.home and not held.replica and len(held.data) == encoded.size
            ]
            if same and not operation.force_new:
                _count(blocks, same[0], +1)
            else:
                taken = [key.overflow + 1 for key in blocks if key.signature == signature and not key.home]
                blocks[BlockKey(signature, max([0, *taken]))] = Held(bytes(encoded.data), operation.references, False)
        case Refer(key) | Release(key):
            if key in blocks and not blocks[key].replica:  # replicas are not counted on
                _count(blocks, key, +1 if isinstance(operation, Refer) else -1)
        case Adopt(key, encoded, references, replica):
            blocks.pop(key, None)
            blocks[key] = Held(bytes(encoded.data), references, replica)
        case Recount(key, references):
            if key in blocks:
                _count(blocks, key, references - blocks[key].references)
    return State(blocks, state.dictionaries)


def _count(blocks: dict[BlockKey, Held], key: BlockKey, step: int) -> None:
    if key in blocks:
        held = blocks.pop(key)
        if held.references + step:
            blocks[key] = held._replace(references=held.references + step)


def found_in(volume: ReadableVolume) -> State:
    """What a volume holds, by scanning it and by asking for each block."""
    blocks: dict[BlockKey, Held] = {}
    for batch in volume.scan():
        for block in batch:
            assert block.key not in blocks, f"{block.key} was scanned twice"
            blocks[block.key] = Held(bytes(block.encoded.data), block.references, block.replica)
    for key, held in blocks.items():
        (block,) = volume.fetch([key])
        assert block is not None
        assert Held(bytes(block.encoded.data), block.references, block.replica) == held
    assert {key.signature for key in blocks} == set(volume.signatures())
    return State(blocks, {number: _dictionary(volume, number) for number in DICTIONARIES if volume.dictionary(number)})


def _dictionary(volume: ReadableVolume, number: int) -> bytes:
    found = volume.dictionary(number)
    assert found is not None
    return found[1]


def totals_of(state: State) -> tuple[int, ...]:
    """What `holdfast.testing.volumes.totals` must say."""
    own = [held for held in state.blocks.values() if not held.replica]
    size = sum(len(held.data) for held in own)
    references = sum(held.references for held in own)
    referenced = sum(len(held.data) * held.references for held in own)
    return (len(own), len(state.blocks) - len(own), references, size, size, referenced)


# -- the script -------------------------------------------------------------------------------------------------------

DICTIONARIES = range(1, 6)


@dataclass(frozen=True, slots=True)
class Commit:
    """One call of `commit`."""

    operations: tuple[Operation, ...]
    idempotency_key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class Void:
    """A commit that was not handed in is made void."""

    idempotency_key: IdempotencyKey


@dataclass(frozen=True, slots=True)
class Train:
    """A dictionary is added."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Compact:
    """A compaction, with commits that come in between, each after so many of the compaction's reports of progress."""

    meanwhile: tuple[tuple[int, Commit], ...] = ()


@dataclass(frozen=True, slots=True)
class Seal:
    """The current segment ends."""


Step = Commit | Void | Train | Compact | Seal


def commits_of(steps: list[Step]) -> Iterator[Commit | Train]:
    """The steps that change what the volume holds, in their order."""
    for step in steps:
        if isinstance(step, Compact):
            yield from (commit for _, commit in step.meanwhile)
        elif isinstance(step, Commit | Train):
            yield step


class Writer:
    """Makes up a script: each step fits what the model holds by then."""

    def __init__(self, seed: int, *, tickets: bool = False) -> None:
        """With `tickets`, three commits in four have one."""
        self._random = Random(seed)
        self._tickets = tickets
        self._sequences = {b"client-1": 0, b"client-2": 0}
        self._state = State({}, {})
        self._dictionaries = iter(DICTIONARIES)

    def script(self, commits: int, compact_every: int) -> list[Step]:
        """So many commits, and a compaction after every few."""
        steps: list[Step] = []
        for number in range(1, commits + 1):
            steps.append(self._commit())
            if self._tickets and self._random.random() < 0.1:
                steps.append(Void(self._ticket()))
            if number % compact_every == 0:
                between = sorted(self._random.sample(range(1, 16), 5))
                steps.append(Compact(tuple((at, self._commit(recent=False)) for at in between)))
            if number % (2 * compact_every) == compact_every // 2:
                steps.append(Train(next(self._dictionaries), self._random.randbytes(200)))
            if self._random.random() < 0.06:
                steps.append(Seal())
        return steps

    def _commit(self, *, recent: bool = True) -> Commit:
        operations = []
        for _ in range(self._random.choice((1, 1, 1, 2, 4))):
            operation = self._operation(recent=recent)
            self._state = after(self._state, operation)
            operations.append(operation)
        ticketed = self._tickets and self._random.random() < 0.75
        return Commit(tuple(operations), self._ticket() if ticketed else None)

    def _ticket(self) -> IdempotencyKey:
        client = self._random.choice(list(self._sequences))
        self._sequences[client] += 1
        sequence = self._sequences[client]
        return IdempotencyKey(client, sequence, max(0, sequence - 1 - self._random.randrange(4)))

    def _operation(self, *, recent: bool) -> Operation:
        random, held = self._random, self._state.blocks
        number = random.randrange(24)
        content = plain(Random(number).randbytes(random.choice((0, 90, 90, 400, 400, 700))))
        key = random.choice(list(held)) if held else BlockKey(sign(number))
        chance = random.random()
        if not recent and held and chance < 0.85:  # of what a compaction is about to copy
            return random.choice((Refer(key), Release(key), Release(key), Recount(key, 3), Recount(key, 0)))
        if chance < 0.40:
            return Store(sign(number), content)
        if chance < 0.45:
            return Store(sign(number), content, force_new=True, references=2)
        if chance < 0.60:
            return Refer(key)
        if chance < 0.85:
            return Release(key)
        if chance < 0.90:
            return Recount(key, random.choice((0, 1, 7)))
        adopted = BlockKey(sign(number), random.choice((0, 1)), random.choice((b"v7", b"v8")))
        return Adopt(adopted, content, random.randint(1, 3), random.random() < 0.7)


@dataclass(slots=True)
class Player:
    """Plays a script on a volume and knows, whenever it is interrupted, which states the volume may be in."""

    acknowledged: State = field(default_factory=lambda: State({}, {}))
    possible: list[State] = field(default_factory=lambda: [State({}, {})])  # with what is under way
    sent: dict[tuple[bytes, int], tuple[Commit | Void, list[OperationResult] | None]] = field(default_factory=dict)
    under_way: Commit | Void | None = None  # that has a ticket

    def play(self, volume: Volume, steps: list[Step]) -> None:
        for step in steps:
            self._play(volume, step)

    def _play(self, volume: Volume, step: Step) -> None:
        match step:
            case Commit():
                self.commit(volume, step.operations, step.idempotency_key)
            case Void(idempotency_key):
                self._send(step)
                assert volume.void(idempotency_key) is None
                self._acknowledge_ticket(step, None)
            case Train(number, data):
                state = self.acknowledged
                trained = State(state.blocks, state.dictionaries | {number: data})
                self.possible = [state, trained]
                volume.add_dictionary(number, data)
                self._acknowledge(trained)
            case Compact(meanwhile):
                self._compact(volume, dict(meanwhile))
            case Seal():
                if isinstance(volume, LogVolume):
                    volume.seal()

    def commit(
        self, volume: Volume, operations: tuple[Operation, ...], idempotency_key: IdempotencyKey | None = None
    ) -> None:
        """What is under way when the power goes may have happened up to any operation; with a ticket, as a whole."""
        self.possible = [self.acknowledged]
        for operation in operations:
            self.possible.append(after(self.possible[-1], operation))
        if idempotency_key is not None:
            self.possible = [self.possible[0], self.possible[-1]]
            self._send(Commit(operations, idempotency_key))
        outcomes = volume.commit(operations, idempotency_key)
        self._acknowledge(self.possible[-1])
        if idempotency_key is not None:
            self._acknowledge_ticket(Commit(operations, idempotency_key), outcomes)

    def retry(self, volume: Volume) -> None:
        """After a kill: what was under way is handed in again."""
        step = self.under_way
        assert step is not None
        told = _resent(volume, step)
        self._acknowledge(self.possible[-1])
        self._acknowledge_ticket(step, told)
        assert found_in(volume) == self.acknowledged

    def _acknowledge_ticket(self, step: Commit | Void, outcomes: list[OperationResult] | None) -> None:
        assert step.idempotency_key is not None
        self.under_way = None
        self.sent[step.idempotency_key.client, step.idempotency_key.sequence] = (step, outcomes)

    def _send(self, step: Commit | Void) -> None:
        """Who says that commits are settled does not ask for them again, also if this does not arrive."""
        assert step.idempotency_key is not None
        self.under_way = step
        client, _, settled = step.idempotency_key
        self.sent = {name: sent for name, sent in self.sent.items() if name[0] != client or name[1] > settled}

    def send_again(self, volume: Volume, found: State) -> None:
        """Every ticket that is not settled: what was acknowledged changes nothing, what was under way happens once."""
        for step, outcomes in self.sent.values():
            assert _resent(volume, step) == outcomes
        assert found_in(volume) == found
        if self.under_way is not None:
            told = _resent(volume, self.under_way)
            assert (found_in(volume), _resent(volume, self.under_way)) == (self.possible[-1], told)

    def settle(self, found: State) -> None:
        """The volume was opened again, and this is what it holds; from now on it must."""
        assert found in self.possible
        self._acknowledge(found)

    def settle_any(self, found: State, operations: tuple[Operation, ...]) -> None:
        """As `settle`, after a commit that failed on its way."""
        for operation in operations:
            self.possible.append(after(self.possible[-1], operation))
        self.settle(found)

    def _acknowledge(self, state: State) -> None:
        self.acknowledged = state
        self.possible = [state]

    def _compact(self, volume: Volume, meanwhile: dict[int, Commit]) -> None:
        reports = 0

        def progress(_: int) -> None:
            nonlocal reports
            reports += 1
            if reports in meanwhile:
                commit = meanwhile.pop(reports)
                self.commit(volume, commit.operations, commit.idempotency_key)

        compact_volume(volume, 0.0, progress)
        for commit in meanwhile.values():  # the compaction was too short for these
            self.commit(volume, commit.operations, commit.idempotency_key)


def _resent(volume: Volume, step: Commit | Void) -> list[OperationResult] | None:
    """What the volume says to a step that it may have seen before; None: it is void."""
    if isinstance(step, Commit):
        return volume.commit(step.operations, step.idempotency_key)
    assert volume.void(step.idempotency_key) is None
    with pytest.raises(UsageError, match="void"):
        volume.commit((), step.idempotency_key)
    return None
