"""Only what must move moves (N8, H2): join, loss, leave, changed weight. Bytes received against the formula."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from copy_cluster import Cluster, Node, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

from holdfast.batches.entry import JournalEntry
from holdfast.cluster.copies.blocks import LocalBlocks
from holdfast.cluster.copies.origins import OriginRow
from holdfast.model import RecordId
from holdfast.records.draft import signatures_of


class Expected:
    """What each node must receive in the next epoch: the records of its new partitions that it lacks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rows: dict[RecordId, tuple[OriginRow, JournalEntry]] = {}
        self._blocks: dict[bytes, int] = {}  # stored bytes of each content
        for node in cluster.live():
            node.copies.origins.catch_up()
            local = LocalBlocks(node.archive)
            for batch in node.copies.origins.batches():
                for row in node.copies.origins.rows(batch):
                    entry = node.archive.records.entry(row.record)
                    assert entry is not None
                    self._rows[row.origin] = row, entry
                    for signature in () if entry.is_inline else signatures_of(entry):
                        encoded = local.encoded(signature)
                        assert encoded is not None
                        self._blocks[signature] = len(encoded.data)
        self._had = {node.name: self._received(node) for node in cluster.live()}

    def _received(self, node: Node) -> tuple[int, int, int]:
        counts = node.copies.counts()["copies"]
        return counts["records"], counts["blocks"], counts["block_bytes"]

    def missing(self, node: Node) -> tuple[int, int, int]:
        """Records, blocks and bytes that the node lacks of what it holds now."""
        held = node.copies.held()
        lacking = [
            entry
            for row, entry in self._rows.values()
            if row.partition in held and node.copies.origins.find(row.origin) is None
        ]
        wanted = [each for entry in lacking if not entry.is_inline for each in signatures_of(entry)]
        absent = LocalBlocks(node.archive).missing(wanted)
        return len(lacking), len(absent), sum(self._blocks[each] for each in absent)

    def check(self, formula: dict[str, tuple[int, int, int]]) -> None:
        """Each node has received just what the formula says."""
        self._cluster.settle()
        self._cluster.check_digests()
        for node in self._cluster.live():
            with node.copies.removals.lock:  # what was added has been counted
                had = self._had.get(node.name, (0, 0, 0))
                received = tuple(now - then for now, then in zip(self._received(node), had, strict=True))
                assert received == formula[node.name], node.name


def filled(cluster: Cluster) -> None:
    random = seeded()
    for node in cluster.live():
        node.add(some_pages(random, 50, domains=200))
    cluster.settle()


def held_back(cluster: Cluster) -> None:
    """Nobody pulls while the expectation is computed."""
    for node in cluster.live():
        node.copies.removals.lock.acquire()


def released(cluster: Cluster, nodes: list[Node]) -> None:
    for node in nodes:
        node.copies.removals.lock.release()


def test_a_node_that_joins_receives_its_share_and_nobody_else_anything(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", train_after=0) as cluster:
        filled(cluster)
        expected = Expected(cluster)
        nodes = cluster.live()
        held_back(cluster)
        try:
            cluster.join("n5", start=False)
            formula = {node.name: expected.missing(node) for node in [*nodes, cluster.nodes["n5"]]}
        finally:
            released(cluster, nodes)
        assert formula["n5"][0] > 0
        assert all(formula[node.name] == (0, 0, 0) for node in nodes)
        cluster.begin("n5")
        expected.check(formula)


@pytest.mark.parametrize("way", ["forgotten", "lost", "leaving"])
def test_what_a_node_held_that_goes_is_taken_by_one_new_holder_each(tmp_path: Path, way: str) -> None:
    """One that leaves runs on, and receives nothing. One that is lost stays a member: it may come back."""
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5", train_after=0) as cluster:
        filled(cluster)
        for node in cluster.live():
            node.copies.repair(deep=False)  # who is no holder drops
        for node in cluster.live():
            wait_until(
                lambda node=node: node.copies.origins.held().keys() <= node.copies.held(),
                "nobody has what others hold",
            )
        expected = Expected(cluster)
        before = {number: cluster.nodes["n1"].copies.holders.of(number) for number in range(64)}
        if way != "leaving":
            cluster.destroy("n2")
        nodes = cluster.live()
        held_back(cluster)
        try:
            if way == "forgotten":
                cluster.forget("n2")
            else:
                cluster.members = cluster.members.with_member(replace(cluster.members.get("n2"), state=way))
            formula = {node.name: expected.missing(node) for node in nodes}
        finally:
            released(cluster, nodes)
        after = {number: cluster.nodes["n1"].copies.holders.of(number) for number in range(64)}
        assert all(len(set(after[each]) - set(before[each])) == ("n2" in before[each]) for each in before)
        assert sum(records for records, _, _ in formula.values()) > 0
        assert formula.get("n2", (0, 0, 0)) == (0, 0, 0)
        expected.check(formula)


def test_a_changed_weight_moves_the_difference(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5", train_after=0) as cluster:
        filled(cluster)
        expected = Expected(cluster)
        nodes = cluster.live()
        held_back(cluster)
        try:
            cluster.members = cluster.members.with_member(replace(cluster.members.get("n3"), weight=4.0))
            formula = {node.name: expected.missing(node) for node in nodes}
        finally:
            released(cluster, nodes)
        assert formula["n3"][0] > 0
        assert all(formula[name] == (0, 0, 0) for name in formula if name != "n3")
        expected.check(formula)
