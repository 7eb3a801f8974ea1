"""`cluster split` (H1, N8): the records of a huge domain go to the holders of its parts, and stay findable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from copy_cluster import PARTITIONS, Cluster, cluster_of
from copy_world import digests_of, rebuilt, seeded, some_pages
from waiting import wait_until

from holdfast.archive.ingest.exchange import Exchange
from holdfast.catalog import CaptureQuery
from holdfast.cluster.copies.partitions import PartitionRule, split_domain
from holdfast.cluster.membership.members import MemberList
from holdfast.errors import UsageError

HUGE = "huge.example"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def huge_pages(random: Random, count: int) -> list[Exchange]:
    return [
        Exchange(
            f"http://www.{HUGE}/section{number % 12}/x/{number}",
            HEAD,
            random.randbytes(1500).hex().encode(),
            "20260101000000",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if number % 2 else b"",
        )
        for number in range(count)
    ]


def split(cluster: Cluster, parts: int) -> None:
    cluster.members = cluster.members.with_split(HUGE, parts)
    cluster.wake()
    wait_until(
        lambda: all(node.copies.origins.rule.splits == cluster.members.splits for node in cluster.live()),
        "all nodes have the new rule",
    )
    cluster.settle()


def dropped(cluster: Cluster) -> None:
    """Who need not have a record has none."""
    for node in cluster.live():
        node.copies.repair(deep=False)
    wait_until(
        lambda: all(node.copies.origins.held().keys() <= node.copies.held() for node in cluster.live()),
        "all others have dropped what they do not hold",
    )


def holders_of(cluster: Cluster, pages: list[Exchange]) -> dict[str, set[str]]:
    found = {
        node.name: {row.capture.url for row in node.archive.search(CaptureQuery(url=f"*.{HUGE}"))}
        for node in cluster.live()
    }
    return {page.url: {name for name, urls in found.items() if page.url in urls} for page in pages}


def test_a_domain_is_split_and_made_whole_again(tmp_path: Path) -> None:
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", "n5", copies=2) as cluster:
        pages = huge_pages(random, 48)
        cluster.nodes["n1"].add([*some_pages(random, 40), *pages[:24]])
        cluster.nodes["n2"].add(pages[24:])
        cluster.settle()
        dropped(cluster)
        before = holders_of(cluster, pages)
        assert len({frozenset(names) for names in before.values()}) == 1
        split(cluster, 8)
        dropped(cluster)
        after = holders_of(cluster, pages)
        assert len({frozenset(names) for names in after.values()}) > 1, "more nodes hold it"
        assert all(len(names) == 2 for names in after.values())
        rule = PartitionRule(PARTITIONS, cluster.members.splits)
        for page in pages:
            number = rule.of_url(page.url)
            assert number is not None
            assert after[page.url] == set(cluster.nodes["n1"].copies.holders.of(number))
        cluster.check_digests()
        cluster.nodes["n5"].add(huge_pages(random, 12))  # new records go by the new rule
        cluster.settle()
        split(cluster, 1)
        dropped(cluster)
        assert holders_of(cluster, pages) == before
        cluster.check_digests()
        for name in list(cluster.alive):  # the tables are what the batches say
            node = cluster.nodes[name]
            kept = digests_of(node.copies.origins)
            rule = node.copies.origins.rule
            cluster.alive.discard(name)
            node.copies.stop()
            assert rebuilt(node.archive, rule) == kept
            node.archive.close()


def test_a_node_that_was_away_when_a_domain_was_split(tmp_path: Path) -> None:
    """It moves its own records when it returns, before it is in sync."""
    random = seeded()
    with cluster_of(tmp_path, "n1", "n2", "n3", copies=2) as cluster:
        pages = huge_pages(random, 30)
        cluster.nodes["n1"].add(pages)
        cluster.settle()
        cluster.stop("n3")
        split(cluster, 6)
        cluster.start("n3")
        cluster.settle()
        dropped(cluster)
        assert all(len(names) == 2 for names in holders_of(cluster, pages).values())
        cluster.check_digests()


def test_a_node_that_does_not_know_the_split_is_not_in_sync(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", copies=2) as cluster:
        cluster.settle()
        one = cluster.nodes["n1"].copies
        assert one.in_sync()
        one._follow_splits = lambda: None  # type: ignore[method-assign]  # it has not come to it yet
        cluster.members = cluster.members.with_split(HUGE, 4)
        assert not one.in_sync()


def test_members_keep_splits() -> None:
    members = MemberList(3).with_split(HUGE, 4)
    assert (members.epoch, members.split_epoch, members.splits) == (4, 4, {HUGE: 4})
    assert MemberList.from_json(members.to_json()) == members
    assert members.with_split(HUGE, 4) is members
    assert members.without("n1").splits == {HUGE: 4}
    assert replace(members, splits={}, split_epoch=0).to_json() == MemberList(4).to_json()


@pytest.mark.parametrize("text", ["", "localhost", "http://a.example/", "a b.example", "www.huge.example", "..", "x/y"])
def test_bad_domains(text: str) -> None:
    with pytest.raises(UsageError):
        split_domain(text)


def test_domains_are_normalized() -> None:
    assert split_domain(" Huge.Example. ") == HUGE
