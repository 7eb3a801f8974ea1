"""Politeness of whole crawls, by the servers' own log and by the crawl's (H5, W17): delays, pauses, limits, robots.txt.

Times are those that the server noted; nothing is said about how long anything takes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path

import pytest
from crawl_runs import NAME, crawled, job_for, log_rows, make_archive, member, running, write_job_file
from crawl_sites import HOST, LittleWeb, linking, page
from hostile_web import LogEntry, Served, Web, checks
from hostile_web.exchange import Answer, Request, plain
from waiting import wait_until

from holdfast.crawl.report.crawls import CrawlState
from holdfast.urls import parse

DELAY_S = 0.05
CRAWL_DELAY_S = 0.12
ROUNDED_S = 0.003  # the crawl's log has thousandths
WEB = Web(seed=7, pages=70, crawl_delay_s=CRAWL_DELAY_S, flaky=15)


@pytest.fixture(scope="module")
def polite(tmp_path_factory: pytest.TempPathFactory) -> tuple[Web, list[LogEntry], Path]:
    """The web, its log, and the archive of one crawl that obeys everything."""
    path = make_archive(tmp_path_factory.mktemp("polite") / "archive")
    with WEB.serving() as served:
        summary = crawled(path, job_for(served, delay=DELAY_S, retries=2, delay_max=0.4))
        assert summary.state is CrawlState.FINISHED
        return served.web, served.log(), path


Polite = tuple[Web, list[LogEntry], Path]


def delay_of(host: str) -> float:
    return CRAWL_DELAY_S if host == "b.alpha.test" else DELAY_S


def test_every_host_is_left_alone_for_its_delay(polite: Polite) -> None:
    """H5: to the letter, robots.txt and retries included; Crawl-delay where it is longer."""
    _, log, _ = polite
    hosts = Counter(entry.host for entry in log)
    assert hosts["b.alpha.test"] > 5
    assert len(hosts) == 7
    assert {host: checks.too_soon(log, host, delay_of(host)) for host in hosts} == {host: [] for host in hosts}
    assert {checks.at_once(log, host) for host in hosts} == {1}


def test_retry_after_is_waited_for(polite: Polite) -> None:
    """H5: 429 and 503, in seconds and as a date."""
    _, log, _ = polite
    asked = [entry for entry in log if entry.pause_until]
    assert Counter(entry.status for entry in asked) == {429: 2, 503: 1}
    assert checks.during_pause(log) == []
    assert max(entry.received for entry in log if entry.host == "gamma.example") > asked[-1].pause_until


def test_robots_txt_is_asked_first_and_obeyed(polite: Polite) -> None:
    """H5: also when it is redirected, of 10 MB, or out of order, which closes the host."""
    web, log, _ = polite
    assert web.forbidden
    assert checks.disallowed(log, web) == []
    assert checks.without_robots(log, web) == []
    assert {entry.target for entry in log if entry.host == "closed.test"} == {"/robots.txt"}
    moved = [entry.target for entry in log if entry.host == "moved.test"]
    assert moved[:2] == ["/robots.txt", "/old/robots.txt"]
    assert max(entry.sent for entry in log if entry.host == "long.test" and entry.path == "/robots.txt") > 10 << 20
    repeated = Counter(entry.host for entry in log if entry.path == "/robots.txt")
    assert {host: count for host, count in repeated.items() if count > 1} == {"closed.test": 3}


def test_the_crawls_own_log_shows_the_same(polite: Polite) -> None:
    """H5: each request has its row, and their times prove the delays and the pauses without the server's help."""
    web, log, path = polite
    rows = sorted(log_rows(path, "fetch"), key=lambda row: float(row["time"]))
    assert Counter(row["url"] for row in rows) == Counter(web.graph.url(entry.host, entry.target) for entry in log)
    ended: dict[str, float] = {}
    for row in rows:
        host = _host(row["url"])
        rested = row["time"] - ended.get(host, 0.0)
        assert rested >= delay_of(host) - ROUNDED_S, row
        ended[host] = row["time"] + row["elapsed"]
    pauses = log_rows(path, "pause")
    assert len(pauses) == 3
    for pause in pauses:
        host = pause["host"].partition(":")[0]
        span = pause["time"], pause["until"] - ROUNDED_S
        inside = [row for row in rows if _host(row["url"]) == host and span[0] < row["time"] < span[1]]
        assert inside == [], pause


def _host(url: str) -> str:
    parsed = parse(url)
    assert parsed is not None
    return parsed.host


# -- limits ------------------------------------------------------------------------------------------------------------


def test_no_host_and_no_address_has_more_at_a_time_than_allowed(tmp_path: Path) -> None:
    """H5: many hosts on one address share its limit, which is a multiple of that of a host."""
    path = make_archive(tmp_path / "archive")
    web = Web(seed=2, hosts=14, pages=90, address_count=1, latency_s=0.02, pauses=0, flaky=0, robots_bytes=1000)
    with web.serving() as served:
        crawled(path, job_for(served, per_host=2, per_address=2))
        log = served.log()
    (address,) = {entry.address for entry in log}
    assert len({entry.host for entry in log}) > 10
    assert max(checks.at_once(log, entry.host) for entry in log) == 2
    assert checks.at_once_at(log, address) == 4


def test_hosts_of_one_address_share_its_rest(tmp_path: Path) -> None:
    """H5: with a delay, an address is asked no more often than `per_address` times in it, whoever lives there."""
    names = [f"h{number}.test" for number in range(6)]
    web = LittleWeb({f"{name}/": page(name) for name in names})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        seeds = tuple(web.url(f"{name}/") for name in names)
        crawled(path, job_for(_as_served(web), seeds=seeds, delay=0.1, per_address=2, sitemap=False))
        log = web.log()
    assert len(log) == 12
    assert {name: checks.too_soon(log, name, 0.1) for name in names} == {name: [] for name in names}
    times = [entry.received for entry in log]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= 0.05 - 0.005  # what a loop may be late in noticing a request


def test_a_refusal_that_names_no_time_is_backed_off_from(tmp_path: Path) -> None:
    """H5: 429 without Retry-After; each in a row makes the pause longer."""
    tries = []

    def refusing(request: Request) -> Answer:
        tries.append(time.monotonic())
        return plain(429, "not now") if len(tries) < 3 else page("well")

    web = LittleWeb({"/": refusing})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        crawled(path, job_for(_as_served(web), sitemap=False))
        log = web.log()
    refused = [entry for entry in log if entry.status == 429]
    later = [[other.received for other in log if other.received > entry.answered] for entry in refused]
    first, second = (min(times) - entry.answered for entry, times in zip(refused, later, strict=True))
    assert first >= 1.0 - 0.001
    assert second >= 2.0 - 0.001
    assert [entry.status for entry in log if entry.target == "/"][-1] == 200


# -- robots.txt that is unreachable -----------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["refused", "broken", "limited", "reset"])
def test_nothing_is_asked_of_a_host_whose_robots_txt_cannot_be_had(tmp_path: Path, answer: str) -> None:
    """H5 (RFC 9309, 2.3.1.4): 5xx, 429 and silence forbid everything; other hosts go on."""
    answers = {"broken": plain(500, ""), "limited": plain(429, "", ("Retry-After", "0")), "reset": Answer(reset=True)}
    pages = {"/": page(linking("/a", "http://bad.test:PORT/x")), "/a": page("a"), "bad.test/x": page("never")}
    if answer in answers:
        pages["bad.test/robots.txt"] = answers[answer]
    web = LittleWeb(pages)  # type: ignore[arg-type]
    path = make_archive(tmp_path / "archive")
    with web.serving():
        elsewhere = "127.0.0.9" if answer == "refused" else "127.0.0.1"  # where nobody listens
        web.set("/", page(linking("/a", web.url("bad.test/x"))))
        resolve = (("bad.test", elsewhere), *web.resolve)
        summary = crawled(path, job_for(_as_served(web), resolve=resolve, retries=1, delay_max=0.3, sitemap=False))
        asked = [(entry.host, entry.target) for entry in web.log()]
    assert (HOST, "/a") in asked
    assert {target for host, target in asked if host == "bad.test"} <= {"/robots.txt"}
    assert summary.errors == {"robots.txt is unreachable": 1}
    assert summary.state is CrawlState.FINISHED


def test_robots_txt_can_be_ignored(tmp_path: Path) -> None:
    """`--robots ignore`: what was forbidden is fetched."""
    web = LittleWeb({"/robots.txt": plain(200, "User-agent: *\nDisallow: /\n"), "/": page("here")})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        assert crawled(path, job_for(_as_served(web), sitemap=False)).tally.refused == 1
        assert web.asked() == []
        assert crawled(path, job_for(_as_served(web), name="rude", robots=False, sitemap=False)).tally.refused == 0
        assert web.asked() == ["/"]


# -- over a kill -------------------------------------------------------------------------------------------------------


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


@pytest.mark.parametrize("killed", ["the crawl", "its fetcher"])
def test_a_pause_that_was_asked_for_before_a_kill_holds_after_it(tmp_path: Path, killed: str) -> None:
    """H5: Retry-After is kept with the crawl, not in a process."""
    asked: list[float] = []

    def busy(request: Request) -> Answer:
        if asked:
            return page("well again")
        asked.append(float(int(time.time() + 4)))
        return Answer(503, (("Retry-After", formatdate(asked[0], usegmt=True)),), b"", pause_until=asked[0])

    web = LittleWeb({"/": page(linking("/busy", "/a", "/b")), "/busy": busy, "/a": page("a"), "/b": page("b")})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        job = write_job_file(tmp_path / "job.toml", job_for(_as_served(web), sitemap=False))
        with running(path, "crawl", job) as run:
            wait_until(lambda: log_rows(path, "pause"), "a pause")
            os.kill(run.pid if killed == "the crawl" else member(run.mark, "crawl.fetch.process"), signal.SIGKILL)
            if killed == "its fetcher":
                run.ended()
        with running(path, "crawl", "--resume", NAME) as run:
            run.ended()
        log = web.log()
    assert asked
    assert checks.during_pause(log) == []
    assert {"/a", "/b", "/busy"} <= {entry.target for entry in log if entry.received >= asked[0] - 0.001}


def test_the_delay_is_owed_after_a_kill_too(tmp_path: Path) -> None:
    """H5: also for a request that was under way, of which the killed crawl has noted nothing."""
    hanging: list[str] = []

    def hang(request: Request) -> Answer:
        hanging.append(request.target)
        return Answer(200, stream=_silence, raw=True) if len(hanging) == 1 else page("b")

    web = LittleWeb({"/": page(linking("/a", "/b")), "/a": page("a"), "/b": page("b")})
    web.set("/robots.txt", hang)
    delay = 2.5
    path = make_archive(tmp_path / "archive")
    with web.serving():
        job = write_job_file(tmp_path / "job.toml", job_for(_as_served(web), delay=delay, sitemap=False, depth=0))
        with running(path, "crawl", job) as run:
            wait_until(lambda: hanging, "a request")
            os.kill(run.pid, signal.SIGKILL)
        with running(path, "crawl", job) as run:
            run.ended()
        log = web.log()
    assert [entry.target for entry in log] == ["/robots.txt", "/robots.txt", "/"]
    assert checks.too_soon(log, HOST, delay) == []


def _as_served(web: LittleWeb) -> Served:
    """What a job is made for needs to have seeds and addresses, no more."""
    return web  # type: ignore[return-value]
