"""Studies grouped by crawl, of a crawl that several nodes have made together (W16, H1)."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from crawl_cluster import NAME, fetched_by, job_for
from hostile_web import Web
from node_cluster import wait_until
from running_nodes import RunningNode, end_cluster, holdfast, start_cluster

from holdfast import study
from holdfast.archive import Archive
from holdfast.catalog import CaptureQuery
from holdfast.cluster.answers.routes import ClusterRouter
from holdfast.crawl.job.file import write_job

NODES, COPIES = 3, 2
Captured = tuple[str, str, str, int]  # URL, time, digest; and which of them: robots.txt may fail twice in a second


def captures_of(nodes: list[RunningNode]) -> Counter[Captured]:
    """All documents, and on how many nodes each is."""
    found: Counter[Captured] = Counter()
    for node in nodes:
        with Archive(node.path, read_only=True) as archive:
            alike: Counter[tuple[str, str, str]] = Counter()
            for row in archive.search(CaptureQuery(url="*")):
                captured = row.capture.url, row.capture.timestamp, row.capture.digest
                alike[captured] += 1
                found[*captured, alike[captured]] += 1
    return found


def wait_copied(nodes: list[RunningNode]) -> Counter[Captured]:
    def copied() -> Counter[Captured] | None:
        found = captures_of(nodes)
        is_whole = bool(found) and min(found.values()) >= COPIES and nodes[0].is_settled(NODES)
        return found if is_whole else None

    found: Counter[Captured] = wait_until(copied, "all captures on their holders")
    return found


def wait_next_second() -> str:
    """Times of captures have seconds: what comes before and after can be told apart."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "the next second")
    return time.strftime("%Y%m%d%H%M%S", time.gmtime())


def test_visits_of_a_crawl_of_several_nodes_are_groups(tmp_path: Path) -> None:
    web = Web(seed=11, pages=60, hosts=9, pauses=0, crawl_delay_s=0.0, robots_bytes=20_000, words=8, flaky=0)
    job = tmp_path / "job.toml"
    with web.serving() as served:
        job.write_text(write_job(job_for(served)))
        nodes = start_cluster(tmp_path, NODES, COPIES)
        try:
            holdfast("crawl", "-a", nodes[1].path, job)
            between = wait_next_second()
            holdfast("crawl", "-a", nodes[2].path, job)
            found = wait_copied(nodes)
            assert sum(bool(fetched_by(node.path)) for node in nodes) > 1, "several nodes have crawled"
            visits = [[each for each in found if (each[1] >= between) is is_second] for is_second in (False, True)]
            urls = [{url for url, *_ in visit} for visit in visits]
            assert len(urls[0]) > 50
            for node in nodes:
                with ClusterRouter(node.path).open_whole() as archive:
                    result = study.duplicates(archive, by="crawl")
                assert [row["group"] for row in result.rows()] == [f"{NAME}#1", f"{NAME}#2"]
                assert [row["captures"] for row in result.rows()] == [len(visit) for visit in visits]
                persistent = len(urls[0] & urls[1]) / len(urls[1])
                assert abs(result.rows()[1]["urls_previous"] - persistent) < 0.02  # URLs are compared by their keys
                assert not any("no crawl" in note for note in result.notes), result.notes
        finally:
            end_cluster(nodes)
