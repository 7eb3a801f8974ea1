"""The harness of `holdfast bench crawl`: the site, the server, the clock, the verdicts; and a small run of all."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import bench
from benchmarks.crawl import crawlers, run, server
from benchmarks.crawl.crawlers import CRAWLERS, Crawler
from benchmarks.crawl.figure import CrawlFigure
from benchmarks.crawl.frontier import FrontierScale, measure_frontier, number_of, url_of
from benchmarks.crawl.rewriting import Targets, rewritten
from benchmarks.crawl.run import CrawlOutcome, crawl_site
from benchmarks.crawl.server import find_nginx, serving
from benchmarks.crawl.site import ALONE, START, Site, build, page_path
from benchmarks.crawl.target import crawl_verdicts
from benchmarks.crawl.tree import Manner, cpu_of, family, run_tree
from benchmarks.harness.corpus import Corpus, Limits, choose
from benchmarks.harness.figure import OURS, median
from benchmarks.harness.measure import Cost
from benchmarks.harness.process import ChildFailed, Unavailable
from click.testing import CliRunner, Result

from holdfast.errors import UnknownName

PAGES = 130
TARGETS = Targets((b"../00/0.html",), (b"../../static/0.css",), (b"../../static/0.js",), (b"../../static/0.png",))
needs_nginx = pytest.mark.skipif(
    shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None, reason="nginx is not installed"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(7)
    for number in range(PAGES):
        links = "".join(f'<a href="../x/{randomness.randrange(500)}.html#top">{each}</a>' for each in range(20))
        (directory / f"é page {number}.html").write_text(f"<html><p>{number}</p>{links}<img src=a.gif></html>")
    return choose(directory, Limits(documents_max=1_000))


@pytest.fixture(scope="module")
def site(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return build(corpus, tmp_path_factory.mktemp("made") / "site")


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["crawl", *map(str, arguments)])


# -- the site ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'<a href="guide/a.html#part">', b'<a href="../00/0.html#part">'),
        (b"<A CLASS=x HREF='a.html'>", b"<A CLASS=x HREF='../00/0.html'>"),
        (b"<a href=a.html>", b"<a href=../00/0.html>"),
        (b'<a href="#part">', b'<a href="#part">'),
        (b'<a href="https://other.example/a">', b'<a href="https://other.example/a">'),
        (b'<a href="http://127.0.0.1:8000/admin/">', b'<a href="../00/0.html">'),
        (b'<a href="mailto:a@b.example">', b'<a href="mailto:a@b.example">'),
        (b'<a href="a.PNG">', b'<a href="../../static/0.png">'),
        (b'<img alt="href=x" src="https://other.example/a">', b'<img alt="href=x" src="../../static/0.png">'),
        (b'<img src="data:image/gif;base64,AA">', b'<img src="data:image/gif;base64,AA">'),
        (b'<link rel="stylesheet" href="a">', b'<link rel="stylesheet" href="../../static/0.css">'),
        (b'<link rel="shortcut icon" href="a">', b'<link rel="shortcut icon" href="../../static/0.png">'),
        (b'<link rel="next" href="a">', b'<link rel="next" href="../00/0.html">'),
        (b'<script src="//other.example/a"></script>', b'<script src="../../static/0.js"></script>'),
        (b'<form action="a" method="get">', b'<form action="javascript:void(0)" method="get">'),
        (b'<base href="/elsewhere/">', b"<base>"),
        (b"<meta content=\"0;URL='a.html'\">", b'<meta content="0;URL=../00/0.html">'),
        (b'location.replace("../a.html" + x)', b'location.replace("../00/0.html" + x)'),
        (b"<style>b { background: url('a') }", b"<style>b { background: url('../../static/0.png') }"),
        (b'@import "a.css";', b'@import "../../static/0.css";'),
        (b"a < b > c href=d \xff\x00", b"a < b > c href=d \xff\x00"),
    ],
)
def test_links_lead_into_the_site(before: bytes, after: bytes) -> None:
    assert rewritten(before, TARGETS) == after


def test_the_same_link_leads_to_the_same_page() -> None:
    many = Targets(tuple(b"%d" % number for number in range(1_000)), (b"c",), (b"s",), (b"p",))
    one, other, again = re.findall(rb"'(\w+)'", rewritten(b"<a href='x'><a href='y'><a href='x'>", many))
    assert one == again != other


def test_every_url_of_the_site_can_be_reached_and_none_leads_out_of_it(site: Site) -> None:
    seen, waiting = {START}, [START]
    while waiting:
        path = waiting.pop()
        if path.endswith(("/", ".html")):
            text = (site.directory / (path.lstrip("/") or "index.html")).read_text()
            for link in re.findall(r"(?:href|src)=\"?([^\"# >]+)", text):
                found = os.path.normpath(os.path.join(os.path.dirname(path), link))
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
    assert seen == site.urls
    assert site.pages == PAGES + 2 + 1 == sum(1 for path in seen if path.endswith(("/", ".html")))
    assert (site.directory / ALONE.lstrip("/")).is_file()


def test_the_site_is_always_the_same(corpus: Corpus, site: Site, tmp_path: Path) -> None:
    again = build(corpus, tmp_path / "site")
    assert again.urls == site.urls
    for path in (page_path(7), "/index/1.html", "/static/3.js", "/static/0.png"):
        assert (again.directory / path[1:]).read_bytes() == (site.directory / path[1:]).read_bytes()


# -- the server and the clock ------------------------------------------------------------------------------------------


@needs_nginx
def test_the_server_tells_what_was_asked_for(site: Site, tmp_path: Path) -> None:
    with serving(site.directory, tmp_path) as nginx:
        for path in (page_path(3), START, page_path(3)):
            with urllib.request.urlopen(nginx.url + path) as answer:
                assert answer.headers["Content-Type"] == "text/html"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(nginx.url + "/nowhere?a=b")
        caught.value.close()
    asked = [(request.status, request.path) for request in nginx.requests]
    assert asked == [(200, page_path(3)), (200, START), (200, page_path(3)), (404, "/nowhere?a=b")]
    assert nginx.fetched() == {START, page_path(3)}


def test_without_nginx_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SEARCHED", "/nowhere")
    with pytest.raises(Unavailable, match="nginx-light"):
        find_nginx()


def test_a_program_is_charged_for_its_children(tmp_path: Path) -> None:
    work = 'import time; sum(range(6_000_000)); print(time.process_time(), file=open("used", "w"))'
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    ended = run_tree([sys.executable, "-c", code], Manner(tmp_path))
    used_by_the_child = float((tmp_path / "used").read_text())
    assert ended.cost.cpu_s >= used_by_the_child > 0
    assert ended.cost.rss_peak_bytes > 0
    assert not ended.was_idle


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    ended = run_tree([sys.executable, "-c", "import signal; signal.pause()"], Manner(tmp_path, idle_s=0.5))
    assert ended.was_idle
    with pytest.raises(ChildFailed, match="did not end within"):
        run_tree([sys.executable, "-c", "import signal; signal.pause()"], Manner(tmp_path, timeout_s=0.3))


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    code = "import sys; print('no room', file=sys.stderr); sys.exit(8)"
    with pytest.raises(ChildFailed, match="ended with 8 and said: no room"):
        run_tree([sys.executable, "-c", code], Manner(tmp_path))
    run_tree([sys.executable, "-c", code], Manner(tmp_path, good=(0, 8)))


def test_a_family_has_this_process_in_it() -> None:
    assert os.getpid() in family(os.getppid())
    assert cpu_of([os.getpid()]) > 0
    assert cpu_of([]) == 0


# -- runs --------------------------------------------------------------------------------------------------------------


def present() -> set[str]:
    """The crawlers that can run here."""
    peers = {name for name in ("wget", "wget2") if shutil.which(name)}
    return peers | {OURS} | ({"scrapy"} if importlib.util.find_spec("scrapy") else set())


@needs_nginx
def test_all_crawlers_fetch_the_whole_site_and_every_report_is_made(corpus: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    places = ("--corpus", corpus.directory, "--work-dir", tmp_path / "work", "--output", tmp_path / "out")
    result = run_cli("--pages", str(PAGES), "--repeat", "1", *places)
    assert result.exit_code == 0, result.output
    assert "targets" in result.stdout
    steps = re.findall(r"^\[(\d+)/(\d+)\]", result.stderr, re.MULTILINE)
    assert [int(done) for done, _ in steps] == list(range(len(steps)))
    values = json.loads((tmp_path / "out" / "crawl.json").read_text())
    here = present()
    assert {each["crawler"] for each in values["results"]} == here, values["missing"]
    assert {each["subject"] for each in values["missing"]} == set(CRAWLERS) - here
    for each in values["results"]:
        _check(each, values["site"])
    assert [verdict["met"] for verdict in values["targets"]][2:] == [None, None]
    assert (tmp_path / "out" / "crawl.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "work").iterdir()) == []


def _check(each: dict[str, Any], site: dict[str, Any]) -> None:
    assert each["pages"] == site["pages"] == PAGES + 3
    assert each["requests"] >= each["urls"] == site["urls"]
    assert min(each["seconds"], each["cpu_s"], each["memory_peak_bytes"], each["disk_bytes"]) > 0


@needs_nginx
def test_a_crawl_that_misses_a_page_has_no_figure(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, urllib.request as r; r.urlopen(sys.argv[1]).close()"
    lazy = Crawler("Lazy", "nothing", lambda url, _: [sys.executable, "-c", code, url])
    monkeypatch.setitem(run.CRAWLERS, "lazy", lazy)
    with pytest.raises(ChildFailed, match=f"{len(site.urls) - 1} of {len(site.urls)} URLs were not fetched"):
        crawl_site("lazy", site, tmp_path)


def test_a_crawler_that_is_not_here_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(crawlers, "find_spec", lambda _: None)
    for name, words in (("wget", "'wget'"), ("wget2", "'wget2'"), ("scrapy", "pip install")):
        with pytest.raises(Unavailable, match=words):
            CRAWLERS[name].command("http://a.example/", tmp_path)
    assert crawlers.program_versions(("wget", OURS)) == {"wget": "missing"}


def test_wrong_names_are_refused_with_the_nearest_one(corpus: Corpus) -> None:
    result = run_cli("--corpus", corpus.directory, "--crawlers", "holdfast,scrappy")
    assert isinstance(result.exception, UnknownName)
    assert "did you mean 'scrapy'" in str(result.exception)


# -- the frontier (H5) -------------------------------------------------------------------------------------------------


def test_a_frontier_is_measured_without_a_corpus(tmp_path: Path) -> None:
    result = run_cli("--frontier", "2000", "--work-dir", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["site"] is None
    assert values["results"] == []
    assert [each["urls"] for each in values["frontiers"]] == [2_000, 10_000]


def test_a_frontier_holds_what_it_says(tmp_path: Path) -> None:
    from holdfast.crawl.frontier import Frontier

    scale = measure_frontier(tmp_path / "frontier", 3_000)
    assert (scale.urls, scale.pages) == (3_000, 750)
    assert scale.rss_peak_bytes >= scale.rss_bytes > 0
    assert min(scale.page_us, scale.page_cpu_us, scale.scattered_us, scale.disk_bytes) > 0
    frontier = Frontier(tmp_path / "frontier")
    try:
        settled = 2 * (scale.pages + scale.pages // 4)
        assert frontier.totals.seen == 3_000 + 2 * settled
        assert frontier.totals.queued == frontier.totals.seen - settled
    finally:
        frontier.close()
    assert number_of(url_of(123_456)) == 123_456


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_the_median_repeat_is_reported_with_all_times() -> None:
    figure = median([_figure(OURS, seconds) for seconds in (3.0, 1.0, 2.0)])
    assert figure.cost.seconds == 2.0
    assert figure.seconds_all == (3.0, 1.0, 2.0)
    assert (figure.per_s, figure.per_cpu_s, figure.beyond) == (500.0, 500.0, 20)


def test_targets_compare_with_the_named_peer() -> None:
    outcome = CrawlOutcome(
        figures=[_figure(OURS, 1.0), _figure("scrapy", 3.1), _figure("wget2", 0.9), _figure("wget", 0.1)],
        frontiers=[_scale(10_000, 100.0, 10), _scale(1_000_000, 149.0, 499)],
    )
    assert [verdict.met for verdict in crawl_verdicts(outcome)] == [True, False, True, True]
    assert "3.10x" in crawl_verdicts(outcome)[0].measured
    outcome.frontiers[1] = _scale(1_000_000, 151.0, 501)
    assert [verdict.met for verdict in crawl_verdicts(outcome)][2:] == [False, False]
    assert [verdict.met for verdict in crawl_verdicts(CrawlOutcome())] == [None] * 4


def _figure(crawler: str, seconds: float) -> CrawlFigure:
    return CrawlFigure(crawler, "crawl", 1_000, Cost(seconds, seconds, 0, 0), 10, urls=1_060, requests=1_080)


def _scale(urls: int, page_us: float, megabytes: int) -> FrontierScale:
    return FrontierScale(urls, 1.0, 10, page_us, page_us, page_us, 0, megabytes * 1_000_000, 0)
