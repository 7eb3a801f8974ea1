"""Addresses that hosts of several nodes share (H5): their delay holds whoever asks, by the server's own log.

Real node processes, real NATS servers, many hosts on one address.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crawl_cluster import all_captured, crawling_cluster, fetched_by, fetchers_of, start_crawl, wait_ended
from hostile_web import LogEntry
from hostile_web.exchange import Answer, Request, plain
from hostile_web.server import Server, serving
from node_cluster import NodeCluster, wait_until

from holdfast.cluster.crawl.permits import partition_of_address
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind

HOSTS = 8
PATHS = ("/", "/a", "/b")
LEASE_S = 1.5


class SharedAddressWeb:
    """A plan and a world of the test web's server: small sites with an address in common."""

    tls = False
    port = 0
    latency_s = 0.0

    def __init__(self, address: str) -> None:
        self.addresses = (address,)
        self.hosts = [f"site{number}.test" for number in range(HOSTS)]
        self._server: Server | None = None

    def built(self, port: int, tls_port: int) -> SharedAddressWeb:
        return self

    def change(self, share: float) -> None:
        """It stays as it is."""

    def answer(self, request: Request) -> Answer:
        if request.target not in PATHS:
            return plain(404, "not here")
        links = "".join(f'<a href="{path}">{path}</a>' for path in PATHS)
        return plain(200, f"<!doctype html>{request.host}{links}", kind="text/html")

    @contextmanager
    def serving(self) -> Iterator[SharedAddressWeb]:
        with serving(self, thread=True) as server:
            self._server = server
            yield self

    def urls(self) -> set[str]:
        assert self._server is not None
        return {f"http://{host}:{self._server.port}{path}" for host in self.hosts for path in PATHS}

    def job(self, delay_s: float, per_address: int) -> CrawlJob:
        fetch = FetchSettings(
            delay=delay_s,
            per_address=per_address,
            adaptive=0.0,
            outage_s=0.0,
            resolve=tuple((host, self.addresses[0]) for host in self.hosts),
            private=True,
        )
        seeds = tuple(sorted(url for url in self.urls() if url.endswith("/")))
        return CrawlJob(seeds=seeds, name="web", scope=ScopeKind.ANY, readers=1, workers=8, sitemap=False, fetch=fetch)

    def log(self) -> list[LogEntry]:
        assert self._server is not None
        return self._server.log()


def too_close(log: list[LogEntry], gap_s: float, *, tolerance_s: float = 0.001) -> list[str]:
    """Requests to the address less than that after the end of another one, or after its beginning."""
    entries = sorted(log, key=lambda entry: entry.received)
    found = []
    for number, second in enumerate(entries):
        for first in entries[:number]:
            since_s = second.received - max(
                moment for moment in (first.received, first.answered) if moment <= second.received
            )
            if since_s < gap_s - tolerance_s:
                found.append(f"{first.host}{first.target}, {since_s:.3f} s later {second.host}{second.target}")
    return found


def authority_of(cluster: NodeCluster, address: str) -> str:
    """The node that grants the permits of an address, when all nodes are in sync."""
    settings = cluster.settings
    partition = partition_of_address(address, settings.partitions)
    return cluster["n1"].directory.members().holders(partition, settings.copies)[0]


def fetchers(cluster: NodeCluster) -> list[str]:
    """The nodes that have fetched something."""
    return [node.name for node in cluster.nodes if fetched_by(node.path)]


def test_three_nodes_share_an_address(tmp_path: Path) -> None:
    """No two requests come closer than its delay, and never more than one is under way."""
    delay_s = 0.3
    web = SharedAddressWeb("127.0.2.1")
    with web.serving(), crawling_cluster(tmp_path, 3, lease_s=LEASE_S) as cluster:
        start_crawl(cluster["n2"], web.job(delay_s, per_address=1))
        assert wait_ended(cluster["n1"])["state"] == "finished"
        assert web.urls() <= all_captured(cluster)
        assert len(fetchers(cluster)) > 1, "eight domains have more than one owner"
        assert too_close(web.log(), delay_s) == []


def test_a_share_of_the_delay_between_several_at_a_time(tmp_path: Path) -> None:
    """As on one machine: `per_address` hosts may be asked within a delay, whoever owns them."""
    delay_s = 0.8
    web = SharedAddressWeb("127.0.2.1")
    with web.serving(), crawling_cluster(tmp_path, 2, lease_s=LEASE_S) as cluster:
        start_crawl(cluster["n1"], web.job(delay_s, per_address=4))
        assert wait_ended(cluster["n2"])["state"] == "finished"
        assert web.urls() <= all_captured(cluster)
        assert len(fetchers(cluster)) == 2
        assert too_close(web.log(), delay_s / 4) == []


def test_the_authority_dies_and_a_node_is_stopped(tmp_path: Path) -> None:
    """kill -9 of the node that grants the permits; SIGSTOP, for three leases, of one that has them."""
    delay_s = 0.3
    with crawling_cluster(tmp_path, 3, lease_s=LEASE_S) as cluster:
        addresses = (f"127.0.2.{number}" for number in range(1, 100))
        address = next(each for each in addresses if authority_of(cluster, each) != "n1")  # which has the NATS server
        web = SharedAddressWeb(address)
        with web.serving():
            authority = cluster[authority_of(cluster, address)]
            other = next(node for node in cluster.nodes if node.name not in ("n1", authority.name))
            start_crawl(cluster["n1"], web.job(delay_s, per_address=1))
            wait_until(lambda: len(web.log()) > 5, "requests")
            authority.kill()
            before = len(web.log())
            wait_until(lambda: len(web.log()) > before + 3, "requests that another authority has permitted")
            stopped = [other.process.pid, *fetchers_of(other)] if other.process is not None else []
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(3 * LEASE_S)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            authority.start()
            assert wait_ended(cluster["n1"])["state"] == "finished"
            assert web.urls() <= all_captured(cluster)
            assert len(fetchers(cluster)) > 1
            assert too_close(web.log(), delay_s) == []
