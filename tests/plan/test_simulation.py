"""The simulator: against the chain, the cluster's own placement, and a plain model (H9)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cluster.membership.placement import Member, holders
from holdfast.errors import UnknownName, UsageError
from holdfast.plan.lifetimes import DAY_S, ExponentialLives, TracedLives, WeibullLives, read_trace
from holdfast.plan.loss import loss_probability
from holdfast.plan.scenario import preset
from holdfast.plan.simulate import cluster_of, lives_of, simulate, usual_partitions
from holdfast.plan.simulation import Replacement, SimulatedCluster, Simulation

FOREVER = ExponentialLives(1e15)


def quiet(nodes: int, copies: int, partitions: int = 64, **values: object) -> SimulatedCluster:
    """A cluster in which nothing happens by itself."""
    usual: dict[str, object] = {"stored_bytes": 1e6, "lost_after_s": 0.0, "bandwidth_bytes_s": 1e12}
    return SimulatedCluster(nodes, copies, partitions, FOREVER, **(usual | values))  # type: ignore[arg-type]


def member(number: int) -> Member:
    return Member(f"n{number:04d}", bytes([number]) * 16)


def held(simulation: Simulation, partition: int) -> list[int]:
    return simulation.ranking.nodes[partition, : simulation.cluster.copies].tolist()


# -- the chain ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copies", "repair_days", "span_days"), [(1, 5.0, 50.0), (2, 5.0, 200.0), (3, 20.0, 200.0), (4, 50.0, 300.0)]
)
def test_losses_are_those_of_the_chain(copies: int, repair_days: float, span_days: float) -> None:
    life_days, found = 100.0, []
    for seed in range(10):
        cluster = quiet(200, copies, 4096, is_hashed=False, repair_s=repair_days * DAY_S)
        cluster = replace(cluster, lives=ExponentialLives(life_days * DAY_S), replacement=Replacement.SAME)
        simulation = Simulation(cluster, seed)
        simulation.run_until(span_days * DAY_S)
        found.append(simulation.lost.mean())
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    expected = loss_probability(copies, life_days, repair_days, span_days)
    assert error < 0.1 * expected
    assert abs(np.mean(found) - expected) < 3.5 * error


def test_a_chain_with_other_rates_is_told_apart() -> None:
    """The test above could fail."""
    cluster = replace(quiet(200, 2, 4096, is_hashed=False, repair_s=5 * DAY_S), replacement=Replacement.SAME)
    found = []
    for seed in range(10):
        simulation = Simulation(replace(cluster, lives=ExponentialLives(100 * DAY_S)), seed)
        simulation.run_until(200 * DAY_S)
        found.append(simulation.lost.mean())
    error = np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - loss_probability(2, 100, 10, 200)) > 5 * error


# -- placement ---------------------------------------------------------------------------------------------------------


def test_holders_are_those_of_a_cluster_while_nodes_join_and_die() -> None:
    members = {number: member(number) for number in range(30)}
    ids = [members[number].placement_id for number in range(30)]
    simulation = Simulation(quiet(12, 3, placement_ids=ids), 1)
    alive = list(range(12))
    random = np.random.default_rng(3)
    for step in range(40):
        if len(alive) > 2 and (step % 3 or simulation._numbers == 30):
            alive.remove(victim := int(random.choice(alive)))
            simulation.kill(victim)
        else:
            alive.append(simulation.join())
        simulation.now += 1.0
        for partition in range(64):
            expected = holders(partition, [members[each] for each in alive], 3)
            found = [f"n{each:04d}" for each in held(simulation, partition) if each >= 0]
            assert tuple(found) == expected, (step, partition)
    assert not simulation.lost.any()


def test_moved_copies_are_those_of_the_formula() -> None:
    """Loss: what the node held, each to one new holder. Join: what the node holds then (N8)."""
    members = [member(number) for number in range(9)]
    simulation = Simulation(quiet(8, 3, 256, placement_ids=[each.placement_id for each in members]), 1)
    before = {partition: set(holders(partition, members[:8], 3)) for partition in range(256)}
    simulation.kill(4)
    left = [each for each in members[:8] if each.name != "n0004"]
    after = {partition: set(holders(partition, left, 3)) for partition in range(256)}
    lost = sum("n0004" in before[partition] for partition in before)
    assert simulation.counts.repaired_copies == lost == sum(len(after[each] - before[each]) for each in before)
    simulation.now += 1
    simulation.join()
    gained = sum("n0008" in holders(partition, [*left, members[8]], 3) for partition in range(256))
    assert simulation.counts.handed_over_copies == gained > 0
    assert simulation.counts.moved_bytes == pytest.approx((lost + gained) * 1e6 / 256)


def test_draws_place_as_hashes_do() -> None:
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for is_hashed, rows in found.items():
        for seed in range(6):
            cluster = replace(quiet(40, 3, 1024, is_hashed=is_hashed), lives=ExponentialLives(50 * DAY_S))
            simulation = Simulation(cluster, seed)
            simulation.run_until(100 * DAY_S)
            counts = simulation.counts
            rows.append([counts.repaired_copies / counts.deaths, counts.handed_over_copies / counts.joins])
            rows[-1].append(float(simulation.load().std()))
    hashed, drawn = (np.mean(found[each], axis=0) for each in (True, False))
    assert drawn[:2] == pytest.approx(hashed[:2], rel=0.03)
    assert hashed[0] == pytest.approx(1024 * 3 / 40, rel=0.05)
    binomial = math.sqrt(1024 * 3 / 40 * (1 - 3 / 40))
    assert (drawn[2], hashed[2]) == (pytest.approx(binomial, rel=0.15), pytest.approx(binomial, rel=0.15))


def test_heads_keep_the_best_however_long_it_runs() -> None:
    """Every member is drawn at most once for a partition, and scores descend."""
    simulation = Simulation(replace(quiet(300, 3, 512, is_hashed=False), lives=ExponentialLives(20 * DAY_S)), 5)
    simulation.run_until(200 * DAY_S)
    assert simulation.counts.deaths > 2000
    members = set(simulation.members.tolist())
    assert len(members) == 300
    for partition in range(512):
        row = [each for each in simulation.ranking.nodes[partition].tolist() if each >= 0]
        assert len(set(row)) == len(row)
        assert set(row[:3]) <= members
        scores = simulation.ranking.scores[partition, : len(row)]
        assert (np.diff(scores) < 0).all() and scores[-1] >= simulation.ranking.floor[partition]


# -- a plain model -----------------------------------------------------------------------------------------------------


class PlainCluster:
    """The same in a few lines: all ranks are computed again for each event. Repair takes a day, however much it is."""

    DAY = DAY_S

    def __init__(self, nodes: int, copies: int, partitions: int) -> None:
        self.alive = list(range(nodes))
        self.copies = copies
        self.partitions = partitions
        self.in_sync_at = {(p, n): 0.0 for p in range(partitions) for n in self.holders(p)}
        self.lost: set[int] = set()

    def holders(self, partition: int) -> list[int]:
        found = holders(partition, [member(number) for number in self.alive], self.copies)
        return [int(name[1:]) for name in found]

    def drop(self, now: float) -> None:
        for partition in range(self.partitions):
            own = self.holders(partition)
            if len(own) == self.copies and all(self.in_sync_at.get((partition, each), now + 1) <= now for each in own):
                for place in [each for each in self.in_sync_at if each[0] == partition and each[1] not in own]:
                    del self.in_sync_at[place]

    def pull(self, now: float, at: float) -> None:
        for partition in set(range(self.partitions)) - self.lost:
            own = self.holders(partition)
            for each in own:
                self.in_sync_at.setdefault((partition, each), at)
            for place in [each for each in self.in_sync_at if each[0] == partition and each[1] not in own]:
                if self.in_sync_at[place] > now:
                    del self.in_sync_at[place]

    def kill(self, node: int, now: float) -> None:
        self.drop(now)
        self.alive.remove(node)
        for place in [each for each in self.in_sync_at if each[1] == node]:
            del self.in_sync_at[place]
        for partition in range(self.partitions):
            if not any(time <= now for (each, _), time in self.in_sync_at.items() if each == partition):
                self.lost.add(partition)
        self.pull(now, now + self.DAY)

    def join(self, node: int, now: float) -> None:
        self.drop(now)
        self.alive.append(node)
        self.pull(now, now)


@settings(max_examples=60)
@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 100), st.floats(0.1, 2.0)), max_size=14))
def test_losses_are_those_of_a_plain_model(copies: int, steps: list[tuple[bool, int, float]]) -> None:
    """Pulls of a death are done after a day, those of a join at once."""
    ids = [member(number).placement_id for number in range(30)]
    cluster = quiet(5, copies, 16, placement_ids=ids, lost_after_s=DAY_S, bandwidth_bytes_s=1e30)
    simulation = Simulation(replace(cluster, replacement=Replacement.NONE), 1)
    plain = PlainCluster(5, copies, 16)
    for is_kill, choice, days in steps:
        simulation.now += days * DAY_S
        if is_kill and len(plain.alive) > 1:
            victim = plain.alive[choice % len(plain.alive)]
            simulation.kill(victim)
            plain.kill(victim, simulation.now)
        else:
            plain.join(simulation.join(), simulation.now)
        assert set(np.flatnonzero(simulation.lost).tolist()) == plain.lost
        for partition in set(range(16)) - plain.lost:
            assert [each for each in held(simulation, partition) if each >= 0] == plain.holders(partition)


# -- bandwidth ---------------------------------------------------------------------------------------------------------


def test_a_node_pulls_one_partition_after_another() -> None:
    ids = [member(number).placement_id for number in range(3)]
    cluster = quiet(3, 2, 60, placement_ids=ids, stored_bytes=6000.0, bandwidth_bytes_s=10.0, lost_after_s=50.0)
    simulation = Simulation(replace(cluster, replacement=Replacement.NONE), 1)
    before = [set(held(simulation, partition)) for partition in range(60)]
    simulation.kill(0)
    pulled = {node: sum(held_before == {0, 3 - node} for held_before in before) for node in (1, 2)}
    assert sum(pulled.values()) == simulation.counts.repaired_copies > 30
    assert simulation.counts.repair_longest_s == 50.0 + 10.0 * max(pulled.values())  # 100 bytes each, 10 a second
    sums = sum(50.0 * count + 10.0 * count * (count + 1) / 2 for count in pulled.values())
    assert simulation.counts.repair_s == pytest.approx(sums)
    simulation.now = 50.0 + 10.0 * max(pulled.values())
    assert (simulation.copies_in_sync() == 2).all()


def test_what_is_scarce_is_pulled_first() -> None:
    """A node that is busy with hand-overs repairs before it goes on, and nothing takes longer in sum."""
    ids = [member(number).placement_id for number in range(5)]
    cluster = quiet(4, 2, 200, placement_ids=ids, stored_bytes=2e4, bandwidth_bytes_s=10.0)
    simulation = Simulation(replace(cluster, replacement=Replacement.NONE), 1)
    new = simulation.join()

    def times() -> dict[int, float]:
        rows, columns = np.nonzero(simulation.ranking.nodes[:, :2] == new)
        return dict(zip(rows.tolist(), simulation._in_sync_at[rows, columns].tolist(), strict=True))

    handed_over = times()
    assert sorted(handed_over.values()) == pytest.approx([10.0 * (at + 1) for at in range(len(handed_over))])
    simulation.kill(0)
    queue = times()
    repaired = [time for partition, time in queue.items() if partition not in handed_over]
    assert repaired and max(queue.values()) == pytest.approx(10.0 * len(queue))
    safe = [queue[each] for each in handed_over if (simulation._in_sync_at[each] <= simulation.now).sum() == 2]
    assert safe and max(repaired) < min(safe)


# -- lives, lies, replacement ------------------------------------------------------------------------------------------


def test_lives_have_the_mean_that_was_asked_for(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for lives in (ExponentialLives(100.0), WeibullLives(100.0, 0.6), WeibullLives(100.0, 3.0)):
        assert lives.draw(random, 200_000).mean() == pytest.approx(100.0, rel=0.02)
    path = tmp_path / "lives"
    path.write_text("# days\n10\n\n 30.5 \n")
    assert read_trace(path) == TracedLives([10 * DAY_S, 30.5 * DAY_S])
    assert set(read_trace(path).draw(random, 50).tolist()) == {10 * DAY_S, 30.5 * DAY_S}
    for bad in ("", "ten\n", "-1\n", "nan\n", "0\n"):
        path.write_text(bad)
        with pytest.raises(UsageError, match="bad trace"):
            read_trace(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path / "absent")


def test_nodes_that_lie_are_outvoted_by_two() -> None:
    cluster = replace(quiet(60, 3, 512), liars=0.1, check_s=3600.0)
    simulation = Simulation(cluster, 2)
    liars = int(simulation._is_liar[simulation.members].sum())
    assert liars > 2
    simulation.run_until(30 * DAY_S)
    assert simulation.counts.expelled >= liars
    assert not simulation._is_liar[simulation.members].any()


def test_without_checks_lies_lose_partitions_and_with_them_fewer() -> None:
    lost = {}
    for check_s in (3600.0, 1e12):
        cluster = replace(quiet(60, 3, 512, is_hashed=False), liars=0.15, check_s=check_s)
        cluster = replace(cluster, lives=ExponentialLives(200 * DAY_S))
        simulation = Simulation(cluster, 3)
        simulation.run_until(1000 * DAY_S)
        lost[check_s] = simulation.counts.lost_partitions
    assert lost[3600.0] < lost[1e12]


def test_a_majority_of_liars_expels_the_honest() -> None:
    simulation = Simulation(replace(quiet(60, 3, 512), liars=0.85, check_s=3600.0), 2)
    simulation.run_until(2 * DAY_S)
    assert simulation.counts.expelled_honest > 0


def test_without_replacement_a_cluster_shrinks_until_all_is_lost() -> None:
    cluster = replace(quiet(10, 2, 64), lives=ExponentialLives(DAY_S), replacement=Replacement.NONE)
    simulation = Simulation(cluster, 1)
    simulation.run_until(1000 * DAY_S)
    assert simulation.counts.deaths == 10 and simulation.lost.all() and len(simulation.members) == 0


# -- the function ------------------------------------------------------------------------------------------------------


def test_results_have_means_intervals_and_what_is_calculated() -> None:
    days = []
    cluster = cluster_of(preset("national"), nodes=30, years=2)
    result = simulate(cluster, years=2, runs=3, progress=days.append)
    assert sum(days) == 2 * 365 * 3
    rows = {row["figure"]: row for row in result.rows()}
    died = rows["nodes that died"]
    assert died["value_low"] <= died["value"] <= died["value_high"]
    assert died["calculated"] == pytest.approx(30 * 2 / 5)
    moved = rows["moved bytes"]
    assert moved["value"] == pytest.approx(moved["calculated"], rel=0.6)
    assert [row["year"] for row in result.rows("years")] == [1, 2]
    assert sum(row["deaths"] for row in result.rows("years")) == pytest.approx(died["value"])
    assert len(result.panels) == 2
    assert simulate(cluster, years=2, runs=3).tables == result.tables, "the same seed"


def test_times_of_repair_are_about_those_calculated() -> None:
    cluster = replace(cluster_of(preset("thesis"), nodes=2000, years=0.2), is_hashed=False)
    rows = {row["figure"]: row for row in simulate(cluster, years=0.2).rows()}
    assert cluster.partitions == usual_partitions(2000, 6) == 8192
    mean = rows["mean time of repair"]
    assert mean["value"] == pytest.approx(mean["calculated"], rel=0.25)
    assert rows["moved bytes"]["value"] == pytest.approx(rows["moved bytes"]["calculated"], rel=0.2)


SCENARIO = preset("national")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": 2}, "cannot simulate 2 nodes"),
        ({"nodes": 10_000_000}, "cannot simulate 10,000,000 nodes"),
        ({"partitions": 1 << 24}, "partitions"),
        ({"liars": 1.0}, "nodes that lie"),
        ({"check_s": 0.0}, "checks"),
        ({"lives": ExponentialLives(1.0)}, "a minute or more"),
    ],
)
def test_clusters_that_cannot_be(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cluster_of(SCENARIO, **values)  # type: ignore[arg-type]


def test_times_that_cannot_be() -> None:
    cluster = cluster_of(SCENARIO)
    for values in ({"years": 0.0}, {"years": 1e9}, {"runs": 0}):
        with pytest.raises(UsageError, match="cannot simulate"):
            simulate(cluster, **values)  # type: ignore[arg-type]
    for mean, shape in ((0.0, None), (math.inf, None), (5.0, 0.0)):
        with pytest.raises(UsageError):
            lives_of(mean, shape)


def test_a_preset_is_named() -> None:
    assert cluster_of("thesis") == cluster_of(preset("thesis"))
    with pytest.raises(UnknownName, match="no preset 'large': there are thesis, national"):
        cluster_of("large")
    with pytest.raises(UnknownName, match="no replacement 'never': there are join, "):
        cluster_of("thesis", replacement="never")


@pytest.mark.parametrize("wrong", [None, b"thesis", [], object()])
def test_arguments_of_wrong_types(wrong: object) -> None:
    for function in (preset, cluster_of, lives_of):
        with pytest.raises(UsageError, match="bad argument"):
            function(wrong)  # type: ignore[operator]
