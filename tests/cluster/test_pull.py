"""Holders pull (H6, H1, N1): each record on k nodes, only missing blocks, acknowledged once it is safe."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from copy_cluster import PARTITIONS, all_bytes, bytes_of, cluster_of
from copy_world import seeded, some_pages
from waiting import wait_until

from holdfast.archive.ingest.exchange import drafts_of
from holdfast.cluster.answers.shard.shard import NodeShard
from holdfast.cluster.answers.streams import answer_batches
from holdfast.model import RecordId
from holdfast.records.draft import Drafting
from holdfast.web.auth.access import Access


def test_what_is_added_anywhere_reaches_its_holders(tmp_path: Path) -> None:
    """On five nodes, three copies; byte for byte, by both ids, and safe."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5") as cluster:
        added = {}
        for _ in range(4):
            for node in cluster.live():
                for record in node.add(some_pages(random, 8)):
                    added[record] = bytes_of(node.archive, record)
        for node in cluster.live():
            for batch in [name for name in node.archive.journal.names() if name.endswith(node.name)]:
                last = max(record.serial for record in added if record.batch == batch)
                assert node.copies.wait_all_safe(120)
                assert node.copies.wait_safe(next(each for each in added if each == (batch, last)), 120)
        cluster.settle()
        cluster.check_digests()
        for record, raw in added.items():
            for node in cluster.live():
                row = node.copies.origins.find(record)
                if row is not None:
                    assert bytes_of(node.archive, record) == raw == bytes_of(node.archive, row.record)
            row = cluster.nodes[record.batch.partition(".")[2]].copies.origins.find(record)
            assert row is not None
            for name in cluster.live()[0].copies.holders.of(row.partition):
                assert bytes_of(cluster.nodes[name].archive, record) == raw


def test_a_node_counts_what_it_records_itself(tmp_path: Path) -> None:
    """B5: pages a second, without copies."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2") as cluster:
        one, two = cluster.nodes["n1"], cluster.nodes["n2"]
        wait_until(lambda: one.add(some_pages(random, 1)) and one.copies.counts()["pages_per_s"], "n1 records")
        wait_until(lambda: two.copies.counts()["copies"]["records"], "n2 has copies")
        assert two.copies.counts()["pages_per_s"] == two.copies.origins.recorded == 0


def test_who_waits_for_copies_does_not_keep_a_node_from_stopping(tmp_path: Path) -> None:
    """`import --wait-safe 1d`, for example."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2") as cluster:
        cluster.stop("n2")
        one = cluster.nodes["n1"]
        (record, *_) = one.add(some_pages(random, 1))
        with ThreadPoolExecutor() as pool:
            waiting = [pool.submit(one.copies.wait_all_safe, 86400), pool.submit(one.copies.wait_safe, record, 86400)]
            waiters = one.copies.acknowledgements._changed._waiters  # type: ignore[attr-defined]
            wait_until(lambda: len(waiters) == len(waiting), "both wait")
            cluster.stop("n1")
            assert [each.result(120) for each in waiting] == [False, False]


def test_a_block_that_is_here_is_not_sent(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2") as cluster:
        one, two = cluster.nodes["n1"], cluster.nodes["n2"]
        page = next(each for each in some_pages(random, 50) if len(each.body) > 2000)
        one.add([page])
        cluster.settle()
        blocks = two.copies.counts()["copies"]["blocks"]
        assert blocks == 1
        one.add([replace(page, url=f"{page.url}/{number}") for number in range(5)])
        cluster.settle()
        wait_until(
            lambda: two.copies.counts()["copies"]["records"] == len(all_bytes(one.archive)), "all copies are counted"
        )
        assert two.copies.counts()["copies"]["blocks"] == blocks


def test_the_same_record_of_two_nodes_is_kept_once_under_both_ids(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        one, two = cluster.nodes["n1"], cluster.nodes["n2"]
        drafts = drafts_of(some_pages(random, 10), Drafting("main"), one.archive.env)
        for name in ("n1", "n2"):
            cluster.stop(name)
        for node in (one, two):
            node.start()
        ids = [[added.record for added in node.archive.add_drafts(deepcopy(drafts))] for node in (one, two)]
        for node in (one, two):
            node.copies.stop()
            node.archive.close()
            cluster.start(node.name)
        cluster.settle()
        cluster.check_digests()
        for node in cluster.live():
            for first, second in zip(*ids, strict=True):
                assert first is not None and second is not None and first != second
                assert node.archive.records.read(first).id == node.archive.records.read(second).id


def test_a_node_that_is_no_holder_drops_what_all_holders_have(tmp_path: Path) -> None:
    """And not before: with a holder away it keeps everything. The record stays readable at its holders."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4") as cluster:
        one = cluster.nodes["n1"]
        cluster.stop("n4")
        records = one.add(some_pages(random, 40))
        cluster.settle()
        raws = {record: bytes_of(one.archive, record) for record in records}
        partitions = {row.origin: row.partition for row in one.copies.origins.rows(records[0].batch)}
        foreign = [each for each in records if "n1" not in one.copies.holders.of(partitions[each])]
        assert foreign
        held_by_four = {each for each in foreign if "n4" in one.copies.holders.of(partitions[each])}
        expected = len(foreign) - len(held_by_four)
        one.copies.repair(deep=False)
        wait_until(lambda: one.copies.counts()["repair"]["dropped"] == expected, "what three others have is dropped")
        assert all(bytes_of(one.archive, each) for each in held_by_four)
        cluster.start("n4")
        cluster.settle()
        one.copies.repair(deep=False)
        wait_until(lambda: one.copies.counts()["repair"]["dropped"] == len(foreign), "all of it is dropped")
        cluster.settle()
        cluster.check_digests()
        assert {row.origin for row in one.copies.origins.rows(records[0].batch)} == set(records) - set(foreign)
        for record, raw in raws.items():
            for name in one.copies.holders.of(partitions[record]):
                assert bytes_of(cluster.nodes[name].archive, record) == raw
        assert (one.archive.path / "refused").exists() is False


def test_a_batch_is_followed_to_its_end_whatever_is_left_of_it(tmp_path: Path) -> None:
    """Its last records have gone to their holder; a node that holds none of it knows that it lacks none (B9)."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", copies=1, ack_copies=1) as cluster:
        one = cluster.nodes["n1"]

        def is_foreign(record: RecordId) -> bool:
            one.copies.origins.catch_up()
            row = one.copies.origins.find(record)
            return row is not None and "n1" not in one.copies.holders.of(row.partition)

        records = one.add(some_pages(random, 20))
        while not is_foreign(records[-1]):
            records = one.add(some_pages(random, 1))
        cluster.settle()
        one.copies.repair(deep=False)
        wait_until(lambda: one.copies.origins.find(records[-1]) is None, "the last record is dropped")
        cluster.join("n3")
        three = cluster.nodes["n3"]
        shard = NodeShard(three.archive, Access(), lambda: three.copies.origins.rule)

        def pulled() -> int:
            answer, _ = answer_batches(shard, {}, three.copies.held())
            return answer["pulled"].get(records[-1].batch, 0)

        wait_until(lambda: pulled() == records[-1].serial + 1, "n3 has looked at all of the batch of n1")


def test_nothing_is_dropped_while_a_holder_lacks_it(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4") as cluster:
        cluster.settle()
        one, three = cluster.nodes["n1"], cluster.nodes["n3"]
        with three.copies.removals.lock:  # n3 answers, and pulls nothing
            records = one.add(some_pages(random, 40))
            one.copies.origins.catch_up()
            foreign = {
                row.origin
                for row in one.copies.origins.rows(records[0].batch)
                if "n1" not in one.copies.holders.of(row.partition)
            }
            assert foreign  # n2, n3 and n4 hold it
            looks = one.copies.counts()["repair"]["drops"]
            one.copies.repair(deep=False)
            wait_until(lambda: one.copies.counts()["repair"]["drops"] > looks, "it has looked for what to drop")
            assert one.copies.counts()["repair"]["dropped"] == 0
        cluster.settle()
        one.copies.repair(deep=False)
        wait_until(lambda: one.copies.counts()["repair"]["dropped"] == len(foreign), "it is dropped")


def test_partitions_are_shared_out(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4") as cluster:
        cluster.settle()
        assert sum(len(node.copies.held()) for node in cluster.live()) == 3 * PARTITIONS
        assert all(node.copies.counts()["behind"] == 0 for node in cluster.live())
