"""`crawl why`: the reason that it gives is the true one, for each kind of reason (H7)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crawl_clock import Clock
from crawl_runs import NAME, crawled, job_for, log_rows, make_archive, program
from crawl_sites import DAY_S, LittleWeb, linking, page
from hostile_web.exchange import plain

import holdfast
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.job.job import CrawlJob, FetchSettings, RevisitSettings, TrapSettings
from holdfast.crawl.report.log import CrawlLog, last_row
from holdfast.crawl.report.why import why

UNREAL = "http://unreal.invalid/"  # RFC 6761: such names have no addresses


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "archive")


def job_of(web: LittleWeb, **more: Any) -> CrawlJob:
    return job_for(web, **{"sitemap": False, "retries": 0, **more})  # type: ignore[arg-type]


def reason(archive: Path, url: str) -> str:
    return str(why(archive, NAME, url)["reason"])


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_a_host_without_an_address(archive: Path) -> None:
    with LittleWeb({"/": page(linking(UNREAL))}).serving() as web:
        crawled(archive, job_of(web, robots=False))
    told = why(archive, NAME, UNREAL)
    assert (told["state"], told["outcome"], told["robots"]) == ("failed", "dns", "ignored")
    assert told["reason"].startswith("not fetched: its host has no address (")


def test_a_host_without_an_address_whose_rules_were_asked_for_first(archive: Path) -> None:
    """robots.txt forbids nothing there; nobody has seen it."""
    with LittleWeb({"/": page(linking(UNREAL))}).serving() as web:
        crawled(archive, job_of(web))
    told = why(archive, NAME, UNREAL)
    assert (told["state"], told["robots"]) == ("refused", "unreachable")
    assert told["reason"].startswith("not fetched: robots.txt could not be fetched: its host has no address (")


@pytest.mark.parametrize(
    ("host", "outcome", "words"),
    [("unreal.invalid", "dns", "its host has no address"), ("down.example", "connect", "no connection to its host")],
)
def test_a_host_that_was_given_up(archive: Path, host: str, outcome: str, words: str) -> None:
    """What was not asked for any more has the reason of what was."""
    urls = [f"http://{host}:9/{number}" for number in range(40)]
    with LittleWeb({"/": page(linking(*urls))}).serving() as web:
        job = job_of(web, robots=False, resolve=(("*.test", "127.0.0.1"), ("*.example", "127.0.0.9")))
        crawled(archive, job)
    told = [why(archive, NAME, url) for url in urls]
    assert {each["outcome"] for each in told} == {outcome}
    given_up = [each["reason"] for each in told if "given up" in each["reason"]]
    assert given_up
    assert set(given_up) == {f"not fetched: its host was given up: {words}"}
    assert all(each["reason"].startswith(f"not fetched: {words}") for each in told if "given up" not in each["reason"])


@contextmanager
def silent_server() -> Iterator[CrawlJob]:
    """Takes connections, and says nothing; with a crawl of it that soon loses patience."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/page"
        fetch = FetchSettings(delay=0.0, stall_timeout_s=1.0, retries=0)
        yield CrawlJob((url,), NAME, sitemap=False, readers=1, fetch=fetch)


def test_robots_txt_that_does_not_come_in_time(archive: Path) -> None:
    with silent_server() as job:
        crawled(archive, job)
    told = why(archive, NAME, job.seeds[0])
    assert (told["state"], told["outcome"], told["robots"]) == ("refused", "no rules", "unreachable")
    assert told["reason"].startswith("not fetched: robots.txt could not be fetched: no response in time (")


@pytest.mark.parametrize("obeys", [True, False])
def test_what_waits_for_another_attempt(archive: Path, obeys: bool) -> None:
    """Of the page, or of robots.txt, which has to be there first."""
    with silent_server() as impatient:
        job = replace(impatient, fetch=replace(impatient.fetch, robots=obeys, retries=50))
        with holdfast.open(archive) as opened:
            Crawl(opened, job).run(stopping=lambda: any(row.get("result") == "retry" for row in log_rows(archive)))
    told = why(archive, NAME, job.seeds[0])
    assert told["state"] == "queued"
    waits = "waits for robots.txt" if obeys else f"waits for attempt {told['attempts'] + 1} of 51"
    assert told["reason"].startswith(f"{waits}: no response in time (")


def test_robots_txt_that_is_broken_and_one_that_forbids(archive: Path) -> None:
    broken, closed, slow = "broken.test", "closed.test", "slow.test"
    with LittleWeb({f"{broken}/robots.txt": plain(500, "out of order")}).serving() as web:
        web.set(f"{closed}/robots.txt", plain(200, "User-agent: *\nDisallow: /\n"))
        web.set(f"{slow}/robots.txt", plain(200, "User-agent: *\nCrawl-delay: 7200\n"))
        urls = {host: web.url(f"{host}/a") for host in (broken, closed, slow)}
        web.set("/", page(linking(*urls.values())))
        crawled(archive, job_of(web))
    told = {host: why(archive, NAME, url) for host, url in urls.items()}
    assert told[broken]["reason"] == "not fetched: robots.txt could not be fetched: status 500"
    assert (told[broken]["robots"], told[closed]["robots"]) == ("unreachable", "forbidden")
    assert told[closed]["reason"] == "not fetched: robots.txt forbids it"
    assert told[slow]["reason"] == "not fetched: robots.txt asks for 7,200 s between two fetches"


def test_what_robots_txt_said_is_told_when_it_has_to_be_asked_for_again(archive: Path, clock: Clock) -> None:
    with LittleWeb(
        {"/": page(linking("/no")), "/robots.txt": plain(200, "User-agent: *\nDisallow: /no")}
    ).serving() as web:
        crawled(archive, job_of(web))
        clock.advance(2 * DAY_S)
        assert why(archive, NAME, web.url("/"))["robots"] == "allowed"
        assert why(archive, NAME, web.url("/no"))["robots"] == "forbidden"


def test_what_waits_for_its_turn(archive: Path) -> None:
    with LittleWeb({}).serving() as web:
        urls = [web.url(f"/{number}") for number in range(5)]
        web.set("/", page(linking(*urls)))
        crawled(archive, job_of(web, limit=1))
    assert {reason(archive, url) for url in urls} == {"waits to be fetched"}
    assert "5 URLs are still to be fetched" in reason(archive, web.url("/other"))


# -- what was found, and not queued ------------------------------------------------------------------------------------


def test_redirects_that_were_cut(archive: Path) -> None:
    """The one that was not followed, and the one that led to it."""
    with LittleWeb({}).serving() as web:
        for number in range(6):
            web.set(f"/{number}", page("", ("Location", f"/{number + 1}"), status=302))
        web.set("/", page(linking("/0")))
        crawled(archive, job_of(web, redirects_max=3))
    cut = "more than 3 redirects in a row"
    assert reason(archive, web.url("/4")) == f"not fetched: {cut}; it was found on {web.url('/3')}"
    assert reason(archive, web.url("/3")) == f"fetched: status 302; not followed: {cut}"
    assert reason(archive, web.url("/2")) == "fetched: status 302"


def test_what_is_too_far_from_the_seeds(archive: Path) -> None:
    with LittleWeb({"/": page(linking("/a")), "/a": page(linking("/b")), "/b": page("b")}).serving() as web:
        crawled(archive, job_of(web, depth=1))
    assert (
        reason(archive, web.url("/b")) == f"not fetched: more than 1 links from a seed; it was found on {web.url('/a')}"
    )
    assert reason(archive, web.url("/c")) == "no link to it was found in what was fetched"


def test_what_is_beyond_a_budget_or_looks_like_a_trap(archive: Path) -> None:
    calendar = "/events/2199-01-01/"
    with LittleWeb({"/": page(linking("/q?a=1", "/q?a=2", "/q?a=3", calendar))}).serving() as web:
        crawled(archive, replace(job_of(web), traps=TrapSettings(query_variants_max=2)))
    budget = f"not fetched: more than 2 queries of the path '{web.url('/q')}'; it was found on {web.url('/')}"
    assert reason(archive, web.url("/q?a=3")) == budget
    assert reason(archive, web.url(calendar)).startswith("not fetched: date in the year 2199")
    assert reason(archive, web.url("/events/2198-01-01/")).startswith("not fetched: date in the year 2198")


def test_requisites_of_requisites(archive: Path) -> None:
    """However a chain is cut, it is told."""
    with LittleWeb({}).serving() as web:
        for number in range(4):
            web.set(f"/{number}.css", plain(200, f"@import url('/{number + 1}.css');", kind="text/css"))
        web.set("/", page("<link rel=stylesheet href=/0.css>"))
        crawled(archive, replace(job_of(web), traps=TrapSettings(embed_hops_max=2)))
    cut = "not fetched: more than 2 requisites of requisites in a row; it was found on "
    assert reason(archive, web.url("/3.css")) == cut + web.url("/2.css")


def test_what_was_removed(archive: Path, clock: Clock) -> None:
    with LittleWeb({"/": page(linking("/own")), "/own": page("own")}).serving() as web:
        job = replace(job_of(web), revisit=RevisitSettings(lifetime_s=10 * DAY_S))
        crawled(archive, job)
        told = why(archive, NAME, web.url("/own"))
        assert told["reason"] == "fetched: status 200"
        assert told["expires"] > told["reached"]
        web.set("/own", None)
        clock.advance(11 * DAY_S)
        crawled(archive, job)
    assert reason(archive, web.url("/own")) == "removed: not seen for 11 days (lifetime 10 days), then status 404"


def test_what_was_fetched_beside_the_pages(archive: Path) -> None:
    with LittleWeb({"/": page("")}).serving() as web:
        crawled(archive, job_of(web))
    assert reason(archive, web.url("/robots.txt")) == "fetched as robots.txt: status 404"


def test_a_url_without_a_scheme_is_looked_for_with_both(archive: Path) -> None:
    with LittleWeb({"/": page(linking("/a")), "/a": page("a")}).serving() as web:
        crawled(archive, job_of(web))
    written = web.url("/a").removeprefix("http://")
    told = json.loads(program(archive, "crawl", "why", written, "--json").stdout)
    assert (told["url"], told["reason"]) == (web.url("/a"), "fetched: status 200")
    assert "reason    fetched: status 200" in program(archive, "crawl", "why", written).stdout


# -- the log -----------------------------------------------------------------------------------------------------------


def test_the_last_row_is_found_whatever_lies_around_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert last_row(path, "url", "a") is None
    path.touch()
    assert last_row(path, "url", "a") is None
    with closing(CrawlLog(path)) as log:
        log.write([{"event": "fetch", "url": "a", "n": 1}, {"event": "fetch", "url": "ab"}, {"event": "x", "url": "a"}])
        log.write([{"event": "x", "note": '"url":"a"', "url": "b"}, {"event": "fetch", "url": 'ü"\\'}])
    with path.open("ab") as file:
        file.write(b'no JSON "url":"a"\n{"event":"fetch","url":"a"')  # and one that is not whole
    assert last_row(path, "url", "a") == {"event": "x", "url": "a"}
    assert last_row(path, "url", "a", lambda row: row["event"] == "fetch") == {"event": "fetch", "url": "a", "n": 1}
    assert last_row(path, "url", 'ü"\\') == {"event": "fetch", "url": 'ü"\\'}
    assert last_row(path, "url", "c") is None
