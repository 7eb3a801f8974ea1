"""What a crawl survives, and how it ends: processes that die, Ctrl-C, `crawl stop`; others who read meanwhile (H5)."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from crawl_pages import Answer, links, serving
from crawl_runs import (
    LONG_S,
    beside_the_web,
    captured,
    frontier_state,
    job_for,
    log_rows,
    make_archive,
    member,
    program,
    running,
    wait_for_fetches,
    write_job_file,
)
from hostile_web import Served, Web
from waiting import wait_until

import holdfast
from holdfast.crawl.job.file import write_job
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.report.crawls import crawl_status
from holdfast.errors import Busy

FETCHER = "crawl.fetch.process"
READER = "crawl.parse.worker"
PAGES = 300


@dataclass(frozen=True)
class Held:
    """A page that is answered when it is let go: a crawl that has it does not come to its end before."""

    url: str
    let_go: threading.Event

    @property
    def beside(self) -> set[str]:
        origin = self.url.removesuffix("/held")
        return {f"{origin}/robots.txt", f"{origin}/sitemap.xml"}


@pytest.fixture
def held() -> Iterator[Held]:
    let_go = threading.Event()

    def answer(path: str) -> Answer:
        if path == "/held":
            let_go.wait(10 * LONG_S)
        return b"at last" if path == "/held" else None

    with serving(answer) as pages:
        yield Held(f"{pages.url}/held", let_go)
        let_go.set()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    web = Web(seed=7, pages=PAGES, pauses=0, crawl_delay_s=0.0, robots_bytes=20_000, words=5, flaky=0)
    with web.serving() as served:
        yield served


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


@pytest.fixture
def job_file(tmp_path: Path, served: Served, held: Held) -> Path:
    seeds = (held.url, *served.seeds)
    job = job_for(served, seeds=seeds, workers=4, readers=2, retries=1, stall_timeout_s=LONG_S)
    return write_job_file(tmp_path / "job.toml", job)


def check_complete(path: Path, served: Served, held: Held) -> None:
    wanted, found = served.web.reachable() | {held.url}, captured(path)
    assert wanted - found == set()
    assert found - wanted - beside_the_web(served.web) - held.beside == set()
    assert frontier_state(path)[0].queued == 0


# -- processes that die ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", [FETCHER, READER])
def test_the_crawl_goes_on_when_one_of_its_processes_is_killed(
    archive: Path, served: Served, held: Held, job_file: Path, victim: str
) -> None:
    """H5: the fetcher, or a parse worker, is killed three times; the set is the same."""
    with running(archive, "crawl", job_file) as run:
        for number in range(3):
            wait_for_fetches(archive, 20 + 100 * number)
            os.kill(member(run.mark, victim), signal.SIGKILL)
        held.let_go.set()
        said = run.ended()
    assert said.count(f"the {'fetcher' if victim == FETCHER else 'parse worker'} of the crawl died") >= 1
    check_complete(archive, served, held)


_DEADLY = """
import os, sys
if "crawl.parse.worker" in " ".join(sys.orig_argv):
    import holdfast.crawl.parse.worker as reading
    look = reading.links_of
    reading.PAGE_SECONDS_MAX = 2.0
    def links_of(document):
        while document.url.endswith("/deadly"):
            DIES
        return look(document)
    reading.links_of = links_of
"""


@pytest.mark.parametrize("dies", ["os.kill(os.getpid(), 9)", "pass"], ids=["killed", "endless"])
def test_a_page_that_kills_its_reader_is_kept_without_its_links(tmp_path: Path, archive: Path, dies: str) -> None:
    """H5, W17: whatever a page does to the one that looks into it, it is kept, and the crawl goes on."""
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "sitecustomize.py").write_text(_DEADLY.replace("DIES", dies))
    others = [f"/page{number}" for number in range(40)]
    ways: dict[str, Answer] = {
        "/": links("/deadly", *others),
        "/deadly": links("/behind") + b"deadly",
        "/page20": links("/beyond"),
        "/beyond": b"beyond",
    } | {path: f"page {path}".encode() for path in others if path != "/page20"}
    with serving(ways.get) as pages:
        job = CrawlJob((f"{pages.url}/",), "web", sitemap=False, fetch=FetchSettings(delay=0.0, per_host=8))
        (tmp_path / "job.toml").write_text(write_job(job))
        with running(archive, "crawl", tmp_path / "job.toml", PYTHONPATH=str(tmp_path / "hooks")) as run:
            said = run.ended()
        assert "the parse worker of the crawl died" in said
        assert captured(archive) == {pages.url + path for path in (*ways, "/robots.txt")}
        with holdfast.open(archive, read_only=True) as opened:
            assert opened.get(f"{pages.url}/deadly").payload() == ways["/deadly"]
    assert "/behind" not in pages.asked
    assert frontier_state(archive)[0].queued == 0


# -- progress -----------------------------------------------------------------------------------------------------


def test_others_may_read_but_not_write_while_a_crawl_runs(tmp_path: Path, archive: Path) -> None:
    """W17: one writer, and others are told who; whoever looks, looks."""
    released = threading.Event()

    def answer(path: str) -> Answer:
        if path == "/held":
            released.wait(LONG_S)
        return links("/held", "/a") if path != "/robots.txt" else None

    with serving(answer) as pages:
        job = CrawlJob((f"{pages.url}/",), "web", sitemap=False, fetch=FetchSettings(delay=0.0, per_host=2))
        with running(archive, "crawl", write_job_file(tmp_path / "job.toml", job)) as run:
            wait_for_fetches(archive, 3)  # robots.txt, the seed, and one more
            check_refused(archive, run.pid)
            check_readable(archive, f"{pages.url}/", run.pid)
            released.set()
            run.ended()


def check_refused(archive: Path, pid: int) -> None:
    other = program(archive, "crawl", "http://127.0.0.1:9/", "--name", "other", code=Busy.exit_code)
    assert str(pid) in other.stderr
    assert "crawl" in other.stderr
    same = program(archive, "crawl", "--resume", "web", code=Busy.exit_code)
    assert f"the crawl 'web' is running (pid {pid})" in same.stderr


def check_readable(archive: Path, url: str, pid: int) -> None:
    assert "/held" in program(archive, "get", url).stdout
    assert url in program(archive, "cdx", "*").stdout
    assert "running" in program(archive, "crawl", "list").stdout
    status = json.loads(program(archive, "crawl", "status", "web", "--json").stdout)
    assert (status["state"], status["pid"]) == ("running", pid)
    assert url in program(archive, "crawl", "log", "web").stdout
    assert url in program(archive, "crawl", "why", url).stdout


# -- told to end -------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_in_order_and_resume_goes_on(archive: Path, served: Served, held: Held, job_file: Path) -> None:
    """H5: Ctrl-C reaches the whole process group; the one that conducts ends the others."""
    served.clear_log()
    with running(archive, "crawl", job_file) as run:
        wait_for_fetches(archive, 20)
        os.killpg(run.pid, signal.SIGINT)
        assert "'holdfast crawl --resume web' continues" in run.ended(code=130)
    check_resumed(archive, served, held)


def test_crawl_stop_ends_in_order_and_resume_goes_on(archive: Path, served: Served, held: Held, job_file: Path) -> None:
    """H5: asked to stop, it stops, and says that it did what it was asked to."""
    served.clear_log()
    with running(archive, "crawl", job_file) as run:
        wait_for_fetches(archive, 20)
        program(archive, "crawl", "stop", "web")
        run.ended()
    check_resumed(archive, served, held)


def check_resumed(archive: Path, served: Served, held: Held) -> None:
    """What was stopped says so, and what it had done is not done again."""
    status = crawl_status(archive, "web")
    assert status.state == "stopped"
    totals, rows = frontier_state(archive)
    assert totals.queued > 0
    done = {row.url for row in rows if row.state == "done"}
    assert done <= captured(archive)
    served.clear_log()
    held.let_go.set()
    program(archive, "crawl", "--resume", "web", "--quiet", "--per-host", "4", "--workers", "32")
    asked = {served.web.graph.url(entry.host, entry.target) for entry in served.log()}
    assert asked & done == set()
    assert [row["state"] for row in log_rows(archive, "stop")] == ["stopped", "finished"]
    check_complete(archive, served, held)
    wait_until(lambda: not crawl_status(archive, "web").running, "the status tells of the end")
