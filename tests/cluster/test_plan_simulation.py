"""Plans of clusters: the simulator and six real nodes on one schedule of losses (H9)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from copy_cluster import PARTITIONS, Cluster, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

from holdfast.archive.ingest.exchange import page
from holdfast.plan.lifetimes import ExponentialLives
from holdfast.plan.simulation import Replacement, SimulatedCluster, Simulation

NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")
SCHEDULE = ("n2", "n5", "n1")
COPIES = 3
NODE_BYTES_S = 50_000.0
RECORD_BYTES = 8_000


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


@pytest.mark.soak
def test_times_of_repair_beside_the_simulators(tmp_path: Path) -> None:
    """Six nodes that repair at a limited rate. The times are printed (`pytest -s`); they should be within 25 %."""
    random = seeded()
    with cluster_of(tmp_path, *NAMES, train_after=0, repair_bytes_s=NODE_BYTES_S) as cluster:
        urls = [f"http://site{number}.example/" for number in range(720)]
        for number, node in enumerate(cluster.live()):
            node.add([page(url, random.randbytes(RECORD_BYTES), "image/png") for url in urls[number :: len(NAMES)]])
        cluster.settle()
        simulation = Simulation(
            SimulatedCluster(
                *(len(NAMES), COPIES, PARTITIONS, ExponentialLives(1e15)),
                stored_bytes=float(len(urls) * RECORD_BYTES),
                bandwidth_bytes_s=NODE_BYTES_S,
                lost_after_s=0.0,
                replacement=Replacement.NONE,
                placement_ids=[cluster.members.get(name).placement_id for name in NAMES],
            ),
            1,
        )
        for name in SCHEDULE[:2]:
            simulation.now += 1e9  # all that was pulled is in sync
            simulation.counts.repair_longest_s = 0.0
            simulation.kill(NAMES.index(name))
            cluster.destroy(name)
            begun = time.monotonic()
            cluster.forget(name)
            cluster.settle()
            taken, expected = time.monotonic() - begun, simulation.counts.repair_longest_s
            print(f"repair after {name}: {taken:.1f} s, simulated {expected:.1f} s, {taken / expected:.2f} times")
            assert simulated(simulation) == held_by(cluster)
