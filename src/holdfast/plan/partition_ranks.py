"""The best nodes of each partition, as rendezvous hashing ranks them, while nodes join and leave.

A partition keeps only the head of its ranking. `floor` is what every member scores below that is not in it, so a node
that joins is looked at where it scores above. Heads that run short are filled again from the members below.

Scores are hashed as a cluster hashes them, by its own function, or drawn. Hashing costs one hash for each pair of a
node and a partition: 100,000 nodes, 300,000 that join later and a million partitions would be 400 billion of them.
Drawn scores have the same distribution, and only those above the floor are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np

from holdfast.env.rendezvous import scores as hashed_scores

NOBODY = -1
SPARE = 6  # nodes in a head beyond the copies


class ScoreSource(Protocol):
    """Where scores come from."""

    def join(self, node: int, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The partitions in which a new node scores above the floor, and its scores there."""

    def below(self, partition: int, floor: float, members: np.ndarray, listed: np.ndarray) -> tuple[int, float]:
        """The best member below the floor that is not listed; NOBODY if all are. All that are listed are members."""

    def leave(self, node: int) -> None:
        """It is a member no more."""


class HashedScores:
    """As in a cluster. Nodes without a placement id get one from their number and the seed."""

    def __init__(self, partitions: int, seed: int, placement_ids: Sequence[bytes] = ()) -> None:
        self._partitions = partitions
        self._seed = seed
        self._ids = list(placement_ids)
        self._scores: dict[int, np.ndarray] = {}  # of members

    def _of(self, node: int) -> np.ndarray:
        if node not in self._scores:
            name = f"{self._seed}/{node}".encode()
            own = self._ids[node] if node < len(self._ids) else blake2b(name, digest_size=16).digest()
            self._scores[node] = hashed_scores(own, self._partitions)
        return self._scores[node]

    def join(self, node: int, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = self._of(node)
        partitions = np.flatnonzero(own > floor)
        return partitions, own[partitions]

    def below(self, partition: int, floor: float, members: np.ndarray, listed: np.ndarray) -> tuple[int, float]:
        others = np.setdiff1d(members, listed)
        if not len(others):
            return NOBODY, 0.0
        found = np.array([self._of(int(each))[partition] for each in others])
        best = int(found.argmax())
        return int(others[best]), float(found[best])

    def leave(self, node: int) -> None:
        self._scores.pop(node, None)


class DrawnScores:
    """Uniform between 0 and 1: their order is as random as that of hashes."""

    def __init__(self, partitions: int, random: np.random.Generator) -> None:
        self._partitions = partitions
        self._random = random
        self._widest = 1.0  # at least 1 - floor of every partition
        self._joins = 0

    def join(self, node: int, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._joins % 256 == 0:
            self._widest = float(1 - floor.min())
        self._joins += 1
        random, count = self._random, int(self._random.binomial(self._partitions, self._widest))
        if count > self._partitions // 8:
            partitions = np.flatnonzero(random.random(self._partitions) < 1 - floor)
        else:
            chosen = random.choice(self._partitions, count, replace=False, shuffle=False)
            partitions = chosen[random.random(count) * self._widest < 1 - floor[chosen]]
        own = floor[partitions]
        return partitions, own + (1 - own) * random.random(len(partitions))

    def below(self, partition: int, floor: float, members: np.ndarray, listed: np.ndarray) -> tuple[int, float]:
        others = len(members) - len(listed)
        if others <= 0:
            self._widest = 1.0
            return NOBODY, 0.0
        if others < len(members) // 2:
            node = int(self._random.choice(np.setdiff1d(members, listed)))
        else:
            known = set(listed.tolist())
            while (node := int(members[self._random.integers(len(members))])) in known:
                pass
        score = floor * float(self._random.random()) ** (1 / others)  # the highest of so many below the floor
        self._widest = max(self._widest, 1 - score)
        return node, score

    def leave(self, node: int) -> None:
        pass


class PartitionRanks:
    """The heads of all partitions: columns are ranks, the best first. One thread."""

    def __init__(self, partitions: int, copies: int) -> None:
        self.partitions = partitions
        self.copies = copies
        self.width = copies + SPARE
        self.nodes = np.full((partitions, self.width), NOBODY, np.int32)
        self.scores = np.full((partitions, self.width), -1.0)
        self.floor = np.zeros(partitions)
        self._columns = np.arange(self.width)

    def fill(self, nodes: int, random: np.random.Generator) -> None:
        """The heads of so many members, numbered from 0, by drawn scores: those of the best of `nodes` draws."""
        known = min(nodes, self.width)
        top = np.ones(self.partitions)
        for column in range(known):
            top = top * random.random(self.partitions) ** (1 / (nodes - column))
            self.scores[:, column] = top
        if nodes > self.width:
            self.floor[:] = top
        chosen = random.integers(0, nodes, (self.partitions, known), dtype=np.int32)
        if nodes < 4 * known:
            for partition in range(self.partitions):
                chosen[partition] = random.permutation(nodes)[:known]
        else:  # few draws name a node twice
            again = np.arange(self.partitions)
            while len(again):
                rows = np.sort(chosen[again], axis=1)
                again = again[(rows[:, 1:] == rows[:, :-1]).any(axis=1)]
                chosen[again] = random.integers(0, nodes, (len(again), known), dtype=np.int32)
        self.nodes[:, :known] = chosen

    def insert(self, node: int, partitions: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranks a node in these partitions. Returns its ranks, and which column each column's entry was in before.

        A node that ranks behind a full head is not listed; its rank is the width.
        """
        before = self.scores[partitions]
        ranks = (before > scores[:, None]).sum(axis=1)
        last = before[:, -1]
        floor = self.floor[partitions]
        pushed = np.where(ranks < self.width, last, np.maximum(floor, scores))  # the best that is not listed
        self.floor[partitions] = np.where(last < 0, floor, pushed)
        origin = self._columns - (self._columns > ranks[:, None])
        at = np.arange(len(partitions))
        listed = ranks < self.width
        heads = np.take_along_axis(self.nodes[partitions], origin, axis=1)
        values = np.take_along_axis(before, origin, axis=1)
        heads[at[listed], ranks[listed]] = node
        values[at[listed], ranks[listed]] = scores[listed]
        self.nodes[partitions] = heads
        self.scores[partitions] = values
        return ranks, origin

    def remove(self, partitions: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Takes one entry out of each partition. Returns which column each column's entry was in; the last is free."""
        origin = np.minimum(self._columns + (self._columns >= columns[:, None]), self.width - 1)
        heads = np.take_along_axis(self.nodes[partitions], origin, axis=1)
        values = np.take_along_axis(self.scores[partitions], origin, axis=1)
        heads[:, -1] = NOBODY
        values[:, -1] = -1.0
        self.nodes[partitions] = heads
        self.scores[partitions] = values
        return origin

    def append(self, partition: int, node: int, score: float) -> None:
        """The best member below the floor, at the end of a head that has room."""
        column = int((self.nodes[partition] != NOBODY).sum())
        self.nodes[partition, column] = node
        self.scores[partition, column] = score
        self.floor[partition] = score
