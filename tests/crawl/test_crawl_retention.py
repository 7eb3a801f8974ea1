"""Retention (B4): a page lives as long as it is seen, a while longer, and is then removed for good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crawl_clock import Clock
from crawl_runs import (
    NAME,
    crawled,
    frontier_state,
    job_for,
    log_rows,
    make_archive,
    program,
    running,
    write_job_file,
)
from crawl_sites import DAY_S, LittleWeb, blocks, captures_of, linking, page, references
from hostile_web.exchange import Answer, Request, plain
from waiting import wait_until

import holdfast
from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job.job import CrawlJob, RevisitSettings
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.policy.robots import Robots
from holdfast.crawl.report.crawls import crawl_directory, keep_job
from holdfast.crawl.report.why import why
from holdfast.crawl.schedule.retention import Retention, expire
from holdfast.errors import UsageError

LIFETIME = RevisitSettings(lifetime_s=10 * DAY_S, grace_s=2 * DAY_S)
SHARED = page("the same words in two places")


def small_web() -> LittleWeb:
    return LittleWeb(
        {"/": page(linking("/own", "/one", "/two")), "/own": page("own words"), "/one": SHARED, "/two": SHARED}
    )


def job_of(web: LittleWeb, **more: Any) -> CrawlJob:
    return job_for(web, sitemap=False, retries=0, revisit=LIFETIME, **more)  # type: ignore[arg-type]


def audits(path: Path) -> list[dict[str, Any]]:
    log = path / "audit.log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def known(path: Path) -> set[str]:
    return {"/" + row.url.split("/", 3)[3] for row in frontier_state(path)[1]}


def listed(path: Path) -> set[str]:
    """What has come to its end, by the list, which changes nothing."""
    with holdfast.open(path, read_only=True) as archive:
        return {"/" + each.row.url.split("/", 3)[3] for each in expire(archive, NAME, dry_run=True)}


def test_what_is_gone_is_removed_after_its_lifetime_and_what_is_shared_stays(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B4: captures, contents, references, audit, and the frontier forgets."""
    monkeypatch.setattr("holdfast.records.draft.REPEATED_BYTES_MAX", 0)  # pages are contents of the store
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        before, held = blocks(path), references(path)
        web.set("/own", None)
        web.set("/one", None)
        clock.advance(4 * DAY_S)
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 2, "gone, but not for long enough"
        assert audits(path) == []

        clock.advance(7 * DAY_S)
        crawled(path, job)
        urls = {name: captures_of(path, web.url(name)) for name in ("/", "/own", "/one", "/two")}
    assert (urls["/own"], urls["/one"]) == ([], [])
    assert (len(urls["/"]), len(urls["/two"])) == (3, 3)
    assert known(path) == {"/", "/two"}
    (line,) = audits(path)
    assert (line["event"], line["captures"]) == ("removal", 6)
    assert line["reason"].startswith(f"crawl '{NAME}': not seen for 11 days (lifetime 10 days), then status 404")
    assert blocks(path) == before - 1, "its own words; those of the other are still held"
    assert sum(references(path)) == 3 + 3 + 3, "three visits of each page that lives, and of robots.txt"
    assert sum(held) == 5
    with holdfast.open(path, read_only=True) as archive:
        assert archive.get(web.url("/two")).payload() == SHARED.body
    assert holdfast.check(path).faults == []
    assert {row["url"] for row in log_rows(path, "expired")} == {web.url("/own"), web.url("/one")}


# -- a server that comes and goes --------------------------------------------------------------------------------------


class Site(LittleWeb):
    """A server that can be stopped and started again at the same address, and notes when it was asked for what."""

    def __init__(self, clock: Clock) -> None:
        super().__init__({"/": page(linking("/lives", "/dies", "/blinks"))})
        self._clock = clock
        self.looks: list[tuple[float, str, int]] = []  # time, path, status
        for name in ("/lives", "/dies", "/blinks"):
            self.set(name, page(name))

    def answer(self, request: Request) -> Answer:
        answer = super().answer(request)
        self.looks.append((self._clock.now(), request.target, answer.status))
        return answer

    @contextmanager
    def serving(self) -> Iterator[LittleWeb]:
        with super().serving():
            self.port = int(self.url("/").split(":")[2].rstrip("/"))
            yield self


def test_every_removal_follows_a_look_after_the_lifetime(tmp_path: Path, clock: Clock) -> None:
    """B4: the real program, and a server that is up, down, and up again; the server's log is the witness."""
    path = make_archive(tmp_path / "archive")
    site = Site(clock)
    with site.serving():
        revisit = replace(LIFETIME, interval_first_s=90 * DAY_S, interval_max_s=90 * DAY_S)
        job = replace(job_of(site), revisit=revisit)
        program(path, "crawl", write_job_file(tmp_path / "job.toml", job), "-q")
        site.set("/dies", None)
        site.set("/blinks", None)
        clock.advance(3 * DAY_S)
        program(path, "crawl", "--resume", NAME, "--revisit", "-q")
        site.set("/blinks", page("/blinks"))
        assert _asks_nothing_and_removes_nothing(path, site)
    clock.advance(9 * DAY_S)  # all lifetimes of what is not seen are over, and nobody is there
    assert _removed(path, "--due", code=12) == set()
    with site.serving():
        clock.advance(DAY_S)
        assert _removed(path, "--due") == set(), "the grace of two days is not over"
        clock.advance(2 * DAY_S)
        assert _removed(path, "--due") == {site.url("/dies")}
        assert _asks_nothing_and_removes_nothing(path, site)
        clock.advance(90 * DAY_S)
    assert _removed(path, "--due", code=12) == set()
    assert known(path) == {"/", "/lives", "/blinks"}
    moments = {row["url"]: row["time"] for row in log_rows(path, "expired")}
    assert list(moments) == [site.url("/dies")]
    asked = [(at, status) for at, target, status in site.looks if target == "/dies"]
    seen = max(at for at, status in asked if status == 200)
    assert any(seen + revisit.lifetime_s < at <= moments[site.url("/dies")] and status == 404 for at, status in asked)


def _removed(path: Path, how: str, code: int = 0) -> set[str]:
    """What one more visit has removed."""
    before = len(log_rows(path, "expired"))
    program(path, "crawl", "--resume", NAME, how, "-q", code=code)
    return {row["url"] for row in log_rows(path, "expired")[before:]}


def _asks_nothing_and_removes_nothing(path: Path, site: Site) -> bool:
    asked = len(site.looks)
    for options in (["--dry-run"], []):
        assert f" 0 pages of the crawl '{NAME}'" in program(path, "crawl", "expire", NAME, *options).stdout
    return len(site.looks) == asked


def test_a_page_that_was_gone_once_and_is_back_stays(tmp_path: Path, clock: Clock) -> None:
    """B4: a 404 within the lifetime proves nothing when that is over, however long ago it was."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        before = web.pages["little.test/own"]
        web.set("/own", None)
        clock.advance(DAY_S)
        crawled(path, job)
        web.set("/own", before)
        clock.advance(100 * DAY_S)
        web.clear_log()
        with holdfast.open(path) as archive:
            assert expire(archive, NAME, dry_run=False) == []
        assert web.asked() == []
        assert len(captures_of(path, web.url("/own"))) == 2
        crawled(path, job)
        assert [capture.status for capture in captures_of(path, web.url("/own"))] == ["200", "404", "200"]


def test_a_host_that_is_waited_for_does_not_hold_up_the_others(tmp_path: Path, clock: Clock) -> None:
    """B4: what is gone is removed while the crawl waits for another host, and links to it are not followed."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": page(linking("/own", "http://down.example:1/", "/late")), "/own": page("own")})
    web.set("/late", page(linking("/own")))
    with web.serving():
        down = f"http://down.example:{web.url('/').split(':')[2].rstrip('/')}/"
        web.set("/", page(linking("/own", down, "/late")))
        web.set("down.example/", page("still there"))
        job = job_of(web)
        crawled(path, job)
        web.set("/own", None)
        clock.advance(11 * DAY_S)
        resolve = (("*.test", "127.0.0.1"), ("*.example", "127.0.0.9"))
        waiting = replace(job, fetch=replace(job.fetch, resolve=resolve, outage_s=1800.0, robots=False, retries=3))
        with running(path, "crawl", write_job_file(tmp_path / "job.toml", waiting)) as run:
            wait_until(lambda: bool(log_rows(path, "expired")), "the page is removed")
            assert run.poll() is None
            assert captures_of(path, web.url("/own")) == []
            assert why(path, NAME, web.url("/own"))["reason"].startswith("removed: not seen for 11 days")
            program(path, "crawl", "stop", NAME, "--wait")
            run.ended()
        assert len(captures_of(path, down)) == 1
        web.clear_log()
        crawled(path, replace(job, fetch=replace(job.fetch, robots=False)))
        assert "/own" not in web.asked(), "it was looked for in this visit, which goes on"
        assert "/own" not in known(path)
    assert holdfast.check(path).faults == []


def test_rules_give_pages_lifetimes_of_their_own(tmp_path: Path, clock: Clock) -> None:
    """B4: the first rule that matches; 0 is for ever; what no rule matches has the lifetime of all."""
    path = make_archive(tmp_path / "archive")
    names = ("/news/a", "/law/a", "/other")
    web = LittleWeb({"/": page(linking(*names)), **{name: page(name) for name in names}})
    with web.serving():
        rules = (("/law/", 0.0), ("/news/", 2.0 * DAY_S), ("/", 30.0 * DAY_S))
        job = replace(job_of(web), revisit=replace(LIFETIME, lifetimes=rules))
        crawled(path, job)
        for name in names:
            web.set(name, None)
        gone = []
        for days in (3, 8, 20, 100):
            clock.advance(days * DAY_S)
            crawled(path, job)
            gone.append({name for name in names if not captures_of(path, web.url(name))})
    assert gone == [{"/news/a"}, {"/news/a"}, {"/news/a", "/other"}, {"/news/a", "/other"}]


def test_a_capture_by_another_crawl_counts_as_seen(tmp_path: Path, clock: Clock) -> None:
    """B4: the lifetime begins with the last version that the archive got, whoever fetched it."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        clock.advance(9 * DAY_S)
        crawled(path, replace(job, name="other"))
        web.set("/own", None)
        clock.advance(2 * DAY_S)
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 3
        assert audits(path) == []
        assert len(_expiring(path, "--within", "9d")) == 2
        assert len(_expiring(path, "--within", "7d")) == 1
        clock.advance(9 * DAY_S)
        crawled(path, job)
        assert captures_of(path, web.url("/own")) == []


def test_what_was_found_gone_is_removed_when_a_run_ends_at_a_limit(tmp_path: Path, clock: Clock) -> None:
    """B4: not only when nothing is left to fetch, which may never be."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        for name in ("/", "/own", "/one", "/two"):
            web.set(name, None)
        clock.advance(11 * DAY_S)
        assert crawled(path, replace(job, limit=2)).state == "limit"
        names = ("/", "/own", "/one", "/two")
        assert sum(not captures_of(path, web.url(name)) for name in names) == 2
        assert crawled(path, replace(job, limit=2)).state in ("limit", "finished")
        assert not any(captures_of(path, web.url(name)) for name in names)


def test_what_is_about_to_expire_can_be_printed(tmp_path: Path, clock: Clock) -> None:
    """B4: the list, soonest first, with what is known of each page; out of scope is never looked for, so not in it."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        rules = (("/own", 2.0 * DAY_S), ("/$", 0.0))
        job = replace(job_of(web), revisit=replace(LIFETIME, lifetimes=rules))
        crawled(path, job)
        assert [each["event"] for each in _expiring(path, "--within", "1d")] == ["summary"]
        clock.advance(DAY_S)
        (own, summary) = _expiring(path, "--within", "36h")
        assert (own["url"], own["status"], own["lifetime_s"]) == (web.url("/own"), 200, 2 * DAY_S)
        assert (summary["pages"], summary["within_s"]) == (1, 1.5 * DAY_S)
        assert own["seen"] < own["end"] == own["next"]
        assert [each.get("url") for each in _expiring(path, "--within", "30d")] == [
            *(web.url(name) for name in ("/own", "/one", "/two")),
            None,
        ]
        told = program(path, "crawl", "expiring", NAME).stdout.splitlines()
        assert (told[0].split()[0], told[1].split()[-1]) == ("END", web.url("/own"))
        keep_job(path, replace(job, exclude=("/own",)))
        assert len(_expiring(path, "--within", "30d")) == 3
    assert "is not a duration" in program(path, "crawl", "expiring", NAME, "--within", "soon", code=2).stderr


def _expiring(path: Path, *options: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in program(path, "crawl", "expiring", NAME, *options, "--json").stdout.splitlines()
    ]


# -- what else there is ------------------------------------------------------------------------------------------------


def test_where_only_the_latest_is_kept_a_visit_ends_with_what_it_supersedes(tmp_path: Path, clock: Clock) -> None:
    """B15: what changed goes, what a revisit repeats stays, and the log tells."""
    path = tmp_path / "archive"
    holdfast.init(path, holdfast.Plan(records=holdfast.RecordSettings(keep="latest")))
    web = small_web()
    with web.serving():
        crawled(path, job_of(web))
        web.set("/own", page("other words"))
        crawled(path, job_of(web))
        assert len(captures_of(path, web.url("/own"))) == 1
        with holdfast.open(path, read_only=True) as archive:
            assert archive.get(web.url("/own")).payload() == page("other words").body
            assert archive.get(web.url("/two")).payload() == SHARED.body
    assert log_rows(path, "superseded")[-1]["captures"] >= 1
    assert holdfast.check(path).faults == []


def test_what_was_removed_is_found_anew_when_it_is_back(tmp_path: Path, clock: Clock) -> None:
    """B4: forgotten means that a link leads to it as if it had never been."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        crawled(path, job_of(web))
        web.set("/own", None)
        clock.advance(11 * DAY_S)
        crawled(path, job_of(web))
        assert captures_of(path, web.url("/own")) == []
        web.set("/own", page("own words"))
        web.set("/", page(linking("/own", "/one", "/two") + "back again"))
        crawled(path, job_of(web))
        assert [capture.status for capture in captures_of(path, web.url("/own"))] == ["200"]


def test_a_page_that_is_seen_again_begins_anew(tmp_path: Path, clock: Clock) -> None:
    """B4: the lifetime counts from the last time that it was there; `--due` looks for what is over."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        due = replace(job, revisit=replace(LIFETIME, only="due", interval_first_s=90 * DAY_S))
        crawled(path, due)
        web.clear_log()
        clock.advance(9 * DAY_S)
        crawled(path, due)
        assert web.asked() == [], "not due by their intervals, and their time is not over"
        clock.advance(2 * DAY_S)
        crawled(path, due)
        assert sorted(web.asked()) == ["/", "/one", "/own", "/two"]
        clock.advance(9 * DAY_S)
        assert listed(path) == set()
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 3
        assert audits(path) == []


@pytest.mark.parametrize("how", ["nobody there", "no rules", "broken", "forbidden"])
def test_a_page_that_cannot_be_reached_is_never_gone(tmp_path: Path, clock: Clock, how: str) -> None:
    """B4: it stays for as long as nobody can tell, and is looked for again after the grace; also in `--due` visits."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        due = replace(job, revisit=replace(LIFETIME, only="due", interval_first_s=90 * DAY_S))
        crawled(path, due)
        if how == "nobody there":
            due = replace(due, fetch=replace(due.fetch, resolve=(("*.test", "127.0.0.9"),)))
        elif how == "no rules":
            web.set("/robots.txt", plain(500, "out of order"))
        else:
            for name in ("/", "/own", "/one", "/two"):
                web.set(name, plain(500 if how == "broken" else 403, "not now"))
        for days in (40, 100, 1000):
            clock.advance(days * DAY_S)
            assert crawled(path, due).tally.errors == (4 if how != "forbidden" else 0)
            assert len(captures_of(path, web.url("/own"))) >= 1
            assert (listed(path), audits(path)) == (set(), [])
        clock.advance(DAY_S)
        web.clear_log()
        crawled(path, due)
        assert web.asked(robots=True) == [], "the grace is not over"
        for name in ("/robots.txt", "/own"):
            web.set(name, None)
        for name in ("/", "/one", "/two"):
            web.set(name, SHARED)
        clock.advance(2 * DAY_S)
        crawled(path, replace(due, fetch=job.fetch))
        assert sorted(web.asked()) == ["/", "/one", "/own", "/two"], "up again: it comes up soon"
        assert (captures_of(path, web.url("/own")), len(audits(path))) == ([], 1)
        assert captures_of(path, web.url("/two")) != []


def _forget_rules(path: Path, web: LittleWeb) -> None:
    frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
    frontier.set_robots(web.url("/").rstrip("/"), 0.0, Robots(b"").pack())
    frontier.commit()
    frontier.close()


def test_a_page_that_is_forbidden_now_stays(tmp_path: Path, clock: Clock) -> None:
    """B4: nobody has looked, so nobody knows that it is gone."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        web.set("/robots.txt", plain(200, "User-agent: *\nDisallow: /\n"))
        _forget_rules(path, web)
        clock.advance(100 * DAY_S)
        assert crawled(path, job).tally.refused == 4
        assert captures_of(path, web.url("/own")) != []


def test_other_spellings_and_neighbours_are_not_taken_along(tmp_path: Path, clock: Clock) -> None:
    """B4: the catalog takes some URLs for the same, and a star for many; a removal may not."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": page(linking("/a/*", "/a/b", "/Case", "/case")), "/a/*": page("star"), "/a/b": page("b")})
    web.set("/Case", page("large"))
    web.set("/case", page("small"))
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        web.set("/a/*", None)
        web.set("/Case", None)
        clock.advance(11 * DAY_S)
        crawled(path, job)
        found = {name: len(captures_of(path, web.url(name))) for name in ("/a/*", "/a/b", "/Case", "/case")}
    assert found == {"/a/*": 0, "/a/b": 2, "/Case": 0, "/case": 2}


def test_a_dry_run_lists_and_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    """B4: `holdfast crawl expire --dry-run`, then without."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        _see_gone_without_lifetime(path, web, job, clock)
        state = (blocks(path), references(path), known(path), captures_of(path, web.url("/own")))
        told = program(path, "crawl", "expire", NAME, "--dry-run").stdout
        assert told.splitlines() == [
            f"{web.url('/own')}  not seen for 11 days (lifetime 10 days), then status 404",
            f"would remove 1 page of the crawl '{NAME}'",
        ]
        assert (blocks(path), references(path), known(path), captures_of(path, web.url("/own"))) == state
        assert audits(path) == []
        lines = [json.loads(line) for line in program(path, "crawl", "expire", NAME, "--json").stdout.splitlines()]
        assert lines[0]["url"] == web.url("/own")
        assert (lines[0]["status"], lines[0]["lifetime_s"]) == (404, 10 * DAY_S)
        assert lines[-1] == {"event": "summary", "name": NAME, "dry_run": False, "pages": 1}
        assert captures_of(path, web.url("/own")) == []
        assert known(path) == {"/", "/one", "/two"}
        assert listed(path) == set()
        assert log_rows(path, "expired")[-1]["url"] == web.url("/own")


def _see_gone_without_lifetime(path: Path, web: LittleWeb, job: CrawlJob, clock: Clock) -> None:
    """A page was looked for after what is its lifetime only now."""
    for_ever = replace(job, revisit=RevisitSettings())
    crawled(path, for_ever)
    web.set("/own", None)
    clock.advance(11 * DAY_S)
    crawled(path, for_ever)
    keep_job(path, job)


@pytest.mark.parametrize("when", ["at the end", "while it runs"])
def test_a_crash_between_removal_and_forgetting_does_no_harm(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """B4: what is removed already is not missed, and is forgotten at the next time."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        _see_gone_without_lifetime(path, web, job, clock)
        with monkeypatch.context() as patched:
            patched.setattr(Frontier, "commit", _crash)
            frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
            with holdfast.open(path) as archive, pytest.raises(_Crash):
                _remove(Retention(archive, frontier, job), frontier, when)
            frontier.close()
        assert captures_of(path, web.url("/own")) == []
        assert "/own" in known(path)
        assert crawled(path, job).tally.gone == 1  # it is asked for once more, and still gone
    assert captures_of(path, web.url("/own")) == []
    assert known(path) == {"/", "/one", "/two"}
    assert holdfast.check(path).faults == []


def _remove(retention: Retention, frontier: Frontier, when: str) -> None:
    if when == "at the end":
        retention.remove_all()
    else:
        for key, row in frontier.rows():
            retention.note(key, row)
        retention.remove_noted()


def test_what_is_removed_in_a_visit_that_stops_is_looked_for_again_without_lifetimes(
    tmp_path: Path, clock: Clock
) -> None:
    """B4: nothing is left behind that would never be looked at again."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        _see_gone_without_lifetime(path, web, job, clock)
        frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
        with holdfast.open(path) as archive:
            _remove(Retention(archive, frontier, job), frontier, "while it runs")
        frontier.close()
        assert captures_of(path, web.url("/own")) == []
        assert why(path, NAME, web.url("/own"))["reason"].startswith("removed: ")
        web.set("/own", page("back"))
        crawled(path, replace(job, revisit=RevisitSettings()))
        assert [capture.status for capture in captures_of(path, web.url("/own"))] == ["200"]


class _Crash(Exception):
    """The process ends here."""


def _crash(frontier: Frontier) -> None:
    raise _Crash


def test_without_a_lifetime_nothing_ends(tmp_path: Path, clock: Clock) -> None:
    """B4: the default; and who asks is told which setting it is."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_for(web, sitemap=False)  # type: ignore[arg-type]
        crawled(path, job)
        web.set("/own", None)
        clock.advance(1000 * DAY_S)
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 2
    with (
        holdfast.open(path, read_only=True) as archive,
        pytest.raises(UsageError, match="live for ever: set 'lifetime'"),
    ):
        expire(archive, NAME, dry_run=True)
