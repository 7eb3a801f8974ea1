"""An orderly stop, whatever the backlog: all that was fetched is kept, nothing is asked for again, all hosts have had
their turn (H5).

The parse workers of these crawls are slow, so that as much as is allowed waits for them when the stop comes.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawl_hosts import ManyHosts, ServedHosts
from crawl_runs import (
    LONG_S,
    captured,
    crawled,
    job_for,
    make_archive,
    program,
    running,
    wait_for_fetches,
    write_job_file,
)

from holdfast.crawl import frontier as frontier_module
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.policy import limits
from holdfast.crawl.report.crawls import CrawlState, crawl_status

HOSTS = 600
WORKERS = 64
DRAIN_S = 6.0  # that the backlog takes, at least

_SLOW = f"""
import sys
if "crawl.parse.worker" in " ".join(sys.orig_argv):
    import pathlib
    import time
    from holdfast.crawl.parse.worker import ParseWorker
    read = ParseWorker.read
    def slow(self, fetched):
        pathlib.Path(__file__).with_name("slow").touch()
        time.sleep({DRAIN_S / WORKERS})
        return read(self, fetched)
    ParseWorker.read = slow
"""


@pytest.fixture(scope="module")
def served() -> Iterator[ServedHosts]:
    with ManyHosts(HOSTS, pages=20, words=20).serving() as served:
        yield served


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[Path]:
    """What makes parse workers slow, for `PYTHONPATH`."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(_SLOW)
    yield hooks
    assert (hooks / "slow").exists(), "no parse worker was slowed down"


def job_of(served: ServedHosts, **chosen: Any) -> CrawlJob:
    wanted = {"workers": WORKERS, "robots": False, "sitemap": False, "per_address": 16} | chosen
    return job_for(served, **wanted)  # type: ignore[arg-type]


def check_equal(archive: Path, served: ServedHosts) -> set[str]:
    """What the server has answered, each once, is what the archive has."""
    asked = Counter(map(served.url, served.log()))
    assert [url for url, times in asked.items() if times > 1] == []
    found = captured(archive)
    assert set(asked) - found == set(), "what was fetched is kept"
    assert found - set(asked) == set()
    return found


def check_stopped(archive: Path, served: ServedHosts, state: CrawlState) -> None:
    """Nothing is lost, and nothing is asked for again when the crawl goes on."""
    assert crawl_status(archive, "web").state == state
    before = check_equal(archive, served)
    assert len(before) > WORKERS, "as much as may had to be read when the stop came"
    more = ("--limit", str(HOSTS), "--time", f"{LONG_S:.0f}s")
    program(archive, "crawl", "--resume", "web", "--quiet", "--no-index", *more)
    assert before < check_equal(archive, served)


# -- four ways to stop -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["ctrl-c", "stop"])
def test_nothing_that_was_fetched_is_lost_when_somebody_stops_a_crawl(
    tmp_path: Path, archive: Path, served: ServedHosts, hooks: Path, way: str
) -> None:
    """H5: by Ctrl-C, and by `crawl stop`."""
    served.clear_log()
    words = ("crawl", write_job_file(tmp_path / "job.toml", job_of(served)), "--no-index")
    with running(archive, *words, PYTHONPATH=str(hooks)) as run:
        wait_for_fetches(archive, 5)
        if way == "ctrl-c":
            os.killpg(run.pid, signal.SIGINT)
            run.ended(code=130)
        else:
            program(archive, "crawl", "stop", "web", "--wait")
            run.ended()
    check_stopped(archive, served, CrawlState.STOPPED)


@pytest.mark.parametrize("limit", [{"time_s": 3.0}, {"limit": 80}, {"bytes_max": 20_000}])
def test_nothing_that_was_fetched_is_lost_when_a_limit_is_reached(
    archive: Path, served: ServedHosts, hooks: Path, monkeypatch: pytest.MonkeyPatch, limit: dict[str, Any]
) -> None:
    """H5: of time, of URLs, of bytes."""
    monkeypatch.syspath_prepend(hooks)
    monkeypatch.setattr(limits, "GRACE_S", LONG_S)  # for a busy machine: nothing is to be broken off
    monkeypatch.setattr(limits, "_OVER", LONG_S)
    served.clear_log()
    assert crawled(archive, job_of(served, **limit)).state == CrawlState.LIMIT
    monkeypatch.undo()
    check_stopped(archive, served, CrawlState.LIMIT)


# -- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robots", [False, True])
def test_every_host_gets_its_turn_though_there_are_more_than_are_live_at_a_time(
    archive: Path, served: ServedHosts, monkeypatch: pytest.MonkeyPatch, robots: bool
) -> None:
    """H5: all of them within two pages for each."""
    monkeypatch.setattr(frontier_module, "LIVE_HOSTS_MAX", HOSTS // 6)
    served.clear_log()
    crawled(archive, job_of(served, robots=robots, limit=2 * HOSTS))
    pages = Counter(entry.host for entry in served.log() if entry.target != "/robots.txt")
    assert set(pages) == set(served.web.names)
    assert pages.total() == 2 * HOSTS
    check_equal(archive, served)


# -- at full size ------------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_a_minute_of_five_thousand_hosts(tmp_path: Path, archive: Path, delay: float) -> None:
    """H5: `--time` holds within a tenth, the index included; the server's log is the archive; all hosts were asked."""
    with ManyHosts(5000, pages=1000).serving() as served:
        job = job_of(served, workers=512, robots=True, readers=0, delay=delay)
        words = ("crawl", write_job_file(tmp_path / "job.toml", job), "--time", "60s", "--quiet")
        began = time.monotonic()
        program(archive, *words)
        assert time.monotonic() - began < 66.0
        before = check_equal(archive, served)
        assert {entry.host for entry in served.log()} == set(served.web.names)
        program(archive, "crawl", "--resume", "web", "--quiet", "--time", "20s")
        assert before < check_equal(archive, served)
