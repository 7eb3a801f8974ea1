"""Plans of clusters: the simulator and six real nodes on one schedule of losses (H9)."""

from __future__ import annotations

from pathlib import Path

from copy_cluster import PARTITIONS, Cluster, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

from holdfast.plan.lifetimes import ExponentialLives
from holdfast.plan.simulation import Replacement, SimulatedCluster, Simulation

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
SCHEDULE = ("n2", "n5", "n1")
COPIES = 3


def held_by(cluster: Cluster) -> set[tuple[int, str]]:
    """What real nodes hold: partition and name."""
    return {(partition, node.name) for node in cluster.live() for partition in node.copies.held()}


def records_of(cluster: Cluster) -> dict[int, int]:
    """How many records each partition has."""
    found: dict[int, set[object]] = {}
    for node in cluster.live():
        node.copies.origins.catch_up()
        for batch in node.copies.origins.batches():
            for row in node.copies.origins.rows(batch):
                found.setdefault(row.partition, set()).add(row.origin)
    return {partition: len(rows) for partition, rows in found.items()}


def received(cluster: Cluster) -> dict[str, int]:
    return {node.name: node.copies.counts()["copies"]["records"] for node in cluster.live()}


def simulated(simulation: Simulation) -> set[tuple[int, str]]:
    nodes = simulation.ranking.nodes[:, :COPIES]
    return {(at, NAMES[node]) for at, row in enumerate(nodes.tolist()) for node in row if node >= 0}


def test_moved_copies_are_those_of_six_real_nodes(tmp_path: Path) -> None:
    with cluster_of(tmp_path, *NAMES, train_after=0) as cluster:
        random = seeded()
        for node in cluster.live():
            node.add(some_pages(random, 30, domains=200))
        cluster.settle()
        for node in cluster.live():
            node.copies.repair(deep=False)  # who is no holder drops
        for node in cluster.live():
            wait_until(lambda node=node: node.copies.origins.held().keys() <= node.copies.held(), "all have dropped")
        ids = [cluster.members.get(name).placement_id for name in NAMES]
        simulation = Simulation(
            SimulatedCluster(
                len(NAMES),
                COPIES,
                PARTITIONS,
                ExponentialLives(1e15),
                stored_bytes=1.0,
                replacement=Replacement.NONE,
                placement_ids=ids,
            ),
            1,
        )
        records = records_of(cluster)
        assert simulated(simulation) == held_by(cluster)
        for name in SCHEDULE:
            before, had, moved = simulated(simulation), received(cluster), simulation.counts.repaired_copies
            simulation.now += 1e9  # all that was pulled is in sync
            simulation.kill(NAMES.index(name))
            cluster.destroy(name)
            cluster.forget(name)
            cluster.settle()
            new = simulated(simulation) - before
            assert simulated(simulation) == held_by(cluster)
            assert simulation.counts.repaired_copies - moved == len(new) > 0
            expected = {each.name: 0 for each in cluster.live()}
            for partition, holder in new:
                expected[holder] += records.get(partition, 0)
            gained = {each: count - had[each] for each, count in received(cluster).items()}
            assert gained == expected
        assert not simulation.lost.any()
