"""Removal everywhere (N2): with one node down and one cut off; nothing comes back, and no disk that serves has it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from copy_cluster import Cluster, Node, cluster_of
from copy_world import entries_of, seeded, some_pages
from waiting import wait_until

import holdfast
from holdfast.archive.ingest.exchange import Exchange, drafts_of
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.removal import removals as removals_module
from holdfast.errors import CaptureNotFound, ClusterDown, UsageError
from holdfast.records.draft import Drafting
from holdfast.records.selection import ChosenRecords, Selection

WHY = RemovalOptions("the owner asked")
REFUSE = RemovalOptions("the owner asked", refuse=True)
EVIL = Selection(CaptureQuery(url="*.evil.example"))
IMAGE = b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n\r\n"  # stored as it is, so that raw files can be searched
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def evil(random: Random, count: int) -> list[Exchange]:
    return [
        Exchange(
            f"http://www.evil.example/{random.randrange(10**9)}",
            IMAGE,
            random.randbytes(3000 if number % 2 else 500),
            "20260101000000",
            GET if number % 3 else b"",
        )
        for number in range(count)
    ]


def traces(node: Node, pages: list[Exchange]) -> list[str]:
    """Where something of the pages still is: in raw files, in records, in the catalog."""
    found = []
    for path in node.path.rglob("*"):
        if path.is_file() and path.name not in ("audit.log", "LOG"):
            raw = path.read_bytes()
            found += [str(path) for page in pages if page.body[:200] in raw]
    for batch in node.archive.journal.names():
        found += [str(record) for record, entry in entries_of(node.archive, batch) if "evil.example" in entry.url]
    found += [row.capture.url for row in node.archive.search(CaptureQuery(url="*.evil.example"))]
    return found


def gone_from(cluster: Cluster, pages: list[Exchange]) -> None:
    for node in cluster.live():
        wait_until(lambda node=node: _is_clean(node, pages), f"nothing is left on {node.name}")


def _is_clean(node: Node, pages: list[Exchange]) -> bool:
    try:
        return not traces(node, pages)
    except FileNotFoundError:  # a removal has rewritten it meanwhile
        return False


@pytest.mark.parametrize("options", [WHY, REFUSE])
def test_one_node_is_down_and_one_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: RemovalOptions
) -> None:
    """Both remove before they serve, also captures that only they had; nothing comes back by repair."""
    monkeypatch.setattr(removals_module, "HEARD_S", 0.3)
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5", train_after=0) as cluster:
        good = some_pages(random, 30)
        bad = evil(random, 12)
        cluster.nodes["n1"].add([*good[:15], *bad[:4]])
        cluster.nodes["n2"].add([*good[15:], *bad[4:8]])
        cluster.settle()
        down, away = cluster.nodes["n4"], cluster.nodes["n5"]
        cluster.stop("n4")
        with holdfast.open(down.path) as alone:  # it records something that nobody else gets to know
            alone.add(bad[8:10])
        away.log.is_down = True
        away.copies.stop()  # cut off from all others, too
        away.add(bad[10:])
        cluster.alive.discard("n5")
        removal = cluster.nodes["n1"].copies.remove(EVIL, options, who="jo")
        assert removal.confirmed.keys() >= {"n1"}
        gone_from(cluster, bad)
        wait_until(
            lambda: cluster.nodes["n1"].copies.removals.status(removal.id).confirmed.keys() == {"n1", "n2", "n3"},
            "the nodes that are there confirm",
        )
        away.archive.close()
        with pytest.raises(ClusterDown):  # cut off from the log, it does not even begin
            cluster.start("n5")
        away.copies.stop()
        away.archive.close()
        away.log.is_down = False
        cluster.start("n4")
        cluster.start("n5")
        assert not traces(down, bad) and not traces(away, bad)  # at once: before it answered anybody
        cluster.settle()
        for node in cluster.live():
            node.copies.repair(deep=False)
        cluster.settle()
        gone_from(cluster, bad)
        cluster.check_digests()
        confirmed = cluster.nodes["n1"].copies.removals.status(removal.id).confirmed
        assert confirmed.keys() == {"n1", "n2", "n3", "n4", "n5"} and confirmed["n4"] >= 2 and confirmed["n5"] >= 2
        for node in cluster.live():
            lines = [json.loads(line) for line in (node.path / "audit.log").read_text().splitlines()]
            (line,) = [each for each in lines if each.get("id") == removal.id]
            assert (line["who"], line["reason"], line["records"]) == ("jo", "the owner asked", confirmed[node.name])
        for page in good:
            found = [node for node in cluster.live() if list(node.archive.search(CaptureQuery(url=page.url)))]
            assert len(found) >= 3


def test_what_is_refused_is_refused_on_all_nodes(tmp_path: Path) -> None:
    """Also where it never was: refusals travel."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5") as cluster:
        one = cluster.nodes["n1"]
        drafts = drafts_of(evil(random, 6), Drafting("main"), one.archive.env)
        one.archive.add_drafts(drafts)
        cluster.settle()
        one.copies.remove(EVIL, REFUSE)
        wait_until(lambda: len(set(_positions(cluster))) == 1, "all nodes have come as far")
        for node in cluster.live():
            added = node.archive.add_drafts(drafts)
            assert [each.outcome for each in added] == ["refused"] * len(added)


def _positions(cluster: Cluster) -> list[int]:
    return [node.copies.removals.position for node in cluster.live()]


def test_a_selection_is_applied_once(tmp_path: Path) -> None:
    """What is imported again after a removal that did not refuse it stays, also if the tables are lost."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        bad = evil(random, 4)
        cluster.nodes["n1"].add(bad)
        cluster.settle()
        cluster.nodes["n2"].copies.remove(EVIL, WHY)
        gone_from(cluster, bad)
        cluster.nodes["n3"].add(bad)
        cluster.settle()
        for name in ("n1", "n2", "n3"):
            cluster.stop(name)
            for path in (cluster.nodes[name].path / "cluster").iterdir():
                path.rename(tmp_path / f"lost-{name}-{path.name}")
            cluster.start(name)
        cluster.settle()
        for node in cluster.live():
            assert len({row.capture.url for row in node.archive.search(CaptureQuery(url="*.evil.example"))}) == 4


def test_a_node_that_returns_late_keeps_what_was_captured_after_the_removal(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        cluster.stop("n3")
        cluster.nodes["n1"].copies.remove(EVIL, WHY)
        old, new = evil(random, 2)
        with holdfast.open(cluster.nodes["n3"].path) as alone:
            alone.add([old, replace(new, timestamp="20991231000000")])
        cluster.start("n3")
        cluster.settle()
        for node in cluster.live():
            assert {row.capture.url for row in node.archive.search(CaptureQuery(url="*.evil.example"))} == {new.url}


def test_a_batch_and_a_collection(tmp_path: Path) -> None:
    """A batch is that of the node that recorded: its copies are in other batches."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3") as cluster:
        one, two = cluster.nodes["n1"], cluster.nodes["n2"]
        one.archive.add(some_pages(random, 10), batch="old")
        one.archive.add(some_pages(random, 10), batch="new", collection="other")
        two.archive.add(some_pages(random, 10))
        cluster.settle()
        two.copies.remove(Selection(batch="old.n1"), WHY)
        wait_until(lambda: len(set(_positions(cluster))) == 1, "all nodes have come as far")
        cluster.settle()
        for node in cluster.live():
            assert not list(node.copies.origins.rows("old.n1"))
            assert list(node.copies.origins.rows("new.n1"))
        two.copies.remove(Selection(collection="other"), WHY)
        wait_until(lambda: len(set(_positions(cluster))) == 1, "all nodes have come as far")
        cluster.settle()
        for node in cluster.live():
            assert not list(node.copies.origins.rows("new.n1"))
            assert sum(1 for batch in node.copies.origins.batches() for _ in node.copies.origins.rows(batch)) >= 10


def test_bad_requests_change_nothing(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1") as cluster:
        copies = cluster.nodes["n1"].copies
        records = cluster.nodes["n1"].add(evil(seeded(), 2))
        with pytest.raises(UsageError):
            copies.remove(EVIL, RemovalOptions(" "))
        with pytest.raises(UsageError):
            copies.remove(Selection(CaptureQuery(url="*", filters=("404",))), WHY)
        with pytest.raises(UsageError):
            copies.remove(ChosenRecords(records=tuple(records)), WHY)
        assert copies.removals.position == 0
        cluster.nodes["n1"].log.is_down = True
        with pytest.raises(ClusterDown, match=r"may not have begun.*give it again"):
            copies.remove(EVIL, WHY)
        assert cluster.nodes["n1"].archive.records.read(records[0])
        cluster.nodes["n1"].log.is_down = False
        copies.remove(EVIL, WHY)
        with pytest.raises(CaptureNotFound):
            cluster.nodes["n1"].archive.records.read(records[0])


def test_a_node_that_has_not_heard_of_removals_lately_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster_of(tmp_path, "n1", "n2") as cluster:
        cluster.settle()
        one = cluster.nodes["n1"]
        assert one.copies.may_serve
        one.log.is_down = True
        monkeypatch.setattr(removals_module, "HEARD_S", 0.0)
        assert not one.copies.may_serve
        with pytest.raises(ClusterDown):
            one.copies.removals.applied(0)
