"""What is superseded (B15) and what expires (B4) goes from all nodes of a cluster: nobody gives it back (N2)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from copy_cluster import Cluster, Node, cluster_of
from copy_world import seeded
from waiting import wait_until

import holdfast
from holdfast.archive.ingest.exchange import Exchange
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.crawl.frontier import Frontier, UrlRow, UrlState, key_of
from holdfast.crawl.job.job import CrawlJob, RevisitSettings
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.processes.messages import FetchOutcome
from holdfast.crawl.report.crawls import crawl_directory, keep_job
from holdfast.crawl.schedule.retention import expire, remove_superseded
from holdfast.errors import Busy, ClusterDown
from holdfast.records.selection import Selection

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
URLS = [f"http://www.site{number}.example/page" for number in range(10)]
OLD, LATER, NEWEST = "20260101000000", "20260201000000", "20260301000000"
DAY_S = 86400.0


def visit(timestamp: str, urls: list[str] = URLS) -> list[Exchange]:
    random = seeded()
    return [Exchange(url, HEAD, random.randbytes(2000).hex().encode(), timestamp, GET) for url in urls]


def times(node: Node) -> set[str]:
    return {row.capture.timestamp for row in node.archive.search(CaptureQuery(url="*"))}


def records(node: Node) -> int:
    node.copies.origins.catch_up()
    return sum(digest.records for digest in node.copies.origins.held().values())


def all_superseded_gone(cluster: Cluster) -> bool:
    for node in cluster.live():
        remove_superseded(node.archive)
    return all(times(node) == {NEWEST} for node in cluster.live())


def compared(cluster: Cluster) -> None:
    """All nodes compare everything with all others."""
    for node in cluster.live():
        node.copies.repair(deep=False)
    cluster.settle()
    cluster.check_digests()


def test_superseded_captures_go_from_all_nodes(tmp_path: Path) -> None:
    """Also from one that is away, before it serves."""
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4", keep="latest") as cluster:
        cluster.nodes["n1"].add(visit(OLD))
        cluster.nodes["n2"].add(visit(LATER))
        cluster.nodes["n3"].add(visit(NEWEST))
        cluster.settle()
        cluster.stop("n4")
        wait_until(lambda: all_superseded_gone(cluster), "each node removes what it holds, once it has compared")
        cluster.start("n4")
        compared(cluster)
        for node in cluster.live():
            assert times(node) == {NEWEST}
            held = sum(len(list(node.archive.search(CaptureQuery(url=url)))) for url in URLS)
            assert records(node) == 2 * held, "the requests went with the captures"
        for url in URLS:
            assert sum(bool(list(node.archive.search(CaptureQuery(url=url)))) for node in cluster.live()) >= 3
        cluster.stop("n1")
        cluster.start("n1")  # reads the log from its start
        compared(cluster)
        cluster.nodes["n2"].add(visit(OLD))  # what comes back on purpose is another record
        cluster.settle()
        assert OLD in times(cluster.nodes["n2"])


def test_a_node_removes_only_what_it_knows_all_captures_of(tmp_path: Path) -> None:
    """A later capture that is not here may refer to the one that would go."""
    with cluster_of(tmp_path, "n1", "n2", keep="latest", copies=1, ack_copies=1) as cluster:
        one = cluster.nodes["n1"]
        one.add([*visit(OLD), *visit(NEWEST)])
        cluster.settle()
        removed = remove_superseded(one.archive)
        held = [url for url in URLS if one.copies.origins.rule.of_url(url) in one.copies.held()]
        assert 0 < removed == len(held) < len(URLS)


def test_killed_after_it_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others remove what a node has announced; when it is back, it does so, too."""
    with cluster_of(tmp_path, "n1", "n2", "n3", keep="latest") as cluster:
        one = cluster.nodes["n1"]
        one.add([*visit(OLD), *visit(NEWEST)])
        cluster.settle()
        with monkeypatch.context() as patch:
            patch.setattr(one.archive._remover, "_write", _killed)
            with pytest.raises(KeyboardInterrupt):
                one.archive.updates.run()
            cluster.stop("n1")
        cluster.start("n1")
        compared(cluster)
        assert [times(node) for node in cluster.live()] == [{NEWEST}] * 3


def _killed(plan: object) -> None:
    """Nothing is written; the thread that applies removals, which a kill would end too, is refused."""
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    raise Busy("killed")


def test_nothing_is_removed_without_the_log(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", keep="latest", copies=2) as cluster:
        one = cluster.nodes["n1"]
        one.add([*visit(OLD), *visit(NEWEST)])
        cluster.settle()
        one.log.is_down = True
        with pytest.raises(ClusterDown):
            one.archive.updates.run()
        assert times(one) == {OLD, NEWEST}
        one.log.is_down = False
        assert one.archive.updates.run().captures == len(URLS)
        compared(cluster)
        assert [times(node) for node in cluster.live()] == [{NEWEST}] * 2


def gone(path: Path, urls: list[str]) -> None:
    """A crawl that has visited these pages long after their lifetime, and found nothing."""
    keep_job(path, CrawlJob(seeds=tuple(urls), name="old", revisit=RevisitSettings(lifetime_s=DAY_S)))
    frontier = Frontier(crawl_directory(path, "old") / FRONTIER)
    now = int(time.time())
    for url in urls:
        row = UrlRow(url, state=UrlState.DONE, outcome=FetchOutcome.OK, status=404, visited=now)
        frontier.settle(key_of(url), row._replace(reached=now - int(10 * DAY_S)))
    frontier.commit()
    frontier.close()


def test_expired_pages_go_from_all_nodes(tmp_path: Path) -> None:
    """Also captures that only a node has which is away."""
    with cluster_of(tmp_path, "n1", "n2", "n3", "n4") as cluster:
        one, four = cluster.nodes["n1"], cluster.nodes["n4"]
        one.add(visit(OLD))
        cluster.settle()
        cluster.stop("n4")
        with holdfast.open(four.path) as alone:
            alone.add(visit(LATER))
        gone(one.path, URLS[:6])
        assert len(expire(one.archive, "old", dry_run=False)) == 6
        cluster.start("n4")
        compared(cluster)
        for node in cluster.live():
            for url in URLS[:6]:
                assert not list(node.archive.search(CaptureQuery(url=url)))
            assert "crawl 'old'" in (node.path / "audit.log").read_text()
        left = {row.capture.url for node in cluster.live() for row in node.archive.search(CaptureQuery(url="*"))}
        assert left == set(URLS[6:])


def test_a_node_that_does_not_run_removes_nothing(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "n1", "n2", keep="latest", copies=2) as cluster:
        one = cluster.nodes["n1"]
        one.add([*visit(OLD), *visit(NEWEST)])
        cluster.settle()
        cluster.stop("n1")
        (one.path / "cluster" / "service.jwt").touch()  # as in the directory of a member
        gone(one.path, URLS)
        with holdfast.open(one.path) as alone:
            for remove in (
                alone.updates.run,
                lambda: expire(alone, "old", dry_run=False),
                lambda: alone.remove(Selection(CaptureQuery(url=URLS[0])), RemovalOptions("asked")),
            ):
                with pytest.raises(ClusterDown, match="node of a cluster"):
                    remove()
            assert remove_superseded(alone) == 0
            assert len(list(alone.search(CaptureQuery(url="*")))) == 2 * len(URLS)
