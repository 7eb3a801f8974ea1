"""Crawls started, followed and stopped from the web page and by programs (P)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from more_asking import ask, send
from more_crawling import BEARER, linked_pages, stopped_at_the_end, writable
from serving import Served, serving
from waiting import wait_until

import holdfast
from holdfast.crawl.report.crawls import crawl_status


@pytest.fixture
def web() -> Iterator[str]:
    with linked_pages() as url:
        yield url


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all that starts nothing."""
    with writable(tmp_path_factory.mktemp("idle") / "archive") as served:
        yield served


def test_a_crawl_is_started_followed_and_stopped(tmp_path: Path, web: str) -> None:
    path = tmp_path / "archive"
    with writable(path) as served, stopped_at_the_end(path, "one"):
        form = {"seeds": web, "name": "one", "scope": "host", "depth": "1", "limit": ""}
        started = send(served.controls, "/crawls", form, Authorization=BEARER, Origin=served.controls)
        assert (started.status, started.headers["location"]) == (303, "/crawls/one")
        wait_until(lambda: crawl_status(path, "one").tally.get("fetched", 0) >= 1, "the first page")
        one = ask(served.controls, "/crawls/one")
        assert "How far</dt><dd>its whole host<" in one.text
        assert '<a href="/crawls/one">one</a>' in ask(served.controls, "/").text
        assert 'data-live="running"' in one.text and "Stop this crawl" in one.text and web in one.text
        assert "one" in ask(served.controls, "/crawls").text
        told = ask(served.controls, "/api/crawls", Accept="application/json").json
        assert "pid" not in str(told)
        again = send(served.controls, "/crawls", form | {"name": "two"}, Authorization=BEARER)
        assert again.status == 409 and "is running" in again.text
        stop = send(served.controls, "/crawls/one/stop", {}, Authorization=BEARER)
        assert stop.status == 303
        wait_until(lambda: not crawl_status(path, "one").running, "the crawl to end")
        assert crawl_status(path, "one").state == "stopped"
        assert 'data-live="still"' in ask(served.controls, "/crawls/one").text


def test_another_writer_is_told_as_such(tmp_path: Path, web: str) -> None:
    path = tmp_path / "archive"
    with writable(path) as served, holdfast.open(path):
        told = send(served.controls, "/crawls", {"seeds": web}, Authorization=BEARER)
        assert told.status == 409 and "being written by another process" in told.text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({}, "needs seeds"),
        ({"seeds": "not a url"}, "not a URL"),
        ({"seeds": "file:///etc/passwd"}, "not a URL"),
        ({"seeds": "--resume"}, "not a URL"),
        ({"seeds": "http://a.example/", "name": "../../x"}, "bad name"),
        ({"seeds": "http://a.example/", "name": "-a"}, "bad name"),
        ({"seeds": "http://a.example/", "scope": "world"}, "unknown scope"),
        ({"seeds": "http://a.example/", "depth": "-1"}, "whole number"),
        ({"seeds": "http://a.example/", "limit": "0"}, "at least 1"),
        ({"seeds": "http://a.example/", "collection": "../x"}, "bad name"),
        ({"seeds": "http://a.example/", "proxy": "http://b"}, "unknown field"),
        ({"seeds": "\n".join(f"http://a.example/{number}" for number in range(2000))}, "too many"),
    ],
)
def test_mistakes_are_told_and_nothing_is_started(idle: Served, form: dict[str, str], words: str) -> None:
    told = send(idle.controls, "/crawls", form, Authorization=BEARER)
    assert told.status == 400 and words in told.text
    program = send(idle.controls, "/crawls", form, Authorization=BEARER, Accept="application/json")
    assert program.status == 400 and words in program.json["error"]
    assert not (idle.site.archive.path / "crawls").exists()


def test_only_who_may_write_starts_and_stops(idle: Served) -> None:
    form = {"seeds": "http://a.example/"}
    assert send(idle.controls, "/crawls", form).status == 401
    assert send(idle.controls, "/crawls", form, Authorization="Bearer wrong").status == 401
    assert send(idle.controls, "/crawls/one/stop", {}).status == 401
    assert send(idle.controls, "/crawls", form, Authorization=BEARER, Origin=idle.replay).status == 403
    assert send(idle.controls, "/crawls/none/stop", {}, Authorization=BEARER).status == 404
    assert ask(idle.controls, "/crawls/none").status == 404
    text = send(idle.controls, "/crawls", form, Authorization=BEARER, Content_Type="text/plain")
    assert text.status == 400
    assert ask(idle.controls, "/crawls").headers["referrer-policy"] == "same-origin"


def test_without_a_token_for_writing_there_is_no_form(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with serving(tmp_path / "archive") as served:
        told = ask(served.controls, "/crawls")
        assert "<textarea" not in told.text and "holdfast crawl" in told.text
        assert send(served.controls, "/crawls", {"seeds": "http://a.example/"}).status == 403
