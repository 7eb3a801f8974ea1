"""Repair from other holders (H6, N10, N13): flipped bytes, lost files, a lost volume, a node that was away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from copy_cluster import Cluster, Node, bytes_of, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

import holdfast
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies import repair as repair_module
from holdfast.cluster.copies.protocol.peers import Peer
from holdfast.cluster.copies.repair import PeerComparison, RateLimit, Repairer
from holdfast.errors import Damaged, HoldfastError
from holdfast.model import ContentKey, RecordId
from holdfast.records.selection import Selection
from holdfast.storage.maintenance.check import CheckOptions

WHY = RemovalOptions("the owner asked")


def filled(cluster: Cluster, random: Random, count: int = 30, domains: int = 40) -> dict[RecordId, bytes]:
    """Records by their origin, on all holders."""
    added = {}
    for node in cluster.live():
        added |= {
            record: bytes_of(node.archive, record) for record in node.add(some_pages(random, count, domains=domains))
        }
    cluster.settle()
    return added


def whole(node: Node, added: dict[RecordId, bytes]) -> None:
    """The node has all of it, byte for byte, and its archive is sound."""
    for record, raw in added.items():
        assert bytes_of(node.archive, record) == raw
    report = holdfast.check(node.path, CheckOptions(deep=True))
    assert [str(fault) for fault in report.faults if fault.kind != "damaged frame"] == []


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x40]))


def a_content(node: Node, added: dict[RecordId, bytes], random: Random) -> tuple[RecordId, ContentKey]:
    keyed = [each for each in added if node.archive.records.read(each).entry.contentkeys]
    record = random.choice(keyed)
    return record, ContentKey.parse(node.archive.records.read(record).entry.contentkeys[0])


def test_a_flipped_byte_of_a_block(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        added = filled(cluster, random)
        two = cluster.nodes["n2"]
        record, key = a_content(two, added, random)
        place = two.archive.contents.stat(key).place
        name, _, offset = place.rpartition("@")
        flip(Path(name), int(offset) + 200 + random.randrange(20))
        with pytest.raises(Damaged):
            two.archive.contents.get(key)
        two.copies.repair()
        wait_until(lambda: two.copies.counts()["repair"]["healed"] >= 1, "the block is healed")
        assert bytes_of(two.archive, record) == added[record]
        whole(two, added)


def test_flipped_bytes_of_a_batch_file(tmp_path: Path) -> None:
    """The records of the frame come back as copies, under the ids they had."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        added = {}
        for _ in range(3):
            added |= filled(cluster, random, 10)
        two = cluster.nodes["n2"]
        (file,) = (two.path / "batches").glob("*/records-000001.tw.zst")
        flip(file, random.randrange(2000, file.stat().st_size - 200))
        two.copies.repair()
        wait_until(lambda: two.copies.counts()["repair"]["reread"] >= 1, "the damage is found")
        cluster.settle()
        cluster.check_digests()
        whole(two, added)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_lost_batch_file(tmp_path: Path, name: str) -> None:
    """Numbers that were given are not given again."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        added = filled(cluster, random)
        node = cluster.nodes[name]
        cluster.stop(name)
        for file in (node.path / "batches").glob("*/records-*"):
            file.unlink()
        shutil.rmtree(node.path / "catalog")  # as 'holdfast reindex' does
        cluster.start(name)
        cluster.settle()
        cluster.check_digests()
        whole(node, added)
        new = node.add(some_pages(random, 5))
        assert not set(new) & set(added)
        cluster.settle()
        for record in new:
            assert bytes_of(cluster.nodes["n3"].archive, record) == bytes_of(node.archive, record)


def test_a_lost_volume(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        added = filled(cluster, random)
        two = cluster.nodes["n2"]
        cluster.stop("n2")
        shutil.rmtree(two.path / "volumes" / "v0")
        (two.path / "volumes" / "v0").mkdir()
        holdfast.check(two.path, CheckOptions(repair=True, recreate=True))
        cluster.start("n2")
        wait_until(lambda: _is_readable(two, added), "all contents are back")
        whole(two, added)
        assert two.copies.counts()["repair"]["restored"] > 0
        for node in cluster.live():  # counters are exact: what is removed leaves nothing behind
            node.archive.remove(Selection(CaptureQuery(url="*")), RemovalOptions("all of it"))
            assert node.archive.instance.volume("v0").stat().blocks == 0


def _is_readable(node: Node, added: dict[RecordId, bytes]) -> bool:
    try:
        return all(bytes_of(node.archive, record) == raw for record, raw in added.items())
    except HoldfastError:
        return False


def test_a_node_that_was_away_gets_what_it_missed_and_gives_what_it_has(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4") as cluster:
        added = filled(cluster, random)
        cluster.stop("n4")
        for node in cluster.live():
            added |= {record: bytes_of(node.archive, record) for record in node.add(some_pages(random, 20))}
        cluster.settle()
        with holdfast.open(cluster.nodes["n4"].path) as alone:
            ids = [each.record for each in alone.add(some_pages(random, 10))]
            added |= {record: bytes_of(alone, record) for record in ids if record is not None}
        cluster.start("n4")
        cluster.settle()
        cluster.check_digests()
        one = cluster.nodes["n1"].copies
        for record, raw in added.items():
            row = next(row for node in cluster.live() if (row := node.copies.origins.find(record)) is not None)
            for name in one.holders.of(row.partition):
                assert bytes_of(cluster.nodes[name].archive, record) == raw


def test_records_of_a_node_that_died_reach_those_who_had_not_pulled_them(tmp_path: Path) -> None:
    """Only one holder has them: the others find that when the death is noticed."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", ack_copies=2) as cluster:
        filled(cluster, random)
        one, three = cluster.nodes["n1"], cluster.nodes["n3"]
        with three.copies.removals.lock:  # n3 is slow: it pulls nothing
            records = one.add(some_pages(random, 20))
            assert one.copies.wait_safe(records[-1], 120)
            raws = {record: bytes_of(one.archive, record) for record in records}
            cluster.destroy("n1")
        cluster.settle()
        for record, raw in raws.items():
            assert bytes_of(three.archive, record) == raw


def test_the_odd_one_of_three_is_named(tmp_path: Path) -> None:
    """A node that refuses a record of the others."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        pages = some_pages(random, 20)
        cluster.nodes["n1"].add(pages)
        cluster.settle()
        three = cluster.nodes["n3"]
        partition = three.copies.origins.rule.of_url(pages[0].url)
        here = Selection(CaptureQuery(url=pages[0].url))
        with three.copies.removals.lock:  # as removals do
            three.archive.remove_here(here, RemovalOptions("only here", refuse=True))
        one = cluster.nodes["n1"].copies

        def is_named() -> bool:
            """After one more comparison with both: the first one may have begun before all was settled."""
            compared = one.counts()["repair"]["compared"]
            one.repair(deep=False)
            wait_until(lambda: one.counts()["repair"]["compared"] >= compared + 2, "all were compared")
            return one.counts()["odd"] == {partition: "n3"}

        wait_until(is_named, "the odd one is named")


def test_the_rate_of_repair_is_limited() -> None:
    limit = RateLimit(1000)
    assert limit.wait_s == 0
    limit.spend(10_000)
    assert 9 < limit.wait_s <= 10
    limit.spend(5_000)
    assert 14 < limit.wait_s <= 15
    unlimited = RateLimit(0)
    unlimited.spend(10**12)
    assert unlimited.wait_s == 0


def test_scarce_partitions_are_filled_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new node takes what has one live holder before what has two."""
    monkeypatch.setattr(repair_module, "PARTITIONS_DETAILED_MAX", 1)
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", copies=2) as cluster:
        filled(cluster, random, 60, domains=200)  # records in nearly all partitions
        order: list[int] = []
        fill = Repairer._fill

        def noted(self: Repairer, peer: Peer, partitions: Sequence[int], comparison: PeerComparison) -> Iterator[None]:
            if self._node == "n5":
                order.extend(partitions)
            return fill(self, peer, partitions, comparison)

        cluster.stop("n4")
        monkeypatch.setattr(Repairer, "_fill", noted)
        cluster.alive = {"n1"}  # n5 sees one live node, and compares all its partitions with it
        cluster.join("n5")
        five = cluster.nodes["n5"].copies
        wait_until(lambda: five.in_sync() == five.held(), "the new node has what n1 has")
        counts = [len({"n1", "n5"}.intersection(five.holders.of(each))) for each in order]
        assert counts == sorted(counts) and set(counts) == {1, 2}
        cluster.alive |= {"n2", "n3"}
