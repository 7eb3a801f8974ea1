"""The child processes of a crawl, and how their results are received (H5, P14)."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from waiting import wait_until

from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.processes import pipeline as pipeline_module
from holdfast.crawl.processes.children import CrawlChildren
from holdfast.crawl.processes.messages import FetcherStart, FetchOutcome, ParsedPage, ParseWorkerStart, pack
from holdfast.crawl.processes.pipeline import Pipeline


def forked_by(pid: int) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != b"Z":
            found.append(int(each.parent.name))
    return found


def test_one_parse_worker_imports_and_forks_the_others() -> None:
    with CrawlChildren(3) as children:
        first = children._processes["parse worker"].pid
        wait_until(lambda: len(forked_by(first)) == 2, "two forked parse workers")


def test_a_forked_parse_worker_that_was_killed_counts_as_a_failure() -> None:
    with CrawlChildren(2) as children:
        first = children._processes["parse worker"].pid
        wait_until(lambda: forked_by(first), "a forked parse worker")
        os.kill(forked_by(first)[0], signal.SIGKILL)
        for each in (children.fetcher, *children.workers):
            each.close()
        assert children.failures() == ["parse worker"]


class FakeChildren:
    """Our ends of sockets, as `CrawlChildren` has them; the others are the test's."""

    def __init__(self) -> None:
        (self.fetcher, self.in_fetcher), (worker, self.in_worker) = socket.socketpair(), socket.socketpair()
        self.workers = [worker]

    def close(self) -> None:
        for each in (self.fetcher, self.in_fetcher, *self.workers, self.in_worker):
            each.close()


def test_results_are_gathered_into_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pipeline_module, "_GATHER_S", 100.0)
    children = FakeChildren()
    job = CrawlJob()
    pipeline = Pipeline(children, FetcherStart(job, tmp_path), ParseWorkerStart(job, "main", "sha256"))  # type: ignore[arg-type]

    def send_the_rest() -> None:
        wait_until(lambda: pipeline._wanted == 3, "that more are wanted")
        for number in (2, 3):
            children.in_worker.sendall(pack(tuple(ParsedPage(number, "http://a.test/", FetchOutcome.OK))))

    children.in_worker.sendall(pack(tuple(ParsedPage(1, "http://a.test/", FetchOutcome.OK))))
    sender = threading.Thread(target=send_the_rest)
    sender.start()
    try:
        assert [page.job_id for page in pipeline.receive(100.0, 256, gather=3)] == [1, 2, 3]
    finally:
        sender.join()
        pipeline.close()
