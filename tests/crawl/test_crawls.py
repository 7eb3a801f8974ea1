"""Which crawls an archive has, which of them run, and how they are stopped (H5)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.report.crawls import (
    STATUS,
    CrawlState,
    CrawlStatus,
    crawl_directory,
    crawl_status,
    crawls,
    keep_job,
    kept_job,
    log_path,
    request_stop,
    write_status,
)
from holdfast.errors import InvalidSetting, UnknownName, UsageError

SOURCE = Path(__file__).parents[2] / "src"
JOB = CrawlJob(seeds=("https://example.com/",), name="news", depth=3)
TALLY = {"fetched": 3, "queued": 4, "in_flight": 1}
CHILD = """
import signal, sys
from pathlib import Path
from holdfast.crawl.report.crawls import CrawlState, CrawlStatus, write_status
archive = Path(sys.argv[1])
write_status(archive, CrawlStatus("news", CrawlState.RUNNING, visit=1))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("running", flush=True)
signal.sigwait([signal.SIGTERM])
write_status(archive, CrawlStatus("news", CrawlState.STOPPED, visit=1, reason="asked to"))
"""


@contextmanager
def child(archive: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that says of itself to be the crawl 'news', and ends when asked to."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(archive)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        yield process
        process.kill()


def test_an_archive_without_crawls(tmp_path: Path) -> None:
    assert crawls(tmp_path) == []
    assert kept_job(tmp_path, "news") is None
    with pytest.raises(UnknownName, match=r"no crawl 'news' in .*: begin one"):
        crawl_status(tmp_path, "news")
    with pytest.raises(UnknownName, match="no crawl in"):
        crawl_status(tmp_path)
    with pytest.raises(UnknownName):
        request_stop(tmp_path, "news")
    assert list(tmp_path.iterdir()) == []


def test_names_stay_inside(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bad name '\.\./x' of a crawl"):
        crawl_directory(tmp_path, "../x")


def test_a_job_is_kept(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    assert kept_job(tmp_path, "news") == JOB
    assert log_path(tmp_path, "news") == tmp_path / "crawls" / "news" / "log.jsonl"
    (crawl_directory(tmp_path, "news") / "job.toml").write_text("depth = 1\n")
    with pytest.raises(
        InvalidSetting, match=r"a crawl needs seeds.*; correct the file, or delete it: the captures are"
    ):
        kept_job(tmp_path, "news")
    (crawl_directory(tmp_path, "news") / "job.toml").unlink()
    (crawl_directory(tmp_path, "news") / "job.toml").mkdir()
    with pytest.raises(InvalidSetting, match="is a folder"):
        kept_job(tmp_path, "news")


def test_a_crawl_that_never_said_anything_was_interrupted(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    assert crawls(tmp_path) == [CrawlStatus("news", CrawlState.INTERRUPTED)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"state": "odd"}', '{"visit": 1}', "null", "[" * 100_000),
        *(
            '{"state": "finished", "updated": "x"}',
            '{"state": "limit", "tally": []}',
            '{"state": "limit", "errors": 1}',
        ),
        *('{"state": "finished", "tally": {"fetched": "1"}}', '{"state": "finished", "started": NaN}'),
    ],
)
def test_a_status_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    keep_job(tmp_path, JOB)
    (crawl_directory(tmp_path, "news") / STATUS).write_text(text)
    found = crawl_status(tmp_path, "news")
    assert found == CrawlStatus("news", CrawlState.INTERRUPTED, reason="status.json cannot be read")


def test_a_status_of_this_process(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    write_status(tmp_path, CrawlStatus("news", CrawlState.RUNNING, 2, started=1.5, tally=TALLY, errors={"dns": 1}))
    found = crawl_status(tmp_path, "news")
    assert found.running
    assert (found.visit, found.started, found.pid, found.errors) == (2, 1.5, os.getpid(), {"dns": 1})
    assert found.tally == TALLY
    for state in (CrawlState.FINISHED, CrawlState.LIMIT, CrawlState.STOPPED, CrawlState.FAILED):
        write_status(tmp_path, CrawlStatus("news", state, 2, reason="so"))
        assert (crawl_status(tmp_path, "news").state, crawl_status(tmp_path, "news").reason) == (state, "so")
    assert [path.name for path in crawl_directory(tmp_path, "news").iterdir() if path.suffix == ".open"] == []


def test_fields_of_later_releases_are_passed_over(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    (crawl_directory(tmp_path, "news") / STATUS).write_text(
        json.dumps({"state": "finished", "visit": 7, "mood": "good"})
    )
    assert crawl_status(tmp_path, "news") == CrawlStatus("news", CrawlState.FINISHED, 7)


def test_the_crawl_that_did_something_last(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        keep_job(tmp_path, CrawlJob(seeds=JOB.seeds, name=name))
    write_status(tmp_path, CrawlStatus("b", CrawlState.FINISHED))
    write_status(tmp_path, CrawlStatus("a", CrawlState.FINISHED))
    assert crawl_status(tmp_path).name == "a"
    write_status(tmp_path, CrawlStatus("c", CrawlState.RUNNING))
    write_status(tmp_path, CrawlStatus("a", CrawlState.FINISHED))
    assert crawl_status(tmp_path).name == "c"
    assert [status.name for status in crawls(tmp_path)] == ["a", "b", "c"]
    with pytest.raises(UnknownName, match="known are a, b, c"):
        crawl_status(tmp_path, "d")


# -- processes ---------------------------------------------------------------------------------------------------------


def test_a_crawl_is_stopped(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    with child(tmp_path) as process:
        assert crawl_status(tmp_path, "news").running
        assert request_stop(tmp_path, "news")
        assert process.wait() == 0
    assert (crawl_status(tmp_path, "news").state, crawl_status(tmp_path, "news").reason) == ("stopped", "asked to")
    assert not request_stop(tmp_path, "news")


def test_a_killed_crawl_was_interrupted(tmp_path: Path) -> None:
    keep_job(tmp_path, JOB)
    with child(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but still listed
        assert crawl_status(tmp_path, "news").state == CrawlState.INTERRUPTED
        process.wait()
        assert crawl_status(tmp_path, "news").state == CrawlState.INTERRUPTED
        assert not request_stop(tmp_path, "news")


def test_another_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    """Process ids are given again: that of a killed crawl may be somebody else's now."""
    keep_job(tmp_path, JOB)
    with child(tmp_path) as process:
        path = crawl_directory(tmp_path, "news") / STATUS
        values = json.loads(path.read_text())
        path.write_text(json.dumps(values | {"born": values["born"] - 1}))
        assert crawl_status(tmp_path, "news").state == CrawlState.INTERRUPTED
        assert not request_stop(tmp_path, "news")
        assert process.poll() is None
