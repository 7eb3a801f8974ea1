"""Retention (B4): a page lives as long as it is seen, a while longer, and is then removed for good."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crawl_runs import NAME, crawled, frontier_state, job_for, log_rows, make_archive, program
from crawl_sites import DAY_S, LittleWeb, blocks, captures_of, let_pass, linking, page, references
from hostile_web.exchange import plain

import holdfast
from holdfast.crawl.crawls import crawl_directory
from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job import CrawlJob, RevisitSettings
from holdfast.crawl.layout import FRONTIER
from holdfast.crawl.retention import expire, remove_expired
from holdfast.crawl.robots import Robots
from holdfast.errors import UsageError

LIFETIME = RevisitSettings(lifetime_s=10 * DAY_S, grace_s=5 * DAY_S)
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
        return {"/" + each.row.url.split("/", 3)[3] for each in expire(archive, NAME, dry_run=True, now=time.time())}


def test_what_is_gone_is_removed_after_its_lifetime_and_what_is_shared_stays(tmp_path: Path) -> None:
    """B4: captures, contents, references, audit, and the frontier forgets."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        before, held = blocks(path), references(path)
        web.set("/own", None)
        web.set("/one", None)
        let_pass(path, NAME, 4 * DAY_S)
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 2, "gone, but not for long enough"
        assert audits(path) == []

        let_pass(path, NAME, 7 * DAY_S)
        crawled(path, job)
        urls = {name: captures_of(path, web.url(name)) for name in ("/", "/own", "/one", "/two")}
    assert (urls["/own"], urls["/one"]) == ([], [])
    assert (len(urls["/"]), len(urls["/two"])) == (3, 3)
    assert known(path) == {"/", "/two"}
    (line,) = audits(path)
    assert (line["event"], line["captures"]) == ("removal", 6)
    assert line["reason"].startswith(f"crawl '{NAME}': not seen for 11.0 days (status 404)")
    assert blocks(path) == before - 1, "its own words; those of the other are still held"
    assert sum(references(path)) == 3 + 3 + 1, "three visits of each page that lives, and robots.txt"
    assert sum(held) == 5
    with holdfast.open(path, read_only=True) as archive:
        assert archive.get(web.url("/two")).payload() == SHARED.body
    assert holdfast.check(path).faults == []
    assert log_rows(path, "expired")[-1]["urls"] == 2


def test_where_only_the_latest_is_kept_a_visit_ends_with_what_it_supersedes(tmp_path: Path) -> None:
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


def test_what_was_removed_is_found_anew_when_it_is_back(tmp_path: Path) -> None:
    """B4: forgotten means that a link leads to it as if it had never been."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        crawled(path, job_of(web))
        web.set("/own", None)
        let_pass(path, NAME, 11 * DAY_S)
        crawled(path, job_of(web))
        assert captures_of(path, web.url("/own")) == []
        web.set("/own", page("own words"))
        web.set("/", page(linking("/own", "/one", "/two") + "back again"))
        crawled(path, job_of(web))
        assert [capture.status for capture in captures_of(path, web.url("/own"))] == ["200"]


def test_a_page_that_is_seen_again_begins_anew(tmp_path: Path) -> None:
    """B4: the lifetime counts from the last time that it was there; `--due` looks in time at what would end."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        let_pass(path, NAME, 9.5 * DAY_S, [web.url("/own")])  # not due by its interval if that were long
        web.clear_log()
        due = replace(job, revisit=replace(LIFETIME, only="due", interval_first_s=90 * DAY_S))
        _delay_due(path, 80 * DAY_S)
        crawled(path, due)
        assert web.asked() == ["/own"]
        let_pass(path, NAME, 9 * DAY_S, [web.url("/own")])
        assert listed(path) == set()
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 3
        assert audits(path) == []


def _delay_due(path: Path, seconds: float) -> None:
    frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
    for key, row in list(frontier.rows()):
        frontier.settle(key, row, due=row.due + int(seconds))
    frontier.commit()
    frontier.close()


@pytest.mark.parametrize("how", ["nobody there", "no rules", "broken"])
def test_a_page_that_cannot_be_reached_has_more_time(tmp_path: Path, how: str) -> None:
    """B4: grace, and then its end; also if only robots.txt cannot be had."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        if how == "nobody there":
            job = replace(job, fetch=replace(job.fetch, resolve=(("*.test", "127.0.0.9"),)))
        elif how == "no rules":
            web.set("/robots.txt", plain(500, "out of order"))
            _forget_rules(path, web)
        else:
            for name in ("/", "/own", "/one", "/two"):
                web.set(name, plain(500, "out of order"))
        let_pass(path, NAME, 12 * DAY_S)
        crawled(path, job)
        assert captures_of(path, web.url("/own")) != []
        assert audits(path) == []
        let_pass(path, NAME, 4 * DAY_S)
        assert listed(path) == {"/", "/own", "/one", "/two"}
        crawled(path, job)
        assert captures_of(path, web.url("/own")) == []
        assert len(audits(path)) == 1


def _forget_rules(path: Path, web: LittleWeb) -> None:
    frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
    frontier.set_robots(web.url("/").rstrip("/"), 0.0, Robots.parse(b"").pack())
    frontier.commit()
    frontier.close()


def test_a_page_that_is_forbidden_now_stays(tmp_path: Path) -> None:
    """B4: nobody has looked, so nobody knows that it is gone."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        web.set("/robots.txt", plain(200, "User-agent: *\nDisallow: /\n"))
        _forget_rules(path, web)
        let_pass(path, NAME, 100 * DAY_S)
        assert crawled(path, job).tally.refused == 4
        assert captures_of(path, web.url("/own")) != []


def test_other_spellings_and_neighbours_are_not_taken_along(tmp_path: Path) -> None:
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
        let_pass(path, NAME, 11 * DAY_S)
        crawled(path, job)
        found = {name: len(captures_of(path, web.url(name))) for name in ("/a/*", "/a/b", "/Case", "/case")}
    assert found == {"/a/*": 0, "/a/b": 2, "/Case": 0, "/case": 2}


def test_a_dry_run_lists_and_changes_nothing(tmp_path: Path) -> None:
    """B4: `holdfast crawl expire --dry-run`, then without."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        crawled(path, job_of(web))
        web.set("/own", None)
        let_pass(path, NAME, 9 * DAY_S)
        crawled(path, job_of(web))
        let_pass(path, NAME, 2 * DAY_S)
        state = (blocks(path), references(path), known(path), captures_of(path, web.url("/own")))
        told = program(path, "crawl", "expire", NAME, "--dry-run").stdout
        assert told.splitlines() == [
            f"{web.url('/own')}  not seen for 11.0 days (status 404)",
            f"would remove 1 page of the crawl '{NAME}'",
        ]
        assert (blocks(path), references(path), known(path), captures_of(path, web.url("/own"))) == state
        assert audits(path) == []
        lines = [json.loads(line) for line in program(path, "crawl", "expire", NAME, "--json").stdout.splitlines()]
        assert lines[-1] == {"event": "summary", "name": NAME, "dry_run": False, "pages": 1}
        assert captures_of(path, web.url("/own")) == []
        assert known(path) == {"/", "/one", "/two"}
        assert listed(path) == set()


def test_a_crash_between_removal_and_forgetting_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: what is removed already is not missed, and is forgotten at the next time."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_of(web)
        crawled(path, job)
        web.set("/own", None)
        let_pass(path, NAME, 9 * DAY_S)
        crawled(path, job)
        let_pass(path, NAME, 2 * DAY_S)
        with monkeypatch.context() as patched:
            patched.setattr(Frontier, "commit", _crash)
            frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
            with holdfast.open(path) as archive, pytest.raises(_Crash):
                remove_expired(archive, frontier, job, time.time())
            frontier.close()
        assert captures_of(path, web.url("/own")) == []
        assert "/own" in known(path)
        assert crawled(path, job).tally.gone == 1  # it is asked for once more, and still gone
    assert captures_of(path, web.url("/own")) == []
    assert known(path) == {"/", "/one", "/two"}
    assert holdfast.check(path).faults == []


class _Crash(Exception):
    """The process ends here."""


def _crash(frontier: Frontier) -> None:
    raise _Crash


def test_without_a_lifetime_nothing_ends(tmp_path: Path) -> None:
    """B4: the default; and who asks is told which setting it is."""
    path = make_archive(tmp_path / "archive")
    web = small_web()
    with web.serving():
        job = job_for(web, sitemap=False)  # type: ignore[arg-type]
        crawled(path, job)
        web.set("/own", None)
        let_pass(path, NAME, 1000 * DAY_S)
        crawled(path, job)
        assert len(captures_of(path, web.url("/own"))) == 2
    with (
        holdfast.open(path, read_only=True) as archive,
        pytest.raises(UsageError, match="live for ever: set 'lifetime'"),
    ):
        expire(archive, NAME, dry_run=True, now=time.time())
