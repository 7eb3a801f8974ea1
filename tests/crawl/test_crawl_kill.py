"""A crawl that is killed, again and again, at any moment: the same set, nothing lost, nothing asked for twice (H5).

The bound on what is asked for twice: a request is made only while fewer than `unsettled_max` are made and not settled,
that is, until the frontier has committed what became of them (`holdfast.crawl.fetch.fetcher`). So of what a killed
run has asked for, at most so much is not settled; only that may be asked for again, and nothing that is settled is.

One page is held back until the last kill, so that a fast machine does not come to the end before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from crawl_pages import Answer, serving
from crawl_runs import (
    LONG_S,
    beside_the_web,
    captured,
    family,
    frontier_state,
    job_for,
    kill_family,
    lives,
    log_rows,
    make_archive,
    program,
    running,
    write_job_file,
)
from crawl_zygote import Zygote, zygote
from hostile_web import LogEntry, Served, Web, checks
from waiting import wait_until

from holdfast.crawl.fetch.fetcher import unsettled_max
from holdfast.crawl.processes.messages import FetchKind
from holdfast.crawl.report.crawls import log_path

WORKERS = 4
UNSETTLED_MAX = unsettled_max(WORKERS)


@dataclass
class Victim:
    """A crawl that is killed; what the frontier has settled must stay settled, and in the archive."""

    path: Path
    job_file: Path
    served: Served
    random: Random
    settled: set[str] = field(default_factory=set)
    waiting: int = 0
    log: list[LogEntry] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)

    def kill_program(self) -> None:
        """A run of the real program, killed at startup."""
        with running(self.path, "crawl", self.job_file, "--quiet") as run, self._killed_in_the_end(run.pid, run.mark):
            self._wait_for_start(run.mark)
        self.look()
        self.kills["program"] += 1

    def kill(self, zygote: Zygote, left: int) -> None:
        """A run that is killed at startup, or after its share of what is left for so many more."""
        share = min(2 * self.waiting // left + 1, self.waiting - 1)
        moment = "progress" if share > 0 and self.random.random() < 0.8 else "startup"
        with self._crawl(zygote) as mark:
            if moment == "progress":
                wanted = self._lines() + 1 + self.random.randint(0, share)
                wait_until(lambda: self._lines() >= wanted, f"progress to {wanted} lines")
            else:
                self._wait_for_start(mark)
        self.look()
        self.kills[moment] += 1

    def kill_at_end(self, zygote: Zygote) -> None:
        """A run that is killed when it has nothing more to do."""
        with self._crawl(zygote):
            wait_until(lambda: log_rows(self.path, "stop"), "the end")
        self.look()
        self.kills["end"] += 1

    def _lines(self) -> int:
        """Of the log: of all that is done with a URL, at least one."""
        log = log_path(self.path, "web")
        return log.read_bytes().count(b"\n") if log.exists() else 0

    @contextmanager
    def _crawl(self, zygote: Zygote) -> Iterator[str]:
        mark = uuid4().hex
        with self._killed_in_the_end(zygote.crawl(self.path, self.job_file, mark), mark):
            yield mark

    def _wait_for_start(self, mark: str) -> None:
        """Until so many processes are there, or the run says that it has begun, or has ended before that was seen."""
        lines, count = self._lines(), self.random.randrange(4)
        wait_until(lambda: len(family(mark)) >= count or self._lines() > lines, "the start")

    @contextmanager
    def _killed_in_the_end(self, pid: int, mark: str) -> Iterator[None]:
        """The conductor alone, whose children have to see it, or all of them."""
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # it may have come to its end
                os.kill(pid, signal.SIGKILL)
            if self.random.random() < 0.5:
                kill_family(mark)
            try:
                # Until the killed process is gone it holds the archive's lock, and the next run would end at once.
                wait_until(lambda: not lives(str(pid)) and not family(mark), "all processes of the crawl to end")
            finally:
                kill_family(mark)

    def look(self) -> None:
        """What a run has asked for is compared with what was settled before it, and after it."""
        entries = self.served.log()
        self.served.clear_log()
        self.log += entries
        asked = {self.served.web.graph.url(entry.host, entry.target) for entry in entries}
        assert asked & self.settled == set(), "what is settled is not asked for again"
        if not (self.path / "crawls/web/frontier/CURRENT").exists():
            return
        totals, rows = frontier_state(self.path)
        settled = {row.url for row in rows if row.state == "done"}
        assert self.settled - settled == set()
        assert len(asked - settled - self.served.web.robots_urls) <= UNSETTLED_MAX, (
            "only what was under way is not settled"
        )
        assert (totals.seen, totals.queued) == (len(rows), sum(row.state == "queued" for row in rows))
        self.settled, self.waiting = settled, totals.queued
        if self.random.random() < 0.1:
            self.check_archive()

    def check_archive(self) -> None:
        """What the frontier or the log says is done, is in the archive."""
        found = captured(self.path)
        assert self.settled - found == set()
        assert {row["url"] for row in log_rows(self.path, "fetch") if row.get("record")} - found == set()


def kill_and_check(path: Path, web: Web, kills: int) -> None:
    """Kills a crawl of a web so many times, spread over its whole length, and compares."""
    released = threading.Event()

    def hold(path: str) -> Answer:
        if path == "/held":
            released.wait(10 * LONG_S)
        return b"at last" if path == "/held" else None

    with web.serving() as served, serving(hold) as pages, zygote() as starter:
        held = f"{pages.url}/held"
        seeds = (held, *served.seeds)
        job = job_for(served, seeds=seeds, workers=WORKERS, readers=1, retries=2, stall_timeout_s=LONG_S)
        archive = make_archive(path / "archive")
        victim = Victim(archive, write_job_file(path / "job.toml", job), served, Random(web.seed))
        try:
            for left in range(kills - 1, 0, -1):
                if left % 20 == 0:
                    victim.kill_program()
                else:
                    victim.kill(starter, left)
        finally:
            released.set()
        assert held not in victim.settled
        victim.kill_at_end(starter)
        if not frontier_state(archive)[0].finished:
            program(archive, "crawl", victim.job_file, "--quiet")
            victim.look()
        assert victim.kills.total() == kills
        beside = {f"{pages.url}/robots.txt", f"{pages.url}/sitemap.xml"}
        check_end(victim, served.web.reachable() | {held}, beside)


def check_end(victim: Victim, wanted: set[str], beside: set[str]) -> None:
    """As if nobody had been killed."""
    found, web = captured(victim.path), victim.served.web
    assert wanted - found == set()
    assert found - wanted - beside - beside_the_web(web) == set()
    totals, rows = frontier_state(victim.path)
    assert (totals.queued, totals.visit, totals.finished) == (0, 1, True)
    assert (
        totals.tally.fetched == len(wanted) == sum(row.state == "done" and row.kind == FetchKind.PAGE for row in rows)
    )
    assert len(checks.repeated(victim.log)) <= victim.kills.total() * UNSETTLED_MAX
    assert checks.disallowed(victim.log, web) == []
    victim.check_archive()
    program(victim.path, "check")


def small_web(seed: int, pages: int) -> Web:
    return Web(seed=seed, pages=pages, pauses=0, crawl_delay_s=0.0, robots_bytes=20_000, words=3, flaky=100)


def test_killed_a_hundred_times(tmp_path: Path) -> None:
    """H5: kill -9 a hundred times during one crawl: the same set; nothing acknowledged is lost or fetched again."""
    kill_and_check(tmp_path, small_web(5, 600), 100)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_killed_five_hundred_times(tmp_path: Path, seed: int) -> None:
    """H5: the same, longer."""
    kill_and_check(tmp_path, small_web(50 + seed, 6000), 500)
