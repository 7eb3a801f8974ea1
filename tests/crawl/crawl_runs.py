"""Crawls of a served web: in this process, or by the real program in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from hostile_web import Served, Web
from waiting import wait_until

import holdfast
from holdfast.catalog import CaptureQuery
from holdfast.crawl.crawl import Crawl, Summary
from holdfast.crawl.frontier import Frontier, Totals, UrlRow
from holdfast.crawl.job.file import write_job
from holdfast.crawl.job.job import CrawlJob, FetchSettings, ScopeKind
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.report.crawls import crawl_directory, log_path
from holdfast.crawl.report.log import read_log

SOURCE = Path(__file__).parents[2] / "src"
NAME = "web"
MARK = "CRAWL_OF_A_TEST"  # a variable that all processes of a crawl inherit
LONG_S = 120.0  # after which something is wrong, on any machine
_FETCH_FIELDS = frozenset(each.name for each in fields(FetchSettings))


# -- what there is to crawl --------------------------------------------------------------------------------------------


def make_archive(path: Path) -> Path:
    """An empty archive in that directory."""
    holdfast.init(path)
    return path


def job_for(served: Served, **chosen: Any) -> CrawlJob:
    """A crawl of a whole web without delays; `chosen` are fields of the job, or of its `fetch`.

    With one reader, which is quickly started: only a test that is about readers needs more.
    """
    fetch = {name: chosen.pop(name) for name in list(chosen) if name in _FETCH_FIELDS}
    settings = replace(FetchSettings(delay=0.0, outage_s=0.0, resolve=tuple(served.resolve)), **fetch)
    job = CrawlJob(seeds=tuple(served.seeds), name=NAME, scope=ScopeKind.ANY, readers=1, fetch=settings)
    return replace(job, **chosen)


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


class Run(subprocess.Popen[bytes]):
    """A process of the real program; `mark` is what it and its children bear."""

    mark = ""

    def ended(self, code: int = 0) -> str:
        """What it has said until its end; it must end by itself, with that exit code, and leave nobody behind."""
        said = self.communicate(timeout=LONG_S)[0].decode()
        assert self.returncode == code, said
        assert "Traceback" not in said
        assert family(self.mark) == {}
        return said


@contextmanager
def running(path: Path, *words: str | Path, **variables: str) -> Iterator[Run]:
    """`holdfast` in a process group of its own; what is left of it in the end is killed."""
    mark = uuid4().hex
    with Run(
        command(path, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(**variables, **{MARK: mark}),
        start_new_session=True,
    ) as run:
        run.mark = mark
        try:
            yield run
        finally:
            run.kill()
            kill_family(mark)


# -- reports ---------------------------------------------------------------------------------------------------


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


def fetches(path: Path, name: str = NAME) -> int:
    """How many the log of a crawl has, which may be running; cheap enough to be asked for again and again."""
    try:
        return log_path(path, name).read_bytes().count(b'"event":"fetch"')
    except FileNotFoundError:
        return 0


def wait_for_fetches(path: Path, count: int, name: str = NAME) -> None:
    """Until a crawl in another process has so many in its log."""
    wait_until(lambda: fetches(path, name) >= count, f"{count} fetches")


# -- processes ---------------------------------------------------------------------------------------------------------


def family(run: str) -> dict[int, str]:
    """The processes that live and were started with that mark, or by such a one, with their command lines.

    Those that have ended are not among them, even if nobody has noticed their end.
    """
    mark = f"{MARK}={run}".encode()
    found = {}
    for name in os.listdir("/proc"):
        # Not by way of Path: tests ask again and again, while what they wait for needs the processor.
        if name.isdigit() and mark in _read(f"/proc/{name}/environ") and lives(name):
            found[int(name)] = _read(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode(errors="replace")
    return found


def member(run: str, word: str) -> int:
    """The process of that family whose command line has the word."""
    found: list[int] = []

    def look() -> bool:
        found.extend(pid for pid, line in family(run).items() if word in line)
        return bool(found)

    wait_until(look, f"a process with '{word}'")
    return found[0]


def kill_family(run: str) -> None:
    """All at once, as far as there is such a thing."""
    for pid in family(run):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def lives(process: str) -> bool:
    return _read(f"/proc/{process}/stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # it has ended, or is somebody else's
        return b""
