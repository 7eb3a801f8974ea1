"""The harnesses of `holdfast bench query` and `holdfast bench stream`: verdicts, and a small run of each."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from benchmarks.__main__ import bench
from benchmarks.archive.crawl import Crawls
from benchmarks.harness.comparison import Comparison
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure, median
from benchmarks.harness.measure import Cost
from benchmarks.query.run import QueryOutcome
from benchmarks.query.target import query_verdicts
from benchmarks.query.workload import BARE, QueryWorkload
from benchmarks.query.workload import SUBJECTS as QUERY_SUBJECTS
from benchmarks.stream.resume import Resumed
from benchmarks.stream.run import StreamOutcome
from benchmarks.stream.target import stream_verdicts
from benchmarks.stream.workload import SEPARATE, StreamWorkload
from benchmarks.stream.workload import SUBJECTS as STREAM_SUBJECTS
from click.testing import CliRunner, Result

from holdfast.errors import UnknownName

PAGES = 30
WORDS = ("harbour", "tides", "island", "library", "museum", "storm", "map", "quiet", "rock", "sail", "weather", "news")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(7)
    for number in range(PAGES):
        text = " ".join(randomness.choices(WORDS, k=200))
        (directory / f"{number}.html").write_text(f"<html><head><title>{number}</title></head><p>{text}</html>")
    return directory


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, [*map(str, arguments)])


def figure(subject: str, workload: str, operations: int, **more: float) -> Figure:
    return Figure(subject, workload, operations, Cost(1.0, 1.0, 0, 0), **more)  # type: ignore[arg-type]


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_the_median_repeat_is_reported_with_all_times() -> None:
    repeats = [Figure(OURS, "raw", 10, Cost(seconds, 1.0, 0, 0)) for seconds in (3.0, 1.0, 2.0)]
    assert median(repeats).cost.seconds == 2.0
    assert median(repeats).seconds_all == (3.0, 1.0, 2.0)


def test_targets_of_streams() -> None:
    raw, shared = StreamWorkload.RAW, StreamWorkload.SHARED
    outcome = StreamOutcome(
        comparison=Comparison(
            STREAM_SUBJECTS,
            [
                figure(OURS, raw, 10, content_bytes=301),
                figure("fastwarc", raw, 10, content_bytes=100),
                figure("zstd", raw, 10, content_bytes=510),
                figure(OURS, shared, 600),
                figure(SEPARATE, shared, 100),
            ],
        ),
        resumed=[Resumed(1_000_000, "log", 100, 0.5, 0.4, (0.9,)), Resumed(1_000_000, "url", 100, 0.5, 0.6, (1.1,))],
    )
    assert [verdict.met for verdict in stream_verdicts(outcome)] == [True, False, True, False]
    assert [verdict.met for verdict in stream_verdicts(StreamOutcome())] == [None] * 4


def test_targets_of_queries() -> None:
    word, index = QueryWorkload.WORD, QueryWorkload.INDEX
    figures = [figure(OURS, index, 70), figure(BARE, index, 100), figure(OURS, word, 100, p95_ms=9.9)]
    crawls = Crawls((), Corpus(Path(), (), 0), 50_000, 0, 0, 0, 0)
    outcome = QueryOutcome(crawls, Comparison(QUERY_SUBJECTS, figures))
    assert [verdict.met for verdict in query_verdicts(outcome)] == [True, True]
    figures[2] = figure(OURS, word, 100, p95_ms=10.1)
    assert [verdict.met for verdict in query_verdicts(outcome)] == [True, False]
    assert [verdict.met for verdict in query_verdicts(QueryOutcome())] == [None, None]


@pytest.mark.parametrize("name", ["query", "stream"])
def test_wrong_names_are_refused_with_the_nearest_one(corpus: Path, name: str) -> None:
    result = run_cli(name, "--corpus", corpus, "--only", "holdfst")
    assert isinstance(result.exception, UnknownName)
    assert "did you mean 'holdfast'" in str(result.exception)


# -- runs --------------------------------------------------------------------------------------------------------------


def places(corpus: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    where = ("--corpus", corpus, "--work-dir", tmp_path / "work", "--output", tmp_path / "out")
    return (*where, "--pages", str(PAGES), "--repeat", "1")


def test_a_small_run_of_streams(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    peers = ("--only", OURS, "--only", "zstd", "--only", "fastwarc")
    result = run_cli("stream", *places(corpus, tmp_path), *peers, "--captures", "60")
    assert result.exit_code == 0, result.output
    assert "targets" in result.stdout
    values = json.loads((tmp_path / "out" / "stream.json").read_text())
    assert values["missing"] == []
    found = {(each["subject"], each["workload"]): each for each in values["results"]}
    assert set(found) == {
        (OURS, "raw"),
        ("zstd", "raw"),
        ("fastwarc", "raw"),
        (OURS, "shared"),
    }
    assert found[OURS, "raw"]["content_bytes"] == found["zstd", "raw"]["content_bytes"] == values["content_bytes"]
    assert [each["order"] for each in values["resumed"]] == ["log", "url"]
    assert (tmp_path / "out" / "stream.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_small_run_of_queries(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    few = [word for each in ("index", "word", "facets") for word in ("--workload", each)]
    result = run_cli("query", *places(corpus, tmp_path), *few)
    assert result.exit_code == 0, result.output
    values = json.loads((tmp_path / "out" / "query.json").read_text())
    assert values["missing"] == []
    found = {(each["subject"], each["workload"]): each for each in values["results"]}
    assert set(found) == {(OURS, "index"), (OURS, "word"), (OURS, "facets"), (BARE, "index"), (BARE, "word")}
    for workload in ("word", "facets"):
        assert found[OURS, workload]["p95_ms"] >= found[OURS, workload]["p50_ms"] > 0
    assert values["captures"] == found[OURS, "index"]["operations"] == found[BARE, "index"]["operations"]
    assert (tmp_path / "out" / "query.png").read_bytes().startswith(b"\x89PNG")
