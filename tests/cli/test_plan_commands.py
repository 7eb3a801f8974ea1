"""`holdfast plan`: tables, JSON, CSV, charts, and errors (H9, B13)."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from program import Shell

import holdfast
from holdfast.archive.ingest.exchange import page
from holdfast.cli.study import plan as commands
from holdfast.plan import PRESETS
from holdfast.plan.disk_model import DISKS
from holdfast.plan.simulation import Replacement


def test_choices_in_help_are_those_of_the_library() -> None:
    assert set(commands.PRESETS) == {*PRESETS, "archive"}
    assert set(commands.DISKS) == {*DISKS, "measured"}
    assert set(commands.REPLACEMENTS) == set(Replacement)


def test_an_estimate_for_people_and_programs(archive: Shell) -> None:
    text = archive.quick("plan", "estimate", "--preset", "thesis").text
    assert text.startswith("figures:\nfigure")
    assert "\ntraffic:\n" in text and "\ncopies:\n" in text
    assert next(line for line in text.splitlines() if line.startswith("nodes ")).split() == ["nodes", "18,225"]
    objects = archive.quick("plan", "estimate", "--json").objects
    assert {each["table"] for each in objects} == {"figures", "traffic", "copies", "lives", "uptimes"}
    rows = list(csv.DictReader(io.StringIO(archive.quick("plan", "estimate", "--table", "copies", "--csv").text)))
    assert [row["copies"] for row in rows] == [str(number) for number in range(1, 9)]


def figures(shell: Shell, *words: str) -> dict[str, float]:
    found = shell.quick("plan", *words, "--table", "figures", "--json").objects
    return {each["figure"]: each["value"] for each in found}


def test_options_change_a_preset(archive: Shell) -> None:
    usual = figures(archive, "estimate")
    assert figures(archive, "estimate", "--disk", "50TiB")["nodes"] > usual["nodes"]
    assert figures(archive, "estimate", "--copies", "2")["nodes"] < usual["nodes"]
    assert figures(archive, "estimate", "--life", "30d")["bandwidth of a node, up"] > usual["bandwidth of a node, up"]
    one = figures(archive, "estimate", "--nodes", "1", "--copies", "1", "--pages", "1e6", "--days", "10")
    assert one["nodes"] == 1


@pytest.mark.parametrize("name", ["chart.png", "chart.svg"])
def test_charts(archive: Shell, tmp_path: Path, name: str) -> None:
    for words in (("estimate",), ("simulate", "--years", "1", "--nodes", "21"), ("disk",)):
        path = tmp_path / f"{words[0]}-{name}"
        assert f"drew '{path}'" in archive.quick("plan", *words, "--plot", str(path)).errors
        if name.endswith("svg"):
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


def test_a_simulation_says_what_is_calculated_beside(archive: Shell, tmp_path: Path) -> None:
    words = ("simulate", "--nodes", "21", "--years", "2", "--runs", "2", "--life", "100d")
    found = archive.quick("plan", *words, "--json").objects
    died = next(each for each in found if each.get("figure") == "nodes that died")
    assert died["calculated"] == pytest.approx(21 * 730 / 100)
    assert died["value_low"] <= died["value"] <= died["value_high"]
    assert archive.quick("plan", *words, "--json").objects == found, "the same seed"
    assert archive.quick("plan", *words, "--seed", "9", "--json").objects != found
    trace = tmp_path / "lives"
    trace.write_text("50\n150\n")
    traced = archive.quick("plan", *words[:5], "--trace", str(trace), "--json").objects
    assert next(each for each in traced if each.get("figure") == "nodes that died")["value"] > 100
    lying = archive.quick("plan", *words[:5], "--liars", "0.1", "--json").objects
    assert any(each.get("figure") == "nodes that lied and were expelled" for each in lying)


def test_growth_of_this_archive_and_its_estimate(archive: Shell) -> None:
    assert "the growth of the archive is unknown" in archive.quick("plan", "growth").errors
    assert archive.quick("plan", "estimate", "--preset", "archive", code=2).errors.endswith("it has no captures\n")
    with holdfast.open(archive.directory) as opened:
        for month in ("01", "02"):
            opened.add([page(f"http://a.example/{month}", b"x" * 5000, timestamp=f"2026{month}01000000")])
    result = archive.quick("plan", "growth")
    assert "2026-01" in result.text and "this archive, growing like this, is full in" in result.errors
    assert figures(archive, "estimate", "--preset", "archive")["nodes"] == 1
    assert figures(archive, "estimate", "--preset", "archive", "--copies", "3")["nodes"] == 3


def test_which_organization_for_which_disk(archive: Shell) -> None:
    text = archive.quick("plan", "disk", "--table", "choice").text
    assert text.splitlines()[1].startswith("log ")
    assert (
        archive.quick("plan", "disk", "--reads", "1", "--adds", "0", "--streams", "0", "--table", "choice")
        .lines[1]
        .startswith("hash ")
    )
    found = archive.quick("plan", "disk", "--seek", "1", "--read-rate", "100M", "--table", "disk", "--json").objects
    values = {each["figure"]: each["value"] for each in found}
    assert (values["seek"], values["short seek"], values["reads"]) == (1.0, 1.0, 100.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("estimate", "--copies", "9", "--nodes", "5"), "cannot keep 9 copies on 5 nodes"),
        (("estimate", "--uptime", "1.5"), "bad uptime"),
        (("estimate", "--plot", "chart.gif"), "must end with .png or .svg"),
        (("estimate", "--json", "--csv"), "--csv"),
        (("simulate", "--years", "0"), "cannot simulate 0 years"),
        (("simulate", "--nodes", "2", "--copies", "1", "--partitions", "99999999"), "partitions"),
        (("simulate", "--trace", "absent"), "cannot read the trace"),
        (("simulate", "--trace", "absent", "--shape", "2"), "give one of"),
        (("growth", "--reserve", "2"), "bad reserve"),
        (("disk", "--seek", "-1"), "disk"),
        (("disk", "--disk", "measured", "--directory", "absent"), "cannot measure"),
    ],
)
def test_clear_errors(archive: Shell, words: tuple[str, ...], message: str) -> None:
    result = archive.quick("plan", *words, code=2)
    assert message in result.errors and "Traceback" not in result.errors
