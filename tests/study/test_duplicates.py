"""The study of duplicates against brute force on generated archives (W16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from generated import BruteForce, Fact, add, crawls_with_duplicates, made, revisit, undated_warc

import holdfast
from holdfast import study
from holdfast.archive import Archive
from holdfast.errors import UnknownCollection, UnknownName, UsageError
from holdfast.model import Capture
from holdfast.study.duplicate_study import DuplicateStudy
from holdfast.study.engine.run import finished_result, partial_result
from holdfast.study.engine.scan import StudySource


def same(found: dict[str, Any], wanted: dict[str, object]) -> None:
    assert {name: found[name] for name in wanted} == {
        name: pytest.approx(value) if isinstance(value, float) else value for name, value in wanted.items()
    }


def check(result: study.StudyResult, truth: BruteForce) -> None:
    """Every figure of the result."""
    assert [row["group"] for row in result.rows()] == truth.groups
    for row in result.rows():
        same(row, truth.row(row["group"]))
    pairs = {(row["group"], row["before"]): (row["documents"], row["urls"]) for row in result.rows("pairs")}
    places = range(len(truth.groups))
    wanted = {(truth.groups[a], truth.groups[b]) for a in places for b in range(a)}
    assert pairs == {pair: truth.pair(*pair) for pair in wanted}
    for column in ("host", "type"):
        found = {row[column]: (row["documents"], row["duplicates"]) for row in result.rows(f"{column}s")}
        assert found == truth.shares(column)
    sizes = {(row["group"], row["from_bytes"]): row["documents"] for row in result.rows("sizes")}
    bins: dict[tuple[str, int], int] = {}
    for fact in truth.facts:
        key = fact.batch, 1 << (len(fact.body).bit_length() - 1)
        bins[key] = bins.get(key, 0) + 1
    assert sizes == bins
    (saved,) = result.rows("saved")
    assert saved["documents"] == len(truth.facts)
    assert saved["contents"] == len({fact.body for fact in truth.facts})
    assert saved["unique_bytes"] == sum(map(len, {fact.body for fact in truth.facts}))


@pytest.mark.parametrize("seed", range(3))
def test_all_figures_are_those_of_brute_force(tmp_path: Path, seed: int) -> None:
    facts = crawls_with_duplicates(seed)
    with made(tmp_path / "archive") as archive:
        add(archive, facts)
        check(study.duplicates(archive), BruteForce(facts))


def test_table_1_stands_beside_the_figures_of_the_paper(tmp_path: Path) -> None:
    facts = crawls_with_duplicates(9, batches=2)
    with made(tmp_path / "archive") as archive:
        add(archive, facts)
        result = study.duplicates(archive)
    rows = result.rows("paper")
    assert [row["crawl"] for row in rows] == list("12345")
    for row, own in zip(rows, result.rows(), strict=False):
        assert all(row[name] == own[name] for name in ("group", "date", "urls", "within", "previous", "urls_previous"))
    assert rows[2]["group"] is None
    theirs = [value for name, value in rows[4].items() if name.startswith("paper_")]
    assert theirs == ["2004-06", 4_400_000, 0.067, 0.181, 0.32]
    assert rows[0]["paper_previous"] is None and rows[1]["paper_previous"] == 0.074
    assert [panel.x_label for panel in result.panels][2] == "earlier batch"  # Figure 1


def test_partial_results_of_two_archives_merge_to_that_of_one(tmp_path: Path) -> None:
    """As in a cluster: each host is on one node, contents are on both."""
    facts = crawls_with_duplicates(7)
    parts = [[fact for fact in facts if (fact.host < "site3") == is_first] for is_first in (True, False)]
    directories = []
    for number, part in enumerate(parts):
        with made(tmp_path / f"node{number}") as archive:
            add(archive, part)
            directories.append(tmp_path / f"partial{number}")
            directories[-1].mkdir()
            partial_result(DuplicateStudy(), StudySource(archive), directories[-1])
    check(finished_result(DuplicateStudy(), directories), BruteForce(facts))


def test_elimination_keeps_each_large_content_once_and_small_ones_with_their_records(tmp_path: Path) -> None:
    large, small = b"x" * 100_000, b"y" * 100
    with made(tmp_path / "archive") as archive:
        urls = [f"http://a.example/{number}" for number in range(4)]
        add(archive, [Fact("one", url, "20200101000000", large) for url in urls])
        add(archive, [Fact("one", f"{url}/s", "20200101000000", small) for url in urls])
        (saved,) = study.duplicates(archive).rows("saved")
    assert (saved["bytes"], saved["unique_bytes"]) == (400_400, 100_100)
    assert saved["kept_bytes"] == 100_400
    assert saved["saved_bytes"] == 300_000


def test_a_revisit_counts_as_its_original(tmp_path: Path) -> None:
    """A second visit of a page that did not change is a duplicate of the first, with its size and type."""
    from holdfast.archive.ingest.exchange import page

    body = b"<p>The harbour opens at nine." * 20
    with made(tmp_path / "archive") as archive:
        archive.add([page("http://a.example/", body, timestamp="20200101000000")], batch="one")
        (tmp_path / "again.warc").write_bytes(revisit("http://a.example/", "2020-02-01T00:00:00Z", body))
        archive.import_files(tmp_path / "again.warc", holdfast.ImportOptions(batch="two"))
        result = study.duplicates(archive)
    assert [(row["documents"], row["previous"]) for row in result.rows()] == [(1, None), (1, 1.0)]
    assert result.rows("types") == [
        {"type": "html", "documents": 2, "duplicates": 1, "share": 0.5, "bytes": 2 * len(body)}
        | {"duplicate_bytes": len(body)}
    ]


def test_groups_are_collections_too(tmp_path: Path) -> None:
    facts = crawls_with_duplicates(5, batches=2)
    moved = [
        Fact("all", fact.url, fact.timestamp, fact.body, fact.mime, fact.status, collection=fact.batch)
        for fact in facts
    ]
    with made(tmp_path / "archive") as archive:
        add(archive, moved)
        check(study.duplicates(archive, by="collection"), BruteForce(facts))
        (row,) = study.duplicates(archive, collection="crawl-1").rows()
        assert row["captures"] == sum(fact.batch == "crawl-1" for fact in facts)


def test_only_successful_responses_on_request(tmp_path: Path) -> None:
    facts = crawls_with_duplicates(6)
    good = [fact for fact in facts if fact.status == 200]
    assert len(good) < len(facts)
    with made(tmp_path / "archive") as archive:
        add(archive, facts)
        check(study.duplicates(archive, successful=True), BruteForce(good))


def test_what_access_rules_hide_is_not_counted(tmp_path: Path) -> None:
    facts = crawls_with_duplicates(8)
    with made(tmp_path / "archive") as archive:
        add(archive, facts)

        def permits(capture: Capture) -> bool:
            return "site1.example" not in capture.url

        check(study.duplicates(archive, permits=permits), BruteForce([f for f in facts if f.host != "site1.example"]))


# -- little or nothing -------------------------------------------------------------------------------------------------


@pytest.fixture
def empty(tmp_path: Path) -> Archive:
    return made(tmp_path / "archive")


def test_an_empty_archive_has_nothing_to_study(empty: Archive) -> None:
    with empty:
        result = study.duplicates(empty)
    assert (result.rows(), list(result.panels)) == ([], [])
    assert result.notes == ["there are no captures to study"]


def test_one_capture(empty: Archive) -> None:
    with empty:
        add(empty, [Fact("one", "http://a.example/", "20200101000000", b"alone" * 100)])
        result = study.duplicates(empty)
    same(result.rows()[0], {"captures": 1, "within": 0.0, "previous": None, "urls_previous": None})
    assert result.notes == ["there is only one batch: nothing to compare it with"]


def test_a_capture_without_payload_is_a_url_and_not_a_document(empty: Archive) -> None:
    with empty:
        add(empty, [Fact("one", "http://a.example/", "20200101000000", b"", status=301)])
        result = study.duplicates(empty)
    same(result.rows()[0], {"captures": 1, "urls": 1, "documents": 0, "within": None})


def test_captures_without_dates_count_and_are_noted(empty: Archive, tmp_path: Path) -> None:
    (tmp_path / "undated.warc").write_bytes(undated_warc("http://a.example/", b"hello"))
    with empty:
        empty.import_files(tmp_path / "undated.warc")
        result = study.duplicates(empty)
    assert result.rows()[0]["date"] is None
    assert result.rows()[0]["documents"] == 1
    assert "captures without a date: 1" in result.notes[0]


def test_wrong_arguments_are_refused(empty: Archive) -> None:
    with empty:
        with pytest.raises(UnknownName, match="cannot group by 'moon': one of batch, collection, crawl"):
            study.duplicates(empty, by="moon")
        with pytest.raises(UnknownCollection):
            study.duplicates(empty, collection="nowhere")
        with pytest.raises(UsageError):
            study.duplicates("archive")  # type: ignore[arg-type]
