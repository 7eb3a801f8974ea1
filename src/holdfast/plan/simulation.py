"""One simulated cluster: nodes die, join and lie; partitions move, are repaired, and are lost.

What is simulated is a cluster of Holdfast: the holders of a partition are the first by rendezvous hashing. When a node
dies, the next in the ranking of each of its partitions becomes a holder after `lost_after_s`, and pulls it. When a node
joins, it pulls the partitions in which it ranks among the holders; those it pushes out drop theirs when all holders are
in sync. A node pulls one partition at a time, those with the fewest copies first, at its bandwidth. A partition without
a copy that is in sync is lost, and stays lost.

A node that lies says that it is in sync and has nothing. Holders compare digests every `check_s`: in each partition the
majority of those in sync is right, and who is outvoted in more than half of its partitions is expelled. Nodes that lie
tell one lie, so that they can outvote an honest one.

Copies become in sync at times that are known when they are scheduled, so that there is no event for it: an event is a
node that dies, joins or is checked.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np

from holdfast.plan.lifetimes import DAY_S, NodeLives
from holdfast.plan.partition_ranks import NOBODY, DrawnScores, HashedScores, PartitionRanks, ScoreSource

NEVER = math.inf  # the time at which a copy that is not there is in sync
_BINS = 16  # of repair times, for each doubling
_BINS_MAX = 16 * 40


class Replacement(StrEnum):
    """What happens after a node has died."""

    JOIN = "join"  # another one joins, as a new member
    SAME = "same"  # its disk is replaced: it comes back under its id, empty
    NONE = "none"  # nothing: the cluster shrinks


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """What is simulated."""

    nodes: int
    copies: int
    partitions: int
    lives: NodeLives
    stored_bytes: float  # of all contents, one copy
    growth_bytes_day: float = 0.0
    bandwidth_bytes_s: float = 1e6  # of a node, for repair
    lost_after_s: float = 3600.0
    replacement: Replacement = Replacement.JOIN
    repair_s: float | None = None  # if given: mean of exponential times of repair, and no bandwidth
    liars: float = 0.0  # share of nodes
    check_s: float = 3600.0
    is_hashed: bool = True  # placed by the hashes of a cluster; else by draws of the same distribution
    placement_ids: Sequence[bytes] = field(default=(), repr=False)  # of the first nodes, if hashed


@dataclass(slots=True)
class SimulationCounts:
    """What has happened until now."""

    deaths: int = 0
    joins: int = 0
    expelled: int = 0  # nodes that lied
    expelled_honest: int = 0  # outvoted
    repaired_copies: int = 0
    handed_over_copies: int = 0
    moved_bytes: float = 0.0
    lost_partitions: int = 0
    repair_s: float = 0.0  # sum over repaired copies, from a death to a copy in sync
    repair_longest_s: float = 0.0


class _Event(IntEnum):
    DEATH = 0
    JOIN = 1
    CHECK = 2


class Simulation:
    """A cluster in time. The same seed gives the same history. One thread."""

    def __init__(self, cluster: SimulatedCluster, seed: int) -> None:
        self.cluster = cluster
        self.now = 0.0
        self.counts = SimulationCounts()
        self.ranking = PartitionRanks(cluster.partitions, cluster.copies)
        self.lost = np.zeros(cluster.partitions, bool)
        self._in_sync_at = np.full((cluster.partitions, self.ranking.width), NEVER)
        self._random = np.random.default_rng(seed)
        self._source: ScoreSource
        self._events: list[tuple[float, int, int]] = []
        self._repairs = np.zeros(_BINS_MAX, np.int64)
        self._partitions_of: dict[int, array[int]] = {}  # where a member is, or was, a holder
        self._members = np.zeros(max(16, cluster.nodes), np.int64)
        self._places: dict[int, int] = {}  # of members in the array above
        self._is_member = np.zeros(1024, bool)
        self._is_liar = np.zeros(1024, bool)
        self._free_at = np.zeros(1024)  # when a node has pulled all that is scheduled
        self._numbers = 0  # of nodes that were ever there
        self._begin(seed)

    def _begin(self, seed: int) -> None:
        cluster = self.cluster
        if cluster.is_hashed:
            self._source = HashedScores(cluster.partitions, seed, cluster.placement_ids)
            for _ in range(cluster.nodes):
                node = self._admit()
                self.ranking.insert(node, *self._source.join(node, self.ranking.floor))
        else:
            self._source = DrawnScores(cluster.partitions, self._random)
            self.ranking.fill(cluster.nodes, self._random)
            for _ in range(cluster.nodes):
                self._admit()
        held = self.ranking.nodes[:, : cluster.copies]
        self._in_sync_at[:, : cluster.copies][held != NOBODY] = 0.0
        order = np.argsort(held, axis=None, kind="stable")
        nodes, starts = np.unique(held.ravel()[order], return_index=True)
        partitions = (order // held.shape[1]).astype(np.int32)
        for node, some in zip(nodes.tolist(), np.split(partitions, starts[1:]), strict=True):
            if node != NOBODY:
                self._partitions_of[node] = array("i", some.tobytes())

    def _admit(self) -> int:
        """A new member, with its day of death. It holds nothing yet."""
        node = self._numbers
        self._numbers += 1
        if node >= len(self._is_member):
            for name in ("_is_member", "_is_liar", "_free_at"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self._is_member[node] = True
        self._is_liar[node] = self.cluster.liars > 0 and self._random.random() < self.cluster.liars
        if len(self._places) == len(self._members):
            self._members = np.concatenate([self._members, np.zeros_like(self._members)])
        self._members[len(self._places)] = node
        self._places[node] = len(self._places)
        self._partitions_of[node] = array("i")
        life = float(self.cluster.lives.draw(self._random, 1)[0])
        heapq.heappush(self._events, (self.now + life, _Event.DEATH, node))
        if self._is_liar[node]:
            heapq.heappush(self._events, (self.now + self.cluster.check_s, _Event.CHECK, node))
        return node

    # -- time --------------------------------------------------------------------------------------------------------

    def run_until(self, time_s: float, progress: Callable[[], None] = lambda: None) -> None:
        """All that happens before this moment. `progress` is called for every day."""
        day = math.floor(self.now / DAY_S) + 1
        while self._events and self._events[0][0] <= time_s:
            moment, event, node = heapq.heappop(self._events)
            while day * DAY_S <= moment:
                day += 1
                progress()
            self.now = moment
            if event == _Event.JOIN:
                self.join()
            elif self._is_member[node]:
                if event == _Event.DEATH:
                    self.kill(node)
                else:
                    self._check(node)
        while day * DAY_S <= time_s:
            day += 1
            progress()
        self.now = time_s

    @property
    def members(self) -> np.ndarray:
        """The numbers of all members."""
        return self._members[: len(self._places)]

    def copies_in_sync(self) -> np.ndarray:
        """Of each partition, now."""
        counts: np.ndarray = (self._in_sync_at <= self.now).sum(axis=1)
        return counts

    def load(self) -> np.ndarray:
        """How many partitions each member holds."""
        held = self.ranking.nodes[:, : self.cluster.copies].ravel()
        counts = np.bincount(held[held != NOBODY], minlength=self._numbers)
        loads: np.ndarray = counts[self.members]
        return loads

    def repair_quantile_s(self, share: float) -> float:
        """The time within which this share of repairs was done, to 4 %; 0 if there were none."""
        total = self._repairs.sum()
        if not total:
            return 0.0
        bin = int(np.searchsorted(np.cumsum(self._repairs), share * total))
        return float(2.0 ** ((bin + 0.5) / _BINS))

    def _partition_bytes(self) -> float:
        cluster = self.cluster
        return (cluster.stored_bytes + cluster.growth_bytes_day * self.now / DAY_S) / cluster.partitions

    # -- what happens ------------------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """A node is gone now, with its disk."""
        self.counts.deaths += 1
        self._remove(node)

    def join(self) -> int:
        """A new node joins now, and begins to pull. Returns its number."""
        self.counts.joins += 1
        node = self._admit()
        copies, ranking = self.cluster.copies, self.ranking
        partitions, scores = self._source.join(node, ranking.floor)
        self._drop_former(partitions)
        ranks, origin = ranking.insert(node, partitions, scores)
        times = np.take_along_axis(self._in_sync_at[partitions], origin, axis=1)
        listed = np.flatnonzero(ranks < ranking.width)
        times[listed, ranks[listed]] = NEVER
        former = times[:, copies:]
        former[former > self.now] = NEVER  # pulls of those that are holders no more end
        self._in_sync_at[partitions] = times
        held = (ranks < copies) & ~self.lost[partitions]
        wanted, columns = partitions[held], ranks[held]
        self._partitions_of[node].extend(wanted.tolist())
        self._pull_many(node, wanted, columns, self.now)
        self.counts.handed_over_copies += len(wanted)
        return node

    def _drop_former(self, partitions: np.ndarray) -> None:
        """Former holders have dropped what all holders have in sync."""
        copies = self.cluster.copies
        times = self._in_sync_at[partitions]
        times[:, copies:][(times[:, :copies] <= self.now).all(axis=1)] = NEVER
        self._in_sync_at[partitions] = times

    def _remove(self, node: int, *, is_expelled: bool = False) -> None:
        cluster = self.cluster
        is_replaced_disk = cluster.replacement is Replacement.SAME and not is_expelled
        partitions, columns = self._found(node)
        self._drop_former(partitions)
        if is_replaced_disk:
            self._in_sync_at[partitions, columns] = NEVER
        else:
            self._leave(node)
            self._take_out(partitions, columns)
        self._count_losses(partitions)
        kept = ~self.lost[partitions]
        back_at = self.now + cluster.lost_after_s
        if is_replaced_disk:
            self._free_at[node] = back_at
            was_held = kept & (columns < cluster.copies)
            self._pull_many(node, partitions[was_held], columns[was_held], back_at, is_repair=True)
            life = float(cluster.lives.draw(self._random, 1)[0])
            heapq.heappush(self._events, (back_at + life, _Event.DEATH, node))
            return
        self._promote(partitions[kept & (columns < cluster.copies)])
        if cluster.replacement is not Replacement.NONE:
            heapq.heappush(self._events, (back_at, _Event.JOIN, NOBODY))

    def _found(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """The partitions that are not lost in whose heads the node is as a holder or a former one, and its ranks."""
        partitions = np.unique(np.frombuffer(self._partitions_of[node], np.int32))
        partitions = partitions[~self.lost[partitions]]
        here = self.ranking.nodes[partitions] == node
        is_here = here.any(axis=1)
        self._partitions_of[node] = array("i", partitions[is_here].tobytes())
        return partitions[is_here], here[is_here].argmax(axis=1)

    def _leave(self, node: int) -> None:
        self._is_member[node] = False
        del self._partitions_of[node]
        place = self._places.pop(node)
        last = int(self._members[len(self._places)])
        if last != node:
            self._members[place] = last
            self._places[last] = place
        self._source.leave(node)

    def _count_losses(self, partitions: np.ndarray) -> None:
        in_sync = self._in_sync_at[partitions] <= self.now
        if self.cluster.liars:
            in_sync &= ~self._is_liar[self.ranking.nodes[partitions]]
        gone = partitions[~in_sync.any(axis=1)]
        self.lost[gone] = True
        self.counts.lost_partitions += len(gone)

    def _promote(self, partitions: np.ndarray) -> None:
        """The next in each ranking is a holder now, and pulls what it lacks."""
        last = self.cluster.copies - 1
        ranking = self.ranking
        unfit = partitions
        while len(unfit):
            candidates = ranking.nodes[unfit, last]
            unfit = unfit[(candidates != NOBODY) & ~self._is_member[candidates]]
            self._take_out(unfit, np.full(len(unfit), last))
        for partition in partitions[ranking.nodes[partitions, last] == NOBODY].tolist():
            self._fill(partition)
        candidates = ranking.nodes[partitions, last]
        missing = (candidates != NOBODY) & (self._in_sync_at[partitions, last] == NEVER)
        wanted, nodes = partitions[missing], candidates[missing]
        for node, partition in zip(nodes.tolist(), wanted.tolist(), strict=True):
            self._partitions_of[node].append(partition)
        self._pull_one_each(wanted, nodes, self.now + self.cluster.lost_after_s)

    def _take_out(self, partitions: np.ndarray, columns: np.ndarray) -> None:
        """One node out of each of these heads; those behind it move up."""
        if len(partitions):
            origin = self.ranking.remove(partitions, columns)
            times = np.take_along_axis(self._in_sync_at[partitions], origin, axis=1)
            times[:, -1] = NEVER
            self._in_sync_at[partitions] = times

    def _fill(self, partition: int) -> None:
        """Members until there are enough holders. Those in the head are members."""
        ranking = self.ranking
        while (known := int((ranking.nodes[partition] != NOBODY).sum())) < self.cluster.copies:
            listed = ranking.nodes[partition, :known]
            node, score = self._source.below(partition, float(ranking.floor[partition]), self.members, listed)
            if node == NOBODY:
                ranking.floor[partition] = 0.0  # all members are listed: whoever joins is listed, too
                return
            ranking.append(partition, node, score)

    # -- pulls -------------------------------------------------------------------------------------------------------

    def _pull_many(
        self, node: int, partitions: np.ndarray, columns: np.ndarray, start: float, *, is_repair: bool = False
    ) -> None:
        """A node that has nothing else to pull pulls these, those with the fewest copies first."""
        if not len(partitions):
            return
        self.counts.moved_bytes += len(partitions) * self._partition_bytes()
        if self.cluster.repair_s is not None:
            times = start + self._random.exponential(self.cluster.repair_s, len(partitions))
        else:
            scarcest = np.argsort((self._in_sync_at[partitions] <= self.now).sum(axis=1), kind="stable")
            times = np.empty(len(partitions))
            one_s = self._partition_bytes() / self.cluster.bandwidth_bytes_s
            times[scarcest] = start + one_s * np.arange(1, len(partitions) + 1)
            self._free_at[node] = times[scarcest[-1]]
        self._in_sync_at[partitions, columns] = times
        if is_repair:
            self._count_repairs(times)

    def _pull_one_each(self, partitions: np.ndarray, nodes: np.ndarray, start: float) -> None:
        """Each node pulls one of these partitions, of which it is the last holder, after what is scarcer."""
        if not len(partitions):
            return
        last = self.cluster.copies - 1
        self.counts.moved_bytes += len(partitions) * self._partition_bytes()
        if self.cluster.repair_s is not None:
            times = start + self._random.exponential(self.cluster.repair_s, len(partitions))
        else:
            one_s = self._partition_bytes() / self.cluster.bandwidth_bytes_s
            times = np.full(len(partitions), start + one_s)
            order = np.argsort(nodes, kind="stable")
            is_again = np.zeros(len(nodes), bool)
            is_again[order[1:]] = nodes[order[1:]] == nodes[order[:-1]]
            queued = np.flatnonzero(is_again | (self._free_at[nodes] > start))
            first = ~is_again & (self._free_at[nodes] <= start)
            self._free_at[nodes[first]] = start + one_s
            self._in_sync_at[partitions[first], last] = start + one_s
            for at in queued.tolist():
                times[at] = self._queue(int(nodes[at]), int(partitions[at]), start, one_s)
                self._in_sync_at[partitions[at], last] = times[at]
        self._in_sync_at[partitions, last] = times
        self._count_repairs(times)

    def _queue(self, node: int, partition: int, start: float, one_s: float) -> float:
        """When a busy node has pulled this partition too. What it has to pull is sorted again: the scarcest first."""
        others, columns = self._found(node)
        times = self._in_sync_at[others, columns]
        pending = np.flatnonzero((times > start) & (times < NEVER) & (others != partition))
        pending = pending[np.argsort(times[pending], kind="stable")]
        others, columns, times = others[pending], columns[pending], times[pending]
        begun = float(times.min(initial=start + one_s)) - one_s
        copies = (self._in_sync_at[np.append(others, partition)] <= self.now).sum(axis=1)
        order = np.argsort(copies, kind="stable")
        ends = np.empty(len(order))
        ends[order] = begun + one_s * np.arange(1, len(order) + 1)
        self._in_sync_at[others, columns] = ends[:-1]
        self._free_at[node] = ends.max()
        return max(float(ends[-1]), start + one_s)

    def _count_repairs(self, times: np.ndarray) -> None:
        taken = times - self.now
        self.counts.repaired_copies += len(taken)
        self.counts.repair_s += float(taken.sum())
        self.counts.repair_longest_s = max(self.counts.repair_longest_s, float(taken.max()))
        bins = np.clip(np.log2(np.maximum(taken, 1.0)) * _BINS, 0, _BINS_MAX - 1).astype(np.int64)
        self._repairs += np.bincount(bins, minlength=_BINS_MAX)

    # -- lies --------------------------------------------------------------------------------------------------------

    def _check(self, node: int) -> None:
        """Holders compare digests with a node that lies; whoever is outvoted in most of its partitions is expelled."""
        share, beaten = self._votes(node)
        if share > 0.5:
            self.counts.expelled += 1
            self._remove(node, is_expelled=True)
            return
        for other in beaten:
            if self._votes(other)[0] > 0.5:
                self.counts.expelled_honest += 1
                self._remove(other, is_expelled=True)
        heapq.heappush(self._events, (self.now + self.cluster.check_s, _Event.CHECK, node))

    def _votes(self, node: int) -> tuple[float, list[int]]:
        """The share of its partitions in which a node is outvoted, and those on the other side that it outvotes."""
        partitions, columns = self._found(node)
        copies, is_own_side = self.cluster.copies, self._is_liar[node]
        held = (columns < copies) & (self._in_sync_at[partitions, columns] <= self.now)
        if not held.any():
            return 0.0, []
        rows = self.ranking.nodes[partitions[held], :copies]
        in_sync = self._in_sync_at[partitions[held], :copies] <= self.now
        own = in_sync & (self._is_liar[rows] == is_own_side)
        others = in_sync & ~own
        own_votes, other_votes = own.sum(axis=1), others.sum(axis=1)
        beaten = np.unique(rows[others & (own_votes > other_votes)[:, None]])
        return float((other_votes > own_votes).mean()), beaten.tolist()
