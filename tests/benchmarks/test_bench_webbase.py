"""The harness of `holdfast bench webbase`: buckets against a model, a whole run with few pages, the reports."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest
from benchmarks.__main__ import bench
from benchmarks.harness.corpus import Corpus, Limits, choose
from benchmarks.webbase import paper
from benchmarks.webbase.buckets import figure_4, figure_5
from benchmarks.webbase.disk import bucket_times, forget
from benchmarks.webbase.findings import Finding, findings, table_6
from benchmarks.webbase.pages import pages_of
from benchmarks.webbase.paper import Row
from benchmarks.webbase.report import webbase_report
from benchmarks.webbase.run import WebbaseOutcome, WebbasePlan, run_webbase
from benchmarks.webbase.updates import UpdateCost
from benchmarks.webbase.volumes import BUFFER_BYTES, grouped
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

PAGES = 110


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(11)
    for number in range(PAGES):
        words = " ".join(f"word{randomness.randrange(1_000)}" for _ in range(randomness.randrange(20, 900)))
        (directory / f"{number}.html").write_text(f"<html><title>{number}</title><p>{words}</p></html>")
    return choose(directory, Limits())


@pytest.fixture(scope="module")
def outcome(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> WebbaseOutcome:
    """A whole run, once."""
    plan = WebbasePlan(corpus, repeats=1, ratios=(paper.UPDATE_RATIO, 1.0), disk_bytes=1 << 20)
    return run_webbase(plan, tmp_path_factory.mktemp("run"), lambda *_: None)


# -- buckets -----------------------------------------------------------------------------------------------------------


def by_hand(sizes: list[int], bucket: int) -> tuple[float, int]:
    """Reads for each page on average, and buckets in the chain: page after page, byte after byte."""
    reads, room, chain = 0, bucket, 1
    for size in sizes:
        if size > room and room < bucket:
            chain, room = chain + 1, bucket
        left = size
        while left > bucket:
            chain, left, room = chain + 1, left - bucket, left
        room = room - left if size <= bucket else 0
        reads += chain
    return reads / len(sizes), chain


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(50, 500))
def test_one_bucket_and_what_overflows(sizes: list[int], bucket: int) -> None:
    pages = [(number.to_bytes(8, "big"), size) for number, size in enumerate(sizes)]
    (choice,) = figure_4(pages, {bucket: 2.0}, len(pages)).choices
    reads, chain = by_hand(sizes, bucket)
    assert choice.reads == pytest.approx(reads)
    assert choice.access_ms == pytest.approx(2 * reads)
    assert choice.utilization == pytest.approx(sum(sizes) / (chain * bucket))
    assert choice.overflowing == (chain > 1)


def test_the_best_size_balances_overflow_and_reading() -> None:
    randomness = random.Random(1)
    pages = [(randomness.randbytes(32), 1000) for _ in range(1600)]
    read_ms = {size: 1 + size / 100_000 for size in (1000, 8000, 32_000, 512_000)}
    found = figure_4(pages, read_ms, 16)
    assert found.best.bucket_bytes == 32_000
    reads = [each.reads for each in found.choices]
    assert reads == sorted(reads, reverse=True)
    assert reads[-1] == 1
    assert sum(share for _, share in found.fills) == pytest.approx(0.99, abs=0.02)
    assert [each.pages_per_bucket for each in figure_5(pages, read_ms)] == [1, 2, 4, 8, 16, 32, 64, 128]


def test_reads_are_timed_wherever_the_file_is(tmp_path: Path) -> None:
    times, _ = bucket_times(tmp_path, (4096, 8192), 1 << 16, 5)
    assert times.keys() == {4096, 8192}
    assert all(ms > 0 for ms in times.values())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "below").mkdir()
    (tmp_path / "below/file").write_bytes(b"kept")
    forget(tmp_path)
    assert (tmp_path / "below/file").read_bytes() == b"kept"


def test_pages_are_handed_over_as_many_as_fit_the_buffer(corpus: Corpus) -> None:
    stores = pages_of(corpus).stores
    many = stores * 300
    groups = list(grouped(many))
    assert [each for group in groups for each in group] == many
    sizes = [sum(len(each.encoded.data) for each in group) for group in groups]
    assert all(size >= BUFFER_BYTES for size in sizes[:-1])
    assert len(sizes) > 1


# -- a run -------------------------------------------------------------------------------------------------------------


def test_everything_is_measured(outcome: WebbaseOutcome) -> None:
    assert outcome.missing == []
    assert outcome.table_3.keys() == set(paper.ORGANIZATIONS)
    for name in paper.ORGANIZATIONS:
        assert all((outcome.rate(name, row) or 0) > 0 for row in Row)
        assert all((outcome.rate(name, row, warm=True) or 0) > 0 for row in paper.READS)
    half = PAGES // 2
    assert outcome.table_4.keys() == paper.TABLE_4.keys()
    for cost in outcome.table_4.values():
        assert (cost.pages, cost.moved, cost.removed) == (half, round(half / 4), round(half / 4))
        assert cost.total_s == sum(cost.seconds.values()) > 0
    assert [(each.ratio, each.removed) for each in outcome.figure_6] == [(0.25, round(half / 4)), (1.0, half)]
    assert outcome.table_5 is not None
    assert outcome.table_5.streaming > 0
    assert len(outcome.figure_5) == 7, "there are not pages enough for 128 in a bucket"


def test_reports(outcome: WebbaseOutcome, corpus: Corpus, tmp_path: Path) -> None:
    found = webbase_report(WebbasePlan(corpus, repeats=1), outcome, {"cpu": "some"})
    values = json.loads(json.dumps(found.as_json()))
    assert values["corpus"]["pages"] == PAGES
    assert len(values["table_3"]) == len(paper.ORGANIZATIONS) * (len(Row) + len(paper.READS))
    assert {each["paper_s"] for each in values["table_4"]} == {11_700, 1260}
    assert len(values["table_6"]) == 7
    console = Console(width=190, record=True, file=io.StringIO())
    found.show(console)
    text = console.export_text()
    for words in (
        "table 3",
        "table 4",
        "table 5",
        "table 6",
        "figure 4",
        "figure 5",
        "figure 6",
        "Incr [uniform, log]",
    ):
        assert words in text
    found.write(tmp_path)
    assert (tmp_path / "webbase.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_measured_is_told_as_such(corpus: Corpus, tmp_path: Path) -> None:
    empty = WebbaseOutcome()
    assert all(each.here is None and each.holds is None for each in findings(empty))
    assert set(table_6(empty).values()) == {("", "", "", "")}
    found = webbase_report(WebbasePlan(corpus), empty, {})
    found.as_json()
    found.show(Console(width=190, file=io.StringIO()))
    found.write(tmp_path)


def test_findings_and_signs() -> None:
    assert Finding("", 1.5, 1.1).holds
    assert not Finding("", 1.5, 0.9).holds
    told = {
        "log": {(row, False): 100.0 for row in Row},
        "hash": {(Row.STREAM, False): 79.0, (Row.RANDOM, False): 200.0, (Row.ADD_BUFFERED, False): 4.0},
    }
    cost = UpdateCost("log", "hash", 0.25, 10, 5, 5, {"transfer": 2.0})
    outcome = WebbaseOutcome(table_3=told, table_4={("log", "hash"): cost})
    signs = table_6(outcome)
    assert signs["Incr [hash, log]"] == ("++", "+", "++", "")
    assert signs["Incr [hash, hash]"] == ("+", "++", "--", "")
    assert signs["Batch [U(hash, log), R(hash, hash)]"] == ("+", "++", "++", "++")
    by_words = {each.words: each for each in findings(outcome)}
    assert by_words["buckets find a page faster than a log"].here == 2.0


def test_the_command(outcome: WebbaseOutcome, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[WebbasePlan] = []

    def run(plan: WebbasePlan, *_: object) -> WebbaseOutcome:
        planned.append(plan)
        return outcome

    monkeypatch.setattr("benchmarks.webbase.command.run_webbase", run)
    words = ["webbase", "--corpus", str(corpus.directory), "--work-dir", str(tmp_path), "--pages"]
    done = CliRunner().invoke(bench, [*words, "100", "--repeat", "2", "--json", "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["repeats"] == 2
    assert (len(planned[0].corpus.paths), planned[0].repeats) == (100, 2)
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"webbase.json", "webbase.png"}
    assert CliRunner().invoke(bench, [*words, "99"]).exit_code == 2
