"""Samples (I9): strata, sizes, representativeness, and the same bytes again."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from generated import Fact, add, made, undated_warc, when

from holdfast import study
from holdfast.archive import Archive
from holdfast.archive.removal import RemovalOptions
from holdfast.catalog import CaptureQuery
from holdfast.errors import IndexNotFound, UnknownCollection, UnknownName, UsageError
from holdfast.records.selection import Selection
from holdfast.study import SampleOptions

TYPES = ("text/html", "text/html", "text/html", "image/png", "application/pdf")
NAMES = {"text/html": "html", "image/png": "image", "application/pdf": "pdf"}


def web(seed: int, captures: int = 600) -> list[Fact]:
    """Sites of very different size, four months, three types, some errors."""
    chance = random.Random(seed)
    facts = []
    for number in range(captures):
        site = min(19, int(chance.expovariate(0.25)))
        word = "tide" if chance.random() < 0.2 else "wind"
        body = f"<p>{word} of page {number}. ".encode() * chance.choice((4, 40, 400))
        url = f"http://a.site{site}.com/{number % 400}"
        time = when(datetime(2020, 1, 1), chance.random() * 120)
        status = 404 if chance.random() < 0.05 else 200
        facts.append(Fact(f"b{number % 2}", url, time, body, chance.choice(TYPES), status))
    return facts


def site_of(fact: Fact) -> str:
    return ".".join(fact.host.split(".")[-2:])


@pytest.fixture(scope="module")
def facts() -> list[Fact]:
    return web(1)


@pytest.fixture(scope="module")
def good(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.status == 200]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, facts: list[Fact]) -> Archive:
    archive = made(tmp_path_factory.mktemp("sampled") / "archive")
    add(archive, facts)
    archive.index.update()
    return archive


def listed(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "captures.jsonl").read_text().splitlines()]


def digests(directory: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


# -- strata and sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [("site",), ("type",), ("time",), ("site", "type")])
def test_every_stratum_gives_its_share(archive: Archive, good: list[Fact], tmp_path: Path, by: tuple[str, ...]) -> None:
    result = study.sample(archive, SampleOptions(captures=100, by=by), tmp_path / "sample")
    values = {"site": site_of, "type": lambda fact: NAMES[fact.mime], "time": _month}
    wanted = Counter(" | ".join(values[name](fact) for name in by) for fact in good)
    assert {row["stratum"]: row["captures"] for row in result.rows("strata")} == wanted
    for row in result.rows("strata"):
        share = 100 * row["captures"] / len(good)
        assert math.floor(share) - 1 <= row["sampled"] <= math.ceil(share) + 1
        assert row["weight"] == (row["captures"] / row["sampled"] if row["sampled"] else None)
    drawn = listed(tmp_path / "sample")
    assert len(drawn) == 100 == len({each["record"] for each in drawn})
    known = {(fact.url, fact.timestamp) for fact in good}
    assert {(each["url"], each["timestamp"]) for each in drawn} <= known


def _month(fact: Fact) -> str:
    return f"{fact.timestamp[:4]}-{fact.timestamp[4:6]}"


def test_topics_are_strata(archive: Archive, good: list[Fact]) -> None:
    options = SampleOptions(captures=60, by=("topic",), topics=("tide", "unicorn"), within="type:html", unit="year")
    rows = {row["stratum"]: row for row in study.sample(archive, options).rows("strata")}
    pages = [fact for fact in good if fact.mime == "text/html"]
    tide = sum(b"tide" in fact.body for fact in pages)
    assert {name: row["captures"] for name, row in rows.items()} == {"tide": tide, "none": len(pages) - tide}
    assert abs(rows["tide"]["sampled"] - 60 * tide / len(pages)) <= 1


def test_equal_allocation_takes_as_many_from_each(archive: Archive, good: list[Fact]) -> None:
    options = SampleOptions(captures=45, by=("type",), allocation="equal")
    assert {row["stratum"]: row["sampled"] for row in study.sample(archive, options).rows("strata")} == {
        "html": 15,
        "image": 15,
        "pdf": 15,
    }
    by_site = study.sample(archive, SampleOptions(captures=60, by=("site",), allocation="equal")).rows("strata")
    whole = Counter(map(site_of, good))
    most = max(row["sampled"] for row in by_site)
    for row in by_site:
        assert row["sampled"] >= min(whole[row["stratum"]], most - 1)


def test_a_size_in_bytes_is_kept_and_nearly_reached(archive: Archive, good: list[Fact]) -> None:
    total = sum(len(fact.body) for fact in good)
    for share in (0.1, 0.5):
        result = study.sample(archive, SampleOptions(bytes_max=int(total * share), by=("site",)))
        whole, drawn = result.rows("sizes")
        assert (whole["captures"], whole["bytes"]) == (len(good), total)
        assert int(total * share) - 12_000 < drawn["bytes"] <= int(total * share)


def test_samples_of_one_seed_are_nested_and_others_differ(archive: Archive, tmp_path: Path) -> None:
    def drawn(name: str, captures: int, seed: str) -> set[str]:
        study.sample(archive, SampleOptions(captures=captures, by=("site",), seed=seed), tmp_path / name)
        return {each["record"] for each in listed(tmp_path / name)}

    small, large, other = drawn("a", 50, "x"), drawn("b", 200, "x"), drawn("c", 50, "y")
    assert small < large
    assert small != other


def test_each_capture_is_drawn_as_often_as_any_other(archive: Archive, good: list[Fact], tmp_path: Path) -> None:
    """Over many seeds: also those of sites that have one capture only."""
    seeds, captures = 60, 100
    found = Counter[str]()
    for seed in range(seeds):
        options = SampleOptions(captures=captures, by=("site",), seed=str(seed), format="parquet")
        study.sample(archive, options, tmp_path / str(seed))
        found.update(each["site"] for each in listed(tmp_path / str(seed)))
    whole = Counter(map(site_of, good))
    for name, count in whole.items():
        expected = seeds * captures * count / len(good)
        assert abs(found[name] - expected) < 6 * math.sqrt(seeds)


# -- representativeness ------------------------------------------------------------------------------------------------


def test_distributions_and_distances_are_those_of_brute_force(
    archive: Archive, good: list[Fact], tmp_path: Path
) -> None:
    result = study.sample(archive, SampleOptions(captures=120), tmp_path / "sample")
    drawn = {(each["url"], each["timestamp"]) for each in listed(tmp_path / "sample")}
    sampled = [fact for fact in good if (fact.url, fact.timestamp) in drawn]
    assert len(sampled) == 120
    values = {"site": site_of, "type": lambda fact: NAMES[fact.mime], "time": _month}
    distances = {row["dimension"]: row for row in result.rows("distances")}
    for name, value in values.items():
        whole, part = Counter(map(value, good)), Counter(map(value, sampled))
        rows = {row["value"]: row for row in result.rows("distributions") if row["dimension"] == name}
        assert {key: (row["captures"], row["sampled"]) for key, row in rows.items()} == {
            key: (whole[key], part[key]) for key in whole
        }
        p = {key: whole[key] / len(good) for key in whole}
        q = {key: part[key] / 120 for key in whole}
        assert distances[name]["total_variation"] == pytest.approx(sum(abs(p[k] - q[k]) for k in p) / 2, abs=1e-6)
        middle = {key: (p[key] + q[key]) / 2 for key in p}
        js = sum(x[k] * math.log2(x[k] / middle[k]) for x in (p, q) for k in p if x[k]) / 2
        assert distances[name]["jensen_shannon"] == pytest.approx(js, abs=1e-6)
    ordered = sorted(Counter(map(_month, good)))
    whole_shares = [sum(_month(fact) <= each for fact in good) / len(good) for each in ordered]
    part_shares = [sum(_month(fact) <= each for fact in sampled) / 120 for each in ordered]
    most = max(abs(a - b) for a, b in zip(whole_shares, part_shares, strict=True))
    assert distances["time"]["kolmogorov_smirnov"] == pytest.approx(most, abs=1e-6)
    assert distances["site"]["kolmogorov_smirnov"] is None


def test_strata_bring_a_sample_nearer_than_chance(archive: Archive) -> None:
    rows = {
        row["dimension"]: row
        for row in study.sample(archive, SampleOptions(captures=100, by=("site",))).rows("distances")
    }
    assert rows["site"]["total_variation"] < rows["site"]["expected"] / 2
    whole = study.sample(archive, SampleOptions(captures=100, by=("type",)))
    assert next(r for r in whole.rows("distances") if r["dimension"] == "type")["total_variation"] < 0.011
    assert [panel.x_label for panel in whole.panels] == [
        *("kind of site", "type", "time of capture", "bytes, from this to twice as many")
    ]


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["warc", "warc.gz", "warc.zst", "parquet"])
def test_the_same_options_make_the_same_bytes(archive: Archive, tmp_path: Path, format: str) -> None:
    options = SampleOptions(captures=40, by=("type",), seed="42", format=format)
    study.sample(archive, options, tmp_path / "one")
    study.sample(archive, options, tmp_path / "two")
    study.sample_again(archive, tmp_path / "one", tmp_path / "three")
    first = digests(tmp_path / "one")
    assert set(first) == {
        *("README.md", "captures.jsonl", "distances.csv", "distributions.csv", "manifest.json"),
        *("strata.csv", f"sample.{format}"),
    }
    assert first == digests(tmp_path / "two") == digests(tmp_path / "three")
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    del first["manifest.json"]
    assert {name: facts["sha256"] for name, facts in manifest["files"].items()} == first
    assert manifest["options"]["seed"] == "42"


@pytest.mark.parametrize("format", ["warc", "warc.gz", "warc.zst"])
def test_a_sample_can_be_imported_and_has_what_was_drawn(
    archive: Archive, facts: list[Fact], tmp_path: Path, format: str
) -> None:
    study.sample(archive, SampleOptions(captures=40, format=format), tmp_path / "sample")
    bodies = {(fact.url, fact.timestamp): fact.body for fact in facts}
    with made(tmp_path / "other") as other:
        other.import_files(tmp_path / "sample" / f"sample.{format}")
        drawn = listed(tmp_path / "sample")
        assert other.catalog.totals()[0]["main"].captures == 40
        for each in drawn:
            found = other.catalog.closest(each["url"], each["timestamp"], "main")
            assert found is not None and found.timestamp == each["timestamp"]
            assert other.records.of(found).payload() == bodies[each["url"], each["timestamp"]]


def test_parquet_has_the_contents(archive: Archive, facts: list[Fact], tmp_path: Path) -> None:
    from pyarrow import parquet

    study.sample(archive, SampleOptions(captures=40, format="parquet"), tmp_path / "sample")
    rows = parquet.read_table(tmp_path / "sample" / "sample.parquet").to_pylist()
    bodies = {(fact.url, fact.timestamp): fact.body for fact in facts}
    assert len(rows) == 40
    for row in rows:
        assert row["content"] == bodies[row["url"], row["timestamp"]]


@pytest.mark.parametrize("format", ["warc.gz", "parquet"])
def test_a_sample_that_is_interrupted_while_it_is_written_leaves_nothing(
    archive: Archive, tmp_path: Path, format: str
) -> None:
    def interrupt(_: int) -> None:
        if any(tmp_path.iterdir()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.sample(archive, SampleOptions(captures=100, format=format), tmp_path / "sample", progress=interrupt)
    assert not any(tmp_path.iterdir())


def test_an_archive_that_has_grown_makes_the_same_sample_and_one_that_lost_captures_says_so(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        add(archive, web(3, 120))
        archive.index.update()
        options = SampleOptions(captures=20, by=("topic",), topics=("tide",))
        study.sample(archive, options, tmp_path / "one")
        add(archive, web(4, 120))
        archive.index.update()
        study.sample_again(archive, tmp_path / "one" / "manifest.json", tmp_path / "two")
        assert digests(tmp_path / "one") == digests(tmp_path / "two")
        study.sample(archive, options, tmp_path / "other")
        assert digests(tmp_path / "other") != digests(tmp_path / "one")
        gone = listed(tmp_path / "one")[0]
        archive.remove(Selection(CaptureQuery(url=gone["url"])), RemovalOptions("asked by the owner"))
        with pytest.raises(UsageError, match=r"cannot be made again: .*sample.warc.gz.* would differ"):
            study.sample_again(archive, tmp_path / "one", tmp_path / "three")
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "one", "two", "other"}


def test_documentation_says_how_it_was_made(archive: Archive, tmp_path: Path) -> None:
    study.sample(archive, SampleOptions(captures=30, by=("site", "time"), unit="year", seed="s 1"), tmp_path / "sample")
    text = (tmp_path / "sample" / "README.md").read_text()
    for part in (
        "30 captures",
        "Strata: site, time; times by year.",
        "Seed: `s 1`",
        "--again manifest.json",
        "| site |",
    ):
        assert part in text
    assert str(tmp_path) not in text


# -- impossible samples ------------------------------------------------------------------------------------------------


def test_impossible_samples_are_refused(archive: Archive, good: list[Fact], tmp_path: Path) -> None:
    total = sum(len(fact.body) for fact in good)
    for options, message in (
        ({"captures": len(good) + 1}, f"impossible: there are {len(good)}"),
        ({"bytes_max": total + 1}, f"impossible: there are {total:,}"),
        ({"bytes_max": 10}, "the first capture of the sample has more than 10 bytes"),
        ({"captures": 5, "within": "unicorn"}, "nothing to draw from: .* that 'unicorn' finds"),
    ):
        with pytest.raises(UsageError, match=message):
            study.sample(archive, SampleOptions(**options), tmp_path / "sample")
        assert list(tmp_path.iterdir()) == []
    study.sample(archive, SampleOptions(captures=len(good)), tmp_path / "all")
    with pytest.raises(UsageError, match="exists already"):
        study.sample(archive, SampleOptions(captures=5), tmp_path / "all")
    with pytest.raises(UnknownCollection):
        study.sample(archive, SampleOptions(captures=5, collection="nowhere"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, UsageError),
        ({"captures": 1, "bytes_max": 1}, UsageError),
        ({"captures": -1}, UsageError),
        ({"captures": 1, "by": ("moon",)}, UnknownName),
        ({"captures": 1, "by": ("site", "site")}, UsageError),
        ({"captures": 1, "by": ("topic",)}, UsageError),
        ({"captures": 1, "topics": ("a",)}, UsageError),
        ({"captures": 1, "allocation": "fair"}, UnknownName),
        ({"captures": 1, "format": "zip"}, UnknownName),
        ({"captures": 1, "unit": "hour"}, UnknownName),
        ({"captures": 1, "seed": ""}, UsageError),
        ({"captures": "ten"}, UsageError),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        SampleOptions(**options)


def test_an_empty_archive_one_capture_and_one_without_a_date(tmp_path: Path) -> None:
    with made(tmp_path / "archive") as archive:
        with pytest.raises(UsageError, match="nothing to draw from"):
            study.sample(archive, SampleOptions(captures=1))
        with pytest.raises(IndexNotFound):
            study.sample(archive, SampleOptions(captures=1, within="tide"))
        (tmp_path / "undated.warc").write_bytes(undated_warc("http://a.example/", b"hello " * 100))
        archive.import_files(tmp_path / "undated.warc")
        result = study.sample(archive, SampleOptions(captures=1, by=("time",)), tmp_path / "sample")
    assert [row["stratum"] for row in result.rows("strata")] == ["undated"]
    assert all(row["total_variation"] == 0 for row in result.rows("distances"))


def test_manifests_that_are_none(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    for path in (tmp_path / "manifest.json", tmp_path / "missing", tmp_path, tmp_path / ("long" * 100)):
        with pytest.raises(UsageError):
            study.sample_again(archive, path, tmp_path / "sample")
    assert not (tmp_path / "sample").exists()
