"""The harness of `holdfast bench replay`: what is asked for, the client, the sample, the verdicts; and a small run."""

from __future__ import annotations

import http.server
import json
import random
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pytest
from benchmarks.__main__ import bench
from benchmarks.archive.crawl import CRAWLS, Crawls, build, distinct_for
from benchmarks.harness.corpus import Limits, choose
from benchmarks.harness.figure import OURS
from benchmarks.harness.process import ChildFailed, Unavailable
from benchmarks.replay.figure import Answered, ReplayFigure, Soak, middle
from benchmarks.replay.run import ReplayOutcome
from benchmarks.replay.servers import SERVERS, Place
from benchmarks.replay.target import replay_verdicts
from benchmarks.replay.workload import HOT, ReplayWorkload, mixed_paths, pages_of, paths_of
from benchmarks.replay.wrk import Load, ask, find_wrk
from click.testing import CliRunner, Result

from holdfast.errors import UnknownName, UsageError

PAGES = 25
needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> Crawls:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(7)
    for number in range(PAGES):
        links = "".join(f'<a href="/x/{randomness.randrange(500)}.html">{each}</a>' for each in range(20))
        (directory / f"{number}.html").write_text(f"<html><head><title>{number}</title></head>{links}</html>")
    corpus = choose(directory, Limits(documents_max=distinct_for(PAGES)))
    return build(corpus, tmp_path_factory.mktemp("made") / "files")


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["replay", *map(str, arguments)])


# -- what is asked for -------------------------------------------------------------------------------------------------


def test_every_capture_is_asked_for_once_in_an_order_that_is_always_the_same(crawls: Crawls) -> None:
    pages = pages_of(crawls)
    assert pages == pages_of(crawls)
    assert sorted(page.number for page in pages) == list(range(PAGES))
    for workload, modifier in ((ReplayWorkload.REPLAY, "mp_"), (ReplayWorkload.RAW, "id_")):
        paths = paths_of(workload, pages, "main")
        assert len(set(paths)) == len(paths) == PAGES * len(CRAWLS)
        assert all(re.match(rf"/main/20260[12]\d{{8}}{modifier}/http://www\.site", path) for path in paths)
    assert len(paths_of(ReplayWorkload.REPLAY_HOT, pages, "main")) == min(HOT, PAGES * len(CRAWLS))
    asked = {unquote(path.partition("?url=")[2]) for path in paths_of(ReplayWorkload.CDX, pages, "main")}
    mapped = {path.partition("/link/")[2] for path in paths_of(ReplayWorkload.TIMEMAP, pages, "main")}
    assert asked == mapped == set(crawls.urls())
    assert sum("mp_/" in path for path in mixed_paths(pages, "main")) == PAGES * len(CRAWLS)


# -- the client --------------------------------------------------------------------------------------------------------


@contextmanager
def answering(status: int) -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything with that status, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """The client leaves without a word when its time is over."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@needs_wrk
def test_the_client_walks_through_the_paths_from_where_it_is_told_to(tmp_path: Path) -> None:
    paths = tmp_path / "a.paths"
    paths.write_text("/one\n/two?x=1\n/three\n")
    with answering(200) as (origin, asked):
        answered = ask(origin, paths, Load(1, per_s=200.0, first=2))
    assert len(asked) >= answered.requests > 0
    assert answered.p99_ms >= answered.p50_ms > 0
    assert set(asked) == {"/one", "/two?x=1", "/three"}


@needs_wrk
def test_an_answer_that_is_no_success_gives_no_figure(tmp_path: Path) -> None:
    paths = tmp_path / "a.paths"
    paths.write_text("/one\n")
    with answering(404) as (origin, _), pytest.raises(ChildFailed, match=r"requests \d+ refused"):
        ask(origin, paths, Load(1, per_s=100.0))


def test_a_rate_is_kept_by_thinking() -> None:
    assert Load(1).thinking_ms == 0
    slow, fast = Load(1, 100.0), Load(1, 1_000.0)
    assert slow.thinking_ms == pytest.approx(10 * fast.thinking_ms)
    assert slow.connections == fast.connections > Load(1).connections


def test_without_wrk_or_pywb_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, crawls: Crawls, tmp_path: Path) -> None:
    place = Place(tmp_path, 1, 2, str(tmp_path / "python"))
    for name in ("pywb", "pywb-uwsgi"):
        with pytest.raises(Unavailable, match="--pywb"):
            SERVERS[name].command(place)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="'wrk'"):
        find_wrk()
    assert isinstance(run_cli("--corpus", crawls.corpus.directory).exception, UsageError)


def test_wrong_names_are_refused_with_the_nearest_one(crawls: Crawls) -> None:
    result = run_cli("--corpus", crawls.corpus.directory, "--workload", "raws")
    assert isinstance(result.exception, UnknownName)
    assert "did you mean 'raw'" in str(result.exception)


# -- runs --------------------------------------------------------------------------------------------------------------


@needs_wrk
def test_every_workload_is_measured_and_every_report_is_made(crawls: Crawls, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    places = ("--corpus", crawls.corpus.directory, "--work-dir", tmp_path / "work", "--output", tmp_path / "out")
    sizes = ("--pages", str(PAGES), "--repeat", "1", "--seconds", "1")
    few = ("--workload", "replay", "--workload", "cdx-exact")
    result = run_cli(*places, *sizes, *few, "--pywb", tmp_path / "nowhere" / "python")
    assert result.exit_code == 0, result.output
    assert "targets" in result.stdout
    values = json.loads((tmp_path / "out" / "replay.json").read_text())
    assert [(each["server"], each["workload"]) for each in values["results"]] == [
        (OURS, "replay"),
        (OURS, "cdx-exact"),
    ], values["missing"]
    for each in values["results"]:
        assert min(each["requests_per_s"], each["answer_bytes"], each["top"]["p99_ms"], each["half"]["p99_ms"]) > 0
    assert {each["subject"] for each in values["missing"]} == set(SERVERS) - {OURS}
    assert [each["server"] for each in values["memory"]] == [OURS]
    assert (tmp_path / "out" / "replay.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "work").iterdir()) == []


@needs_wrk
def test_a_long_life_is_watched(crawls: Crawls, tmp_path: Path) -> None:
    places = ("--corpus", crawls.corpus.directory, "--work-dir", tmp_path / "work")
    result = run_cli(*places, "--pages", str(PAGES), "--requests", "300", "--seconds", "1", "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert values["soak"]["requests"] >= 300
    assert len(values["soak"]["memory_bytes"]) == 10
    assert values["results"] == []


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_the_median_repeat_is_reported_with_all_rates() -> None:
    figure = middle([_figure(OURS, ReplayWorkload.RAW, rate) for rate in (3.0, 1.0, 2.0)])
    assert (figure.per_s, figure.per_s_all) == (2.0, (3.0, 1.0, 2.0))


def test_targets_compare_with_the_faster_form_of_pywb() -> None:
    outcome = ReplayOutcome(
        figures=[
            _figure(OURS, ReplayWorkload.REPLAY, 2_000.0, half_p99_ms=49.0),
            _figure("pywb", ReplayWorkload.REPLAY, 50.0),
            _figure("pywb-uwsgi", ReplayWorkload.REPLAY, 100.0, half_p99_ms=90.0),
            _figure(OURS, ReplayWorkload.RAW, 1_900.0, half_p99_ms=10.0),
            _figure("pywb", ReplayWorkload.RAW, 100.0),
        ],
        soak=Soak(200_000, 1.0, (80, 100, *[109] * 8)),
    )
    verdicts = replay_verdicts(outcome)
    assert [verdict.met for verdict in verdicts] == [True, False, None, True, True]
    assert "20.00x" in verdicts[0].measured
    outcome.soak = Soak(200_000, 1.0, (80, 100, *[111] * 8))
    assert replay_verdicts(outcome)[-1].met is False
    assert [verdict.met for verdict in replay_verdicts(ReplayOutcome())] == [None] * 5


def _figure(server: str, workload: ReplayWorkload, rate: float, half_p99_ms: float = 1.0) -> ReplayFigure:
    half = Answered(10, 1.0, 100, 1.0, half_p99_ms)
    return ReplayFigure(server, workload, Answered(round(rate), 1.0, 100, 1.0, 2.0), half)
