"""Crawls of a served web: in this process, or by the real program in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import holdfast
from holdfast.catalog import CaptureQuery
from holdfast.crawl.conductor import Crawl, Summary
from holdfast.crawl.crawls import FRONTIER, crawl_directory, log_path
from holdfast.crawl.frontier import Frontier, UrlRow
from holdfast.crawl.frontier.totals import Totals
from holdfast.crawl.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.crawl.job_file import write_job
from holdfast.crawl.log import read_log
from holdfast.testing.web import Served, Web

SOURCE = Path(__file__).parents[2] / "src"
NAME = "web"
LONG_S = 120.0  # after which something is wrong, on any machine
_FETCH_FIELDS = frozenset(each.name for each in fields(FetchSettings))


# -- what there is to crawl --------------------------------------------------------------------------------------------


def make_archive(path: Path) -> Path:
    """An empty archive in that directory."""
    holdfast.init(path)
    return path


def job_for(served: Served, **chosen: Any) -> CrawlJob:
    """A crawl of a whole web without delays; `chosen` are fields of the job, or of its `fetch`."""
    fetch = {name: chosen.pop(name) for name in list(chosen) if name in _FETCH_FIELDS}
    settings = replace(FetchSettings(delay=0.0, resolve=tuple(served.resolve)), **fetch)
    return replace(CrawlJob(seeds=tuple(served.seeds), name=NAME, scope=ScopeKind.ANY, fetch=settings), **chosen)


# -- crawling ----------------------------------------------------------------------------------------------------------


def crawled(path: Path, job: CrawlJob) -> Summary:
    """Runs a crawl in this process, to its end."""
    with holdfast.open(path) as archive:
        return Crawl(archive, job).run()


def write_job_file(path: Path, job: CrawlJob) -> Path:
    """The job as a file, for the program."""
    path.write_text(write_job(job), encoding="utf-8")
    return path


def environment(**variables: str) -> dict[str, str]:
    """For the program; PYTHONPATH may be longer by what is given."""
    more = variables.pop("PYTHONPATH", "")
    paths = [path for path in (more, str(SOURCE), os.environ.get("PYTHONPATH", "")) if path]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | variables


def command(path: Path, *words: str | Path) -> list[str]:
    """`holdfast` for that archive."""
    return [sys.executable, "-m", "holdfast", "-a", str(path), *map(str, words)]


def program(path: Path, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `holdfast` to its end, and expects the exit code."""
    done = subprocess.run(
        command(path, *words), capture_output=True, text=True, env=environment(), timeout=LONG_S, check=False
    )
    assert done.returncode == code, (words, done)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@contextmanager
def running(path: Path, *words: str | Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """`holdfast` in a process group of its own, whose number is that of the process; what is left of it is killed."""
    process = subprocess.Popen(
        command(path, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(**variables),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Whatever it does, and whoever it has started."""
    process.kill()
    assert process.stdout is not None
    process.stdout.close()  # a child that is still there may not be waited for through it
    process.wait(LONG_S)


# -- what came of it ---------------------------------------------------------------------------------------------------


def captured(path: Path) -> set[str]:
    """URLs of all captures."""
    with holdfast.open(path, read_only=True) as archive:
        return {row.capture.url for row in archive.search(CaptureQuery(url="*"))}


def beside_the_web(web: Web) -> set[str]:
    """What a crawl captures and `Web.reachable` leaves out: robots.txt and sitemaps."""
    return set(web.robots_urls) | set(web.sitemap_urls)


def log_rows(path: Path, event: str = "", name: str = NAME) -> list[dict[str, Any]]:
    """Of the crawl's own log; all, or those of one event."""
    return [row for row in read_log(log_path(path, name)) if not event or row["event"] == event]


def frontier_state(path: Path, name: str = NAME) -> tuple[Totals, list[UrlRow]]:
    """What the frontier of a crawl that does not run knows."""
    frontier = Frontier(crawl_directory(path, name) / FRONTIER, follow=True)
    try:
        return frontier.totals, [row for _, row in frontier.rows()]
    finally:
        frontier.close()


# -- waiting -----------------------------------------------------------------------------------------------------------


def wait_until(is_so: Callable[[], object], what: str) -> None:
    """Looks again and again; a test that waits in vain fails."""
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.01)


def wait_for_fetches(path: Path, count: int, name: str = NAME) -> None:
    """Until a crawl in another process has so many in its log."""
    wait_until(lambda: len(log_rows(path, "fetch", name)) >= count, f"{count} fetches")


# -- processes ---------------------------------------------------------------------------------------------------------


def children_of(pid: int) -> dict[int, str]:
    """Processes that `pid` has started and that live, with their command lines."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit() and _parent(each) == pid:
            found[int(each.name)] = _line(each)
    return found


def alive(pids: Iterable[int]) -> set[int]:
    """Those that have not ended."""
    return {pid for pid in pids if _parent(Path(f"/proc/{pid}")) is not None}


def _parent(process: Path) -> int | None:
    """None if it is gone, or waits only for somebody to notice its end."""
    try:
        state, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return int(parent) if state not in (b"Z", b"X") else None


def _line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
