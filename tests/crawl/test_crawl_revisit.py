"""Visiting again (H7): what has not changed costs next to nothing, what has is found, and how often is learnt."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from crawl_runs import NAME, crawled, frontier_state, job_for, log_rows, make_archive, program
from crawl_sites import DAY_S, LittleWeb, blocks, captures_of, let_pass, linking, page, records_of
from hostile_web import LogEntry, Web, checks
from hostile_web.exchange import Answer, Request, plain

import holdfast
from holdfast.catalog import CaptureQuery
from holdfast.crawl.frontier import Frontier, UrlRow, UrlState
from holdfast.crawl.job.job import RevisitSettings
from holdfast.crawl.paths import FRONTIER
from holdfast.crawl.report.crawls import crawl_directory
from holdfast.crawl.report.why import why

WEB = Web(seed=11, hosts=5, pages=160, words=300, mute=False, pauses=0, flaky=0, crawl_delay_s=0.0)


def tagged(text: str, tag: str) -> Any:
    """A page that knows whether it was modified."""

    def answer(request: Request) -> Answer:
        if request.header("if-none-match") == tag:
            return Answer(304, (("ETag", tag),))
        return page(text, ("ETag", tag))

    return answer


def visit_rows(path: Path, event: str = "fetch") -> list[dict[str, Any]]:
    """What the log says of the last run."""
    rows = log_rows(path)
    start = max(number for number, row in enumerate(rows) if row["event"] == "start")
    return [row for row in rows[start:] if row["event"] == event]


def row_of(path: Path, url: str) -> UrlRow:
    (row,) = [row for row in frontier_state(path)[1] if row.url == url]
    return row


# -- a whole web -------------------------------------------------------------------------------------------------------


def test_an_unchanged_web_costs_less_than_a_twentieth_and_no_content_and_a_changed_one_what_changed(
    tmp_path: Path,
) -> None:
    """H7, the whole of it: one web visited three times, a tenth of it changed before the third."""
    path = make_archive(tmp_path / "archive")
    with WEB.serving() as served:
        job = job_for(served, per_host=4)
        first = crawled(path, job)
        before, stored = checks.bytes_sent(_without_robots(served.log())), blocks(path)
        served.clear_log()

        second = crawled(path, job)
        assert second.visit == 2
        assert second.tally.fetched == first.tally.fetched
        assert checks.bytes_sent(served.log()) < before / 20
        assert blocks(path) == stored
        assert second.tally.new == second.tally.new_bytes == second.tally.changed == 0

        changed = served.change(0.1) & served.web.reachable()
        contents = {url.partition("?view=print")[0].partition("&view=print")[0] for url in changed}
        assert len(contents) > 10
        third = crawled(path, job)
        assert blocks(path) == stored + len(contents)
        assert third.tally.new == len(contents)
        assert {row["url"] for row in visit_rows(path) if row["result"] in ("new", "duplicate")} == changed
        _all_read_back(path, changed)


def _without_robots(log: list[LogEntry]) -> list[LogEntry]:
    """The rules hold for a day; that they are not asked for again is not what is measured."""
    return [entry for entry in log if entry.path != "/robots.txt"]


def _all_read_back(path: Path, changed: frozenset[str]) -> None:
    """Every capture, a 304 as much as another, gives a body; what changed gives another than at first."""
    with holdfast.open(path, read_only=True) as archive:
        for url in changed:
            found = [row.capture for row in archive.search(CaptureQuery(url=url, match="exact"))]
            captures = sorted(each.record for each in found if each.url == url)
            first, second, third = (archive.records.read(each) for each in captures)
            assert first.payload() == second.payload() != third.payload()


# -- one page ----------------------------------------------------------------------------------------------------------


def test_a_304_becomes_a_revisit_that_gives_the_old_body(tmp_path: Path) -> None:
    """H7: `server-not-modified`, with reference, address and request; no content."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": tagged("the same", '"v1"')})
    with web.serving():
        url = web.url("/")
        for _ in range(2):
            crawled(path, job_for(web, sitemap=False))  # type: ignore[arg-type]
        asked = [dict(entry.headers).get("if-none-match") for entry in web.log() if entry.target == "/"]
    assert asked == [None, '"v1"']
    assert {row["result"] for row in visit_rows(path)} == {"unchanged"}
    original, again = sorted(captures_of(path, url), key=lambda each: each.record.serial)
    with holdfast.open(path, read_only=True) as archive:
        record = archive.records.read(again.record)
        assert record.entry.type == "revisit"
        assert record.headers.get("WARC-Profile", "").endswith("/revisit/server-not-modified")
        assert record.headers.get("WARC-Refers-To-Target-URI") == url
        assert record.headers.get("WARC-Refers-To-Date") == archive.records.read(original.record).headers.get(
            "WARC-Date"
        )
        assert record.headers.get("WARC-IP-Address") == "127.0.0.1"
        assert record.http_bytes().startswith(b"HTTP/1.1 304 ")
        assert archive.get(url).payload() == b"<!doctype html>the same\n"
        requests = records_of(archive, "request", url)
        assert b'\r\nIf-None-Match: "v1"\r\n' in requests[1].message()


def test_unchanged_content_is_known_by_its_signature_where_nobody_tells(tmp_path: Path) -> None:
    """H7: no validators, so that the body comes again; it is not stored again."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": page("the same")})
    with web.serving():
        crawled(path, job_for(web, sitemap=False))  # type: ignore[arg-type]
        stored = blocks(path)
        summary = crawled(path, job_for(web, sitemap=False))  # type: ignore[arg-type]
    assert summary.tally.unchanged == 1
    assert summary.tally.new == 0
    assert blocks(path) == stored
    assert row_of(path, web_url(path)).history.startswith("2,0,")


def web_url(path: Path) -> str:
    return str(frontier_state(path)[1][0].url)


def test_links_of_an_unchanged_page_are_left_and_of_a_changed_one_followed(tmp_path: Path) -> None:
    """H7: an unchanged page queues nothing, not even what was forgotten since; a changed one all that is new in it."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": page(linking("/same", "/news")), "/same": page(linking("/a")), "/news": page(linking("/a"))})
    web.set("/a", page("a"))
    web.set("/b", page("b"))
    with web.serving():
        job = job_for(web, sitemap=False)  # type: ignore[arg-type]
        crawled(path, job)
        _forget(path, web.url("/a"))
        web.clear_log()
        crawled(path, job)
        assert sorted(web.asked()) == ["/", "/news", "/same"]
        web.set("/news", page(linking("/a", "/b")))
        web.clear_log()
        summary = crawled(path, job)
        assert sorted(web.asked()) == ["/", "/a", "/b", "/news", "/same"]
        assert (summary.tally.unchanged, summary.tally.changed, summary.tally.new) == (2, 1, 2)
        assert row_of(path, web.url("/b")).via == web.url("/news")


def _forget(path: Path, url: str) -> None:
    frontier = Frontier(crawl_directory(path, NAME) / FRONTIER)
    for key, row in [each for each in frontier.rows() if each[1].url == url]:
        frontier.forget(key, row)
    frontier.commit()
    frontier.close()


def test_a_page_whose_server_was_down_is_tried_again_at_the_next_visit(tmp_path: Path) -> None:
    """H7: a host that was given up is not given up for ever."""
    path = make_archive(tmp_path / "archive")
    pages = {f"/{number}": page(f"page {number}") for number in range(14)}
    web = LittleWeb({"/": page(linking(*pages)), **pages})
    with web.serving():
        up = job_for(web, sitemap=False, retries=0)  # type: ignore[arg-type]
        crawled(path, up)
        down = replace(up, fetch=replace(up.fetch, resolve=(("*.test", "127.0.0.9"),)))
        summary = crawled(path, down)
        assert summary.tally.errors == 15
        summary = crawled(path, up)
        assert summary.tally.unchanged == 15
        assert {row.state for row in frontier_state(path)[1]} == {UrlState.DONE}


# -- how often ---------------------------------------------------------------------------------------------------------


def test_intervals_are_learnt_and_due_visits_only_what_is_due(tmp_path: Path) -> None:
    """H7: a page that changes is looked at sooner than it was, one that does not ever later; `--due`, `why`."""
    path = make_archive(tmp_path / "archive")
    edition = count()
    web = LittleWeb({"/": page(linking("/news", "/law")), "/law": page("eternal")})
    web.set("/news", lambda request: page(f"edition {next(edition)}"))
    with web.serving():
        job = job_for(web, sitemap=False)  # type: ignore[arg-type]
        for turn in range(4):
            if turn:
                let_pass(path, NAME, 5 * DAY_S)
            crawled(path, job)
        _assert_learnt(why(path, NAME, web.url("/news")), why(path, NAME, web.url("/law")))
        let_pass(path, NAME, 5 * DAY_S)  # the one is due, the other is not yet
        web.clear_log()
        told = json.loads(program(path, "crawl", "why", web.url("/news"), "--json").stdout)
        assert told["is_due"] is True
        program(path, "crawl", "--resume", NAME, "--due", "--quiet")
        assert web.asked() == ["/news"]
        web.clear_log()
        crawled(path, replace(job, revisit=RevisitSettings(only="due")))
        assert web.asked() == []
        crawled(path, job)
        assert sorted(web.asked()) == ["/", "/law", "/news"]


def _assert_learnt(news: dict[str, Any], law: dict[str, Any]) -> None:
    assert (news["visits"], news["changes"]) == (4, 3)
    assert (law["visits"], law["changes"]) == (4, 0)
    assert news["interval_s"] < 5 * DAY_S < law["interval_s"]
    assert law["interval_s"] == pytest.approx(15 * DAY_S, rel=0.01)
    assert "changed at 3 of 3 visits after the first" in news["interval"]
    assert "as it has not been watched for longer" in law["interval"]
    assert not news["is_due"]


def test_why_says_what_is_not_known(tmp_path: Path) -> None:
    """H7: of what was never found, forbidden, or is out of the scope."""
    path = make_archive(tmp_path / "archive")
    web = LittleWeb({"/": page(linking("/a", "/no")), "/a": page("a")})
    web.set("/robots.txt", plain(200, "User-agent: *\nDisallow: /no\n"))
    with web.serving():
        job = job_for(web, sitemap=False, exclude=("secret",))  # type: ignore[arg-type]
        crawled(path, replace(job, revisit=RevisitSettings(interval_first_s=7200.0)))
        told = {name: why(path, NAME, web.url(name)) for name in ("/", "/a", "/no", "/never", "/secret")}
    assert told["/"]["found"].endswith("by a seed")
    assert told["/a"]["found"].endswith(f"by a link on {web_url_of(told)}")
    assert told["/a"]["interval_s"] == 7200
    assert (told["/no"]["state"], told["/no"]["robots"]) == ("refused", "forbidden")
    assert told["/never"]["reason"] == "no link to it was found in what was fetched"
    assert told["/secret"]["reason"].startswith("not fetched: ")


def web_url_of(told: dict[str, dict[str, Any]]) -> str:
    return str(told["/"]["url"])


# -- when it is not as it was ------------------------------------------------------------------------------------------


def test_a_wider_scope_looks_into_unchanged_pages_again(tmp_path: Path) -> None:
    path = make_archive(tmp_path / "archive")
    pages = {"/": tagged(linking("/a", "/secret/b"), '"1"'), "/a": page("a"), "/secret/b": page("b")}
    with LittleWeb(pages).serving() as web:
        job = job_for(web, sitemap=False)
        crawled(path, replace(job, exclude=("/secret/",)))
        assert captures_of(path, web.url("/secret/b")) == []
        again = crawled(path, job)
        assert again.tally.unchanged == 2
        assert len(captures_of(path, web.url("/secret/b"))) == 1


def test_a_narrower_scope_leaves_what_it_knew(tmp_path: Path) -> None:
    path = make_archive(tmp_path / "archive")
    with LittleWeb({"/": page(linking("/a", "/b")), "/a": page("a"), "/b": page("b")}).serving() as web:
        job = job_for(web, sitemap=False)
        crawled(path, job)
        crawled(path, replace(job, exclude=("/b$",)))
        assert len(captures_of(path, web.url("/a"))) == 2
        assert len(captures_of(path, web.url("/b"))) == 1


def test_what_was_removed_is_not_asked_for_on_condition(tmp_path: Path) -> None:
    """A revisit record would have no original (N2)."""
    path = make_archive(tmp_path / "archive")
    with LittleWeb({"/": tagged("kept", '"1"')}).serving() as web:
        job = job_for(web, sitemap=False)
        crawled(path, job)
        program(path, "rm", web.url("/"), "--yes", "--reason", "asked to")
        crawled(path, job)
        with holdfast.open(path, read_only=True) as archive:
            assert archive.get(web.url("/")).payload() == b"<!doctype html>kept\n"
