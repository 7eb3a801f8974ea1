"""A node's share of a crawl by itself: when it begins to fetch for a partition that another node had (H4)."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from node_cluster import wait_until

from holdfast.cluster.crawl import share as share_module
from holdfast.cluster.crawl.exchange import Caught, Received
from holdfast.cluster.crawl.job import SharedJob
from holdfast.cluster.crawl.log import LogMessage, done_line, found_line
from holdfast.cluster.crawl.outbox import LogPosition
from holdfast.cluster.crawl.reports import CrawlReport
from holdfast.cluster.crawl.share import PartitionShare
from holdfast.cluster.membership.agent import Rights
from holdfast.crawl.frontier import FoundUrl, Frontier, UrlRow, UrlState, key_of
from holdfast.crawl.job.job import CrawlJob, ScopeKind
from holdfast.crawl.policy.admission import Admission
from holdfast.crawl.policy.traps import Traps
from holdfast.errors import ClusterDown

URL = "http://example.com/a"
KEY = key_of(URL)
DATE = "20260102030405"
VISITED = calendar.timegm(time.strptime(DATE, "%Y%m%d%H%M%S"))
MESSAGE = LogMessage(
    "id of n2",
    True,
    1,
    [found_line(FoundUrl(KEY, URL, "L", 1), "", KEY), done_line(KEY, UrlRow(URL, visited=VISITED))],
)


class World:
    """One partition, owned by this node, n1; n2 had it before and has fetched one URL."""

    def __init__(self, path: Path, left: dict[int, float]) -> None:
        self.live = frozenset(("n1", "n2"))
        self.captures: dict[str, Any] = {}
        catalog = SimpleNamespace(closest=lambda url, date, collection: self.captures.get(url))
        archive: Any = SimpleNamespace(
            settings=SimpleNamespace(records=SimpleNamespace(collection="main")), catalog=catalog
        )
        rights = Rights(float("inf"), frozenset((0,)), 1, {0: 5.0})
        context: Any = SimpleNamespace(
            settings=SimpleNamespace(partitions=1, lease_s=10.0),
            address=SimpleNamespace(name="n1"),
            owner=lambda partition: None,
            members=lambda: SimpleNamespace(epoch=1),
            live=lambda: self.live,
            rights=lambda: rights,
            notify=lambda data: None,
            on_bus=_is_down,
        )
        job = CrawlJob(seeds=("http://elsewhere.example/",), name="web", scope=ScopeKind.ANY)
        shared = SharedJob.started(job, None, 1)
        self.frontier = Frontier(path)
        self.frontier.begin_visit(1)
        self.share = PartitionShare(
            context, shared, 0, archive, left, lambda *_: False, lambda *_: None, lambda *_: None
        )
        feeder: Any = SimpleNamespace(flights={}, keys=frozenset())
        self.share.attach(self.frontier, Admission(job, self.frontier, Traps(job.traps)), feeder)

    def step(self) -> None:
        self.share.step(is_busy=False)
        self.frontier.commit()

    def read_log(self) -> None:
        self.step()
        inbox = self.share._exchange.inbox
        inbox.append(Received(0, LogPosition(1, 1), MESSAGE))
        inbox.append(Caught(0))
        self.step()

    def state(self) -> str:
        row = self.frontier.row(KEY)
        assert row is not None
        return row.state


def _is_down(call: Any) -> Any:
    raise ClusterDown("there is no service")


@contextmanager
def world_of(path: Path, left: dict[int, float] | None = None) -> Iterator[World]:
    world = World(path, left if left is not None else {})
    try:
        yield world
    finally:
        world.share.close()
        world.frontier.close()


def test_it_waits_for_captures_that_are_on_their_way(tmp_path: Path) -> None:
    with world_of(tmp_path) as world:
        world.share.take_report("n2", CrawlReport("web", 1, sender="id of n2"))
        world.read_log()
        assert world.state() == UrlState.QUEUED
        assert not world.share.owns(URL)
        world.captures[URL] = SimpleNamespace(timestamp=DATE, status="200")

        def is_ready() -> bool:
            world.step()
            return world.share.owns(URL)

        wait_until(is_ready, "the capture is found")
        assert world.state() == UrlState.DONE


def test_it_does_not_wait_for_a_node_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_module, "_COPIES_LOOK_S", 0.0)
    with world_of(tmp_path) as world:
        world.share.take_report("n2", CrawlReport("web", 1, sender="id of n2"))
        world.live = frozenset(("n1",))
        world.read_log()
        assert world.share.owns(URL)
        assert world.state() == UrlState.QUEUED, "it is fetched again: its links may be lost"


def test_it_takes_nothing_that_was_handed_over_before_it_began(tmp_path: Path) -> None:
    with world_of(tmp_path, {0: 5.0}) as world:
        world.read_log()
        assert not world.share.owns(URL)
