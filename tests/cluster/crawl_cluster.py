"""Clusters that crawl: real node processes, real NATS servers, the hostile web; and what tests read out of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostile_web import Served
from node_cluster import NodeCluster, NodeProcess, running_cluster, wait_until

import holdfast
from holdfast.batches.entry import REMOVED
from holdfast.catalog import CaptureQuery
from holdfast.crawl.job.file import write_job
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.crawl.report.crawls import CrawlStatus, crawl_status, log_path
from holdfast.crawl.report.log import LogFilter, read_log
from holdfast.errors import Busy
from holdfast.model import RecordId

NAME = "web"
_NODE = Path(__file__).with_name("crawl_node.py")


def job_for(served: Served, **chosen: Any) -> CrawlJob:
    """A crawl of a whole web; `chosen` are fields of the job, or of its `fetch`."""
    known = FetchSettings.__slots__
    fetch = {name: chosen.pop(name) for name in list(chosen) if name in known}
    settings = replace(FetchSettings(delay=0.0, outage_s=0.0, resolve=tuple(served.resolve)), **fetch)
    job = CrawlJob(seeds=tuple(served.seeds), name=NAME, scope=ScopeKind.ANY, readers=1, workers=8, fetch=settings)
    return replace(job, **chosen)


@contextmanager
def crawling_cluster(root: Path, count: int = 3, **settings: Any) -> Iterator[NodeCluster]:
    """Nodes that crawl, and own all partitions."""
    with running_cluster(root, count, _NODE, **{"copies": min(count, 3), **settings}) as cluster:
        yield cluster


def start_crawl(node: NodeProcess, job: CrawlJob) -> None:
    """Repeated while the service has no leader: an answer that got lost may have started it."""

    def is_started() -> bool:
        with suppress(Busy):
            node.command("crawl-start", job=write_job(job))
        return True

    wait_until(is_started, "the start of the crawl")


def crawl_state(node: NodeProcess, name: str = NAME) -> dict[str, Any]:
    return node.command("crawl-status", name=name)


def wait_ended(node: NodeProcess, name: str = NAME) -> dict[str, Any]:
    """How the crawl ended."""

    def ended() -> dict[str, Any] | None:
        state = crawl_state(node, name)
        return state if state["state"] != "running" else None

    found: dict[str, Any] = wait_until(ended, f"the end of the crawl; {node.said.read_text()[-2000:]}")
    return found


def captured(path: Path) -> dict[str, int]:
    """How many captures of each URL a node has."""
    counts: dict[str, int] = {}
    with holdfast.open(path, read_only=True) as archive:
        for row in archive.search(CaptureQuery(url="*")):
            counts[row.capture.url] = counts.get(row.capture.url, 0) + 1
    return counts


def has_removed(path: Path) -> bool:
    """Whether a node has removed a record."""
    with holdfast.open(path, read_only=True) as archive:
        first = [RecordId(name, 1) for name in archive.journal.names()]
        return any(entry.type == REMOVED for each in first for entry in archive.records.entries_from(each))


def all_captured(cluster: NodeCluster) -> set[str]:
    """What the nodes have together."""
    return {url for node in cluster.nodes if node.path.exists() for url in captured(node.path)}


def fetched_by(path: Path, name: str = NAME) -> list[str]:
    """The URLs that a node has fetched, but robots.txt and sitemaps, as its log has them."""
    rows = read_log(log_path(path, name), LogFilter(events=frozenset({"fetch"})))
    return [
        row["url"] for row in rows if row.get("kind", "page") == "page" and row["result"] not in ("retry", "robots")
    ]


def status_of(path: Path, name: str = NAME) -> CrawlStatus:
    """The status of the whole crawl, as a node has written it last."""
    return wait_until(lambda: (found := crawl_status(path, name)) and not found.running and found, "its end at a node")


def processes_of(node: NodeProcess) -> list[int]:
    """The processes of a node, but its NATS server: itself and those that it has started."""
    assert node.process is not None
    found = [node.process.pid]
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in found and b"nats-server" not in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def fetchers_of(node: NodeProcess) -> list[int]:
    """The fetcher processes of a node that are alive."""
    found = []
    for each in processes_of(node):
        try:
            if b"holdfast.crawl.fetch.process" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
        except OSError:
            continue
    return found
