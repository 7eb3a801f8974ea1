"""The harness of `holdfast bench webstore`: the lives, every subject with few pages, the verdicts, the reports."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import bench
from benchmarks.harness.corpus import Corpus, Limits, choose
from benchmarks.harness.figure import median
from benchmarks.harness.measure import Cost
from benchmarks.harness.process import Unavailable
from benchmarks.harness.run import Missing
from benchmarks.replay.running import free_ports
from benchmarks.webstore.figure import WebstoreFigure
from benchmarks.webstore.life import live
from benchmarks.webstore.processes import find_program
from benchmarks.webstore.report import webstore_report
from benchmarks.webstore.run import WebstoreOutcome, WebstorePlan, run_webstore
from benchmarks.webstore.subjects import PEERS, SUBJECTS
from benchmarks.webstore.subjects.webdav import Webdav
from benchmarks.webstore.target import webstore_verdicts
from benchmarks.webstore.workload import CLIENTS, Experiment, Life, Line, Operation, Range, lives
from click.testing import CliRunner, Result
from rich.console import Console

from holdfast.errors import UnknownName

PAGES = 9
OURS = ("holdfast", "holdfast-batches")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    directory = tmp_path_factory.mktemp("corpus")
    randomness = random.Random(11)
    for number in range(PAGES):
        words = " ".join(f"word{randomness.randrange(1_000)}" for _ in range(300))
        (directory / f"{number}.html").write_text(f"<html><title>{number}</title><p>{words}</p></html>")
    return choose(directory, Limits())


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["webstore", *map(str, arguments)])


# -- the experiments ---------------------------------------------------------------------------------------------------


def planned(*, is_ours: bool, **wanted: Any) -> list[Life]:
    return list(lives(Range(**wanted), is_ours=is_ours))


def test_the_first_three_experiments_are_one_life_for_each_number_of_clients() -> None:
    found = planned(is_ours=True, experiments=(Experiment.RETRIEVE, Experiment.DELETE, Experiment.STORE))
    assert [life.clients for life in found] == list(CLIENTS)
    assert [step.line for step in found[0].steps] == [
        Line.STORE_NEW,
        Line.RETRIEVE,
        Line.STORE_DUPLICATE,
        Line.DELETE_DUPLICATE,
        Line.DELETE_BLOCK,
    ]
    (retrieving,) = planned(is_ours=True, experiments=(Experiment.RETRIEVE,), clients=(1,))
    assert [step.operation for step in retrieving.steps] == [Operation.STORE, Operation.RETRIEVE]


def test_only_holdfast_has_modes_and_eliminates_duplicates() -> None:
    assert {step.mode for life in planned(is_ours=True) for step in life.steps} == {"regular", "compare", "force-new"}
    ours = {(step.experiment, step.line) for life in planned(is_ours=True) for step in life.steps}
    theirs = {(step.experiment, step.line) for life in planned(is_ours=False) for step in life.steps}
    assert theirs < ours
    assert {line for _, line in ours - theirs} == {
        Line.REGULAR,
        Line.COMPARE,
        Line.ELIMINATING,
        Line.ELIMINATING_DUPLICATE,
    }


def test_volumes_go_to_sixteen_and_those_of_peers_to_four() -> None:
    assert max(life.volumes for life in planned(is_ours=True)) == 16
    assert max(life.volumes for life in planned(is_ours=False)) == 4
    balanced = planned(is_ours=True, experiments=(Experiment.BALANCE,), volumes=(1, 2))
    assert {(life.clients, life.volumes) for life in balanced} == {(4, 1), (4, 2)}


def test_a_level_of_duplicates_is_stored_before_the_clock_runs() -> None:
    found = planned(is_ours=False, experiments=(Experiment.MODES,))
    assert [life.x for life in found] == [0, 20, 40, 60, 80, 100]
    assert [sum(step.per_cent for step in life.steps if step.experiment is None) for life in found] == [
        life.x for life in found
    ]


# -- subjects ----------------------------------------------------------------------------------------------------------

WANTED = (Experiment.RETRIEVE, Experiment.DELETE, Experiment.STORE)


@pytest.mark.parametrize("name", [*OURS, *PEERS])
def test_a_subject_stores_retrieves_and_deletes_in_two_volumes(name: str, corpus: Corpus, tmp_path: Path) -> None:
    (life,) = lives(Range(experiments=WANTED, clients=(3,)), is_ours=SUBJECTS[name].facts.is_ours)
    try:
        figures = live(name, replace(life, volumes=2, per_machine=2), corpus.paths, tmp_path / "life")
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")
    assert [figure.line for figure in figures] == [step.line for step in life.steps]
    for figure in figures:
        assert (figure.subject, figure.x, figure.operations) == (name, 3, PAGES)
        assert figure.content_bytes == corpus.total_bytes
        assert figure.seconds > 0


class Unserved(Webdav):
    """Its server went away before a client came."""

    def start(self, directory: Path, volumes: int) -> tuple[str, ...]:
        return tuple(f"http://127.0.0.1:{port}" for port in free_ports(volumes))


def test_what_fails_is_told_once_and_the_rest_goes_on(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUBJECTS, "webdav", Unserved)
    plan = WebstorePlan(corpus, ("webdav",), Range((Experiment.STORE,), (1, 2), (1,)), repeats=2)
    outcome = run_webstore(plan, tmp_path, lambda *_: None)
    assert outcome.figures == []
    assert [each.what for each in outcome.missing] == [
        f"{clients}, 1 volume: store-new, store-duplicate" for clients in ("1 client", "2 clients")
    ]
    assert all(each.reason.startswith("failed: OSError: PUT http://127.0.0.1:") for each in outcome.missing)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_missing_is_named_with_its_package() -> None:
    with pytest.raises(Unavailable, match=r"'no-such-program'.*'some-package'"):
        find_program("no-such-program", "some-package")


# -- the command -------------------------------------------------------------------------------------------------------


def test_wrong_names_and_numbers_are_refused(corpus: Corpus) -> None:
    result = run_cli("--corpus", corpus.directory, "--peers", "nfss")
    assert isinstance(result.exception, UnknownName)
    assert "did you mean 'nfs'" in str(result.exception)
    for option, value in (("--experiments", "7"), ("--clients", "0"), ("--volumes", "one")):
        result = run_cli("--corpus", corpus.directory, option, value)
        assert result.exit_code == 2
        assert option in result.output


def test_a_small_run_makes_every_report(corpus: Corpus, tmp_path: Path) -> None:
    places = ("--corpus", corpus.directory, "--work-dir", tmp_path / "work", "--output", tmp_path / "out")
    sizes = ("--pages", PAGES, "--repeat", 1, "--clients", 1, "--volumes", 1, "--experiments", 6)
    result = run_cli(*places, *sizes, "--peers", "webdav")
    values = json.loads((tmp_path / "out" / "webstore.json").read_text())
    assert result.exit_code == 0, values["missing"]
    assert "targets" in result.stdout
    absent = {each["subject"] for each in values["missing"]}
    assert absent <= {"webdav"}
    found = {(each["experiment"], each["line"], each["subject"]) for each in values["results"]}
    assert found >= {(6, line, name) for line in ("retrieve", "chosen-volume", "eliminating") for name in OURS}
    assert list((tmp_path / "work").iterdir()) == []


# -- verdicts and reports ----------------------------------------------------------------------------------------------


def figure(experiment: Experiment, line: Line, subject: str, x: int, per_s: float) -> WebstoreFigure:
    cost = Cost(1_000 / per_s, 0.5, 0, 0)
    return WebstoreFigure(subject, line, 1_000, cost, 19_000_000, experiment=experiment, x=x)


def outcome_of(rows: Sequence[tuple[Experiment, Line, str, int, float]]) -> WebstoreOutcome:
    return WebstoreOutcome([figure(*row) for row in rows])


def test_the_median_repeat_is_reported_with_all_times() -> None:
    found = median([figure(Experiment.STORE, Line.STORE_NEW, "nfs", 1, rate) for rate in (500.0, 1_000.0, 250.0)])
    assert (found.seconds, found.seconds_all) == (2.0, (2.0, 1.0, 4.0))


def test_targets_compare_the_best_of_each_side_and_never_with_seaweedfs() -> None:
    outcome = outcome_of(
        [
            (Experiment.RETRIEVE, Line.RETRIEVE, "holdfast", 1, 1_000.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "holdfast", 10, 2_900.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "holdfast-batches", 5, 3_000.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "nfs", 35, 1_000.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "sshfs", 1, 900.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "seaweedfs", 1, 9_000.0),
            (Experiment.STORE, Line.STORE_NEW, "holdfast", 1, 2_999.0),
            (Experiment.STORE, Line.STORE_NEW, "webdav", 1, 1_000.0),
            (Experiment.RETRIEVE, Line.RETRIEVE, "reference", 10, 3_800.0),
            (Experiment.STORE, Line.STORE_NEW, "reference", 1, 5_000.0),
        ]
    )
    retrieve, store, *others, retrieve_bare, store_bare = webstore_verdicts(outcome)
    assert (retrieve.met, retrieve.by) == (True, "batches of 64")
    assert "2.9x single calls, 3.0x batches of 64" in retrieve.measured
    assert "NFSv3 with 35 clients, 1,000/s" in retrieve.measured
    assert store.met is False
    assert [verdict.met for verdict in others] == [None] * 5
    assert (retrieve_bare.met, retrieve_bare.measured) == (True, "0.76x with 10 clients")
    assert (store_bare.met, store_bare.measured) == (False, "0.60x with 1 client")


def test_targets_of_many_volumes_compare_with_one() -> None:
    rows = []
    for volumes, per_s in ((1, 1_000.0), (16, 920.0)):
        rows.append((Experiment.ELIMINATION, Line.ELIMINATING, "holdfast", volumes, per_s))
        rows.append((Experiment.ELIMINATION, Line.ELIMINATING, "holdfast-batches", volumes, per_s**2))
    for volumes, per_s in ((1, 1_000.0), (4, 999.0)):
        rows.append((Experiment.BALANCE, Line.ELIMINATING, "holdfast", volumes, per_s))
        rows.append((Experiment.BALANCE, Line.RETRIEVE, "holdfast", volumes, 2_000.0 - per_s))
    *_, elimination, stores, retrieves, _, _ = webstore_verdicts(outcome_of(rows))
    assert (elimination.met, elimination.by) == (True, "single calls")
    assert "1.09x single calls, 1.18x batches of 64" in elimination.measured
    assert (stores.met, retrieves.met) == (False, True)


def test_the_report_has_a_table_and_a_panel_for_every_experiment(corpus: Corpus, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = []
    for name in SUBJECTS:
        for life in lives(Range(), is_ours=SUBJECTS[name].facts.is_ours):
            rows += [(step.experiment, step.line, name, life.x, 500.0) for step in life.steps if step.experiment]
    outcome = outcome_of(rows)
    outcome.missing = [Missing("nfs", "1 client", "failed: why"), Missing("nfs", "5 clients", "failed: why")]
    found = webstore_report(WebstorePlan(corpus), outcome, {"cores": 2})
    console = Console(width=190, record=True, file=(tmp_path / "report").open("w"))
    found.show(console)
    console.file.close()
    text = console.export_text()
    for number in Experiment:
        assert f"experiment {number.value} (figure {number.value + 6})" in text
    assert "no figure for nfs, 1 client and 1 more: failed: why" in text
    assert "fdatasync" in text
    results = found.as_json()["results"]
    assert len(results) == len(rows)
    assert {key for each in results for key in ("clients", "duplicates", "volumes") if key in each} == {
        "clients",
        "duplicates",
        "volumes",
    }
    found.write(tmp_path)
    assert (tmp_path / "webstore.png").read_bytes().startswith(b"\x89PNG")
