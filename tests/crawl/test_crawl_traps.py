"""Every trap of the test web is survived (H5): the crawl ends by itself, asks little, keeps what came, stays small."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from crawl_runs import LONG_S, NAME, captured, crawled, family, log_rows, make_archive, running, write_job_file
from crawl_sites import records_of
from hostile_web import SANE, LogEntry, Served, Trap, Web
from hostile_web.traps import traps
from waiting import wait_until

import holdfast
from holdfast.crawl.job.job import CrawlJob
from holdfast.crawl.report.crawls import CrawlState, crawl_directory, crawl_status

MEMORY_BYTES_MAX = 600 << 20  # of all processes of the crawl together
WEB = Web(seed=1, hosts=1, pages=3)
LISTINGS = ("/robots.txt", "/sitemap.xml")
NAMES = [trap.name for trap in traps(80)]
SLOW = ("slow-body", "slow-head", "silent")  # which nothing but a time-out ends


@dataclass(frozen=True)
class Survived:
    """A crawl of all traps at once, but for those that are slow on purpose: beside it, a crawl of those.

    So only the second depends on time-outs, and what else is cut off is cut off by its length on a busy machine, too.
    """

    path: Path
    slow_path: Path
    web: Web
    job: CrawlJob
    log: list[LogEntry]
    peak_bytes: int

    def trap(self, name: str) -> Trap:
        (found,) = [trap for trap in self.web.traps if trap.name == name]
        return found

    def path_of(self, name: str) -> Path:
        return self.slow_path if name in SLOW else self.path

    def row(self, name: str) -> dict[str, object]:
        """The last fetch of a trap's entry, in the crawl's log."""
        return [row for row in log_rows(self.path_of(name), "fetch") if row["url"] == self.trap(name).entry][-1]

    def captured(self, name: str) -> set[str]:
        host = self.trap(name).host
        return {url for url in captured(self.path_of(name)) if f"//{host}:" in url and not url.endswith(LISTINGS)}


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> Survived:
    directory = tmp_path_factory.mktemp("traps")
    path, slow_path = make_archive(directory / "archive"), make_archive(directory / "slow")
    with WEB.serving() as served:
        job, slow = trap_job(served), slow_job(served)
        with (
            running(slow_path, "crawl", write_job_file(directory / "slow.toml", slow), "--quiet") as beside,
            running(path, "crawl", write_job_file(directory / "job.toml", job), "--quiet") as run,
        ):
            peak = watched(run.mark)
            run.ended()
            beside.ended()
        assert [crawl_status(each, NAME).state for each in (path, slow_path)] == [CrawlState.FINISHED] * 2
        return Survived(path, slow_path, served.web, job, served.log(), peak)


def trap_job(served: Served) -> CrawlJob:
    """All traps but the slow ones are seeds; the inside is private, the rest of the loopback is not."""
    web = served.web
    fetch = replace(SANE.fetch, resolve=web.resolve, refuse=web.refuse, stall_timeout_s=LONG_S, fetch_timeout_s=LONG_S)
    fetch = replace(fetch, connect_timeout_s=LONG_S)
    return replace(SANE, name=NAME, seeds=tuple(trap.entry for trap in web.traps if trap.name not in SLOW), fetch=fetch)


def slow_job(served: Served) -> CrawlJob:
    """Of the slow ones; their time-outs are long enough for what is not slow on purpose, such as robots.txt."""
    job = trap_job(served)
    fetch = replace(job.fetch, stall_timeout_s=8.0, fetch_timeout_s=12.0)
    return replace(job, seeds=tuple(trap.entry for trap in served.web.traps if trap.name in SLOW), fetch=fetch)


def watched(mark: str) -> int:
    """The most memory that the processes of a crawl had, each at its worst, until all of them have ended."""
    peaks: dict[int, int] = {}

    def has_ended() -> bool:
        living = family(mark)
        for pid in living:
            peaks[pid] = max(peaks.get(pid, 0), _peak(pid))
        return bool(peaks) and not living

    wait_until(has_ended, "the end of the crawl")
    assert len(peaks) >= 3, "conductor, fetcher, reader"
    return sum(peaks.values())


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_no_trap_is_asked_for_more_than_its_limits_allow(survived: Survived, name: str) -> None:
    """H5: by the server's log."""
    trap = survived.trap(name)
    asked = trap.requests(survived.log)
    assert len(asked) <= trap.requests_max(survived.job)
    assert asked or name == "bad-tls"


def test_memory_stays_small(survived: Survived) -> None:
    """H5: bombs, endless bodies and 100,000 links, all at once."""
    assert 50 << 20 < survived.peak_bytes < MEMORY_BYTES_MAX


def test_the_archive_is_sound_and_nothing_is_left_behind(survived: Survived) -> None:
    """H5: no file in the spool, no fault in the store."""
    for path in (survived.path, survived.slow_path):
        assert holdfast.check(path).faults == []
        assert list((crawl_directory(path, NAME) / "spool").iterdir()) == []


# -- broken HTTP -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why", "begin"),
    [
        ("endless-body", "length", b"<p>and then the tide came in"),
        ("bomb", "length", b"\x1f\x8b"),
        ("slow-body", "time", b"."),
        ("short-body", "disconnect", b"<!doctype html><p>tide"),
        ("cut-chunks", "disconnect", b"<!doctype html><p>tide"),
    ],
)
def test_what_came_of_a_body_that_was_cut_off_is_kept_and_marked(
    survived: Survived, name: str, why: str, begin: bytes
) -> None:
    """H5: `WARC-Truncated`, in the record, the log and the tally."""
    url = survived.trap(name).entry
    with holdfast.open(survived.path_of(name), read_only=True) as archive:
        record = archive.get(url)
        assert record.headers.get("WARC-Truncated") == why
        assert record.payload().startswith(begin)
        if why == "length":
            assert len(record.payload()) == survived.job.fetch.body_bytes_max
    assert survived.row(name)["truncated"] == why


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("slow-head", {"timeout"}),
        ("silent", {"timeout"}),
        ("huge-head", {"protocol"}),
        ("garbage", {"protocol"}),
        ("nothing", {"dropped"}),
        ("reset", {"dropped", "connect"}),
    ],
)
def test_what_is_no_answer_is_an_error_and_no_capture(survived: Survived, name: str, outcomes: set[str]) -> None:
    """H5: the reason is in the log, and in the crawl's status."""
    row = survived.row(name)
    assert row["outcome"] in outcomes
    assert row["result"] == "error"
    assert survived.captured(name) == set()
    assert crawl_status(survived.path_of(name), NAME).errors[str(row["outcome"])] >= 1


def test_a_host_without_sound_tls_is_given_up_at_its_robots_txt(survived: Survived) -> None:
    """H5: nobody can tell what it allows."""
    url = survived.trap("bad-tls").entry
    asked = [row for row in log_rows(survived.path, "fetch") if row["url"].startswith(url)]
    assert {(row["url"], row["outcome"]) for row in asked} == {(f"{url}robots.txt", "tls")}
    assert [row["note"] for row in log_rows(survived.path, "refused") if row["url"] == url] == [
        "robots.txt is unreachable"
    ]


@pytest.mark.parametrize(
    "name", ["bad-chunks", "huge-chunk", "long-body", "two-lengths", "negative-length", "bad-head"]
)
def test_what_is_wrong_by_the_standard_is_kept_as_far_as_it_can_be(survived: Survived, name: str) -> None:
    """H5: either there is a capture that can be read, or an error that says why not."""
    row = survived.row(name)
    if row["outcome"] == "ok":
        with holdfast.open(survived.path, read_only=True) as archive:
            assert archive.get(survived.trap(name).entry).payload() is not None
    else:
        assert row["note"]
        assert survived.captured(name) == set()


def test_a_body_that_does_not_decode_is_kept_as_it_came(survived: Survived) -> None:
    """H5: what says that it is gzip, and is not."""
    with holdfast.open(survived.path, read_only=True) as archive:
        record = archive.get(survived.trap("false-gzip").entry)
        assert record.payload().startswith(b"<!doctype html><p>tide ")


# -- mazes -------------------------------------------------------------------------------------------------------------


def test_a_page_behind_session_ids_is_captured_once(survived: Survived) -> None:
    """H5: URLs that differ in their session id alone are one page."""
    pages = Counter(url.partition(";")[0].partition("?")[0] for url in survived.captured("session"))
    assert len(pages) == 11
    assert set(pages.values()) == {1}


def test_mazes_are_gone_into_as_far_as_the_limits_say(survived: Survived) -> None:
    """H5: they are cut off, not left out."""
    counts = {name: len(survived.captured(name)) for name in ("calendar", "agenda", "redirects", "css-chain", "deep")}
    settings = survived.job
    assert counts["calendar"] > 24
    assert counts["agenda"] == settings.traps.query_variants_max + 1
    assert counts["redirects"] == settings.fetch.redirects_max + 1
    assert counts["css-chain"] in range(settings.traps.embed_hops_max + 1, settings.traps.embed_hops_max + 4)
    assert counts["deep"] in (1, 2), "a parser may stop before the bottom"
    assert len(survived.captured("many-links")) in (settings.traps.host_urls_max - 1, settings.traps.host_urls_max)
    hosts = {url.split("/")[2] for url in captured(survived.path) if ".hydra.example.net:" in url}
    assert len(hosts) == settings.traps.hosts_max


def test_what_goes_on_and_on_is_known_by_its_urls(survived: Survived) -> None:
    """H5: before the budget of the host is used up: dates far from ours, and paths that repeat themselves."""
    traps, year = survived.job.traps, time.gmtime().tm_year
    years = {int(url.split("/")[4]) for url in survived.captured("calendar") if url != survived.trap("calendar").entry}
    assert years <= set(range(year - traps.calendar_years, year + traps.calendar_years + 1))
    paths = [Counter(url.split("/")[3:]) for url in survived.captured("path-repeat")]
    assert max(times for path in paths for segment, times in path.items() if segment) == traps.segment_repeats_max


def test_the_log_says_what_was_cut_off_and_why(survived: Survived) -> None:
    """H5: so that a person who misses a page can see it."""
    reasons = Counter(row["note"].split(" ")[0] for row in log_rows(survived.path, "trapped"))
    assert {"path", "date", "more"} <= set(reasons)
    assert crawl_status(survived.path, NAME).tally["trapped"] == sum(reasons.values())


# -- the inside --------------------------------------------------------------------------------------------------------


def test_a_private_address_is_refused_to_those_who_come_from_outside(survived: Survived) -> None:
    """H5: by redirect to an address and to a name, and as a picture; nothing of the inside is asked for."""
    assert [entry for entry in survived.log if entry.address == survived.web.private_address] == []
    inside = [row for row in log_rows(survived.path, "fetch") if row["outcome"] == "private"]
    assert inside
    assert all("private" in row["note"] or "127.0.2.1" in row["note"] for row in inside)
    assert {url for url in captured(survived.path) if "secret" in url or "/picture" in url} == set()


def test_private_addresses_can_be_allowed(tmp_path: Path) -> None:
    """H5: `--private`."""
    path = make_archive(tmp_path / "archive")
    with WEB.serving() as served:
        (trap,) = [trap for trap in served.web.traps if trap.name == "private"]
        job = replace(trap_job(served), seeds=(trap.entry,))
        crawled(path, replace(job, fetch=replace(job.fetch, private=True)))
        found = {url.rpartition("/")[2] for url in captured(path)}
        assert {"secret", "picture"} <= found
        assert [entry for entry in served.log() if entry.address == served.web.private_address] != []
    with holdfast.open(path, read_only=True) as archive:
        secrets = [record for record in records_of(archive, "response") if record.entry.url.endswith("/secret")]
        assert {record.payload() for record in secrets} == {b"a secret of the house"}
