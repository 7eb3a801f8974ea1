"""`holdfast search` and `holdfast sql`: what the index finds, printed and written to files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from program import Shell
from pyarrow import feather, parquet

from holdfast.cli.search import FACETS, SORTS
from holdfast.errors import Denied, IndexNotFound, MalformedQuery
from holdfast.query import answers

COUNTED = "SELECT host, count(*) AS n FROM captures GROUP BY host ORDER BY n DESC, host"


@pytest.fixture(scope="module")
def indexed(filled_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The pages of `warcs.PAGES`, indexed; only to be looked at."""
    directory = tmp_path_factory.mktemp("indexed")
    shutil.copytree(filled_archive, directory, dirs_exist_ok=True)
    shell = Shell(directory)
    shell.quick("index", "update")
    return shell


def test_choices_are_those_of_the_library() -> None:
    assert SORTS == answers.SORTS
    assert FACETS == answers.FACETS


def test_without_an_index_it_is_told_how_to_make_one(shown: Shell) -> None:
    for command in (("search", "a"), ("sql", "SELECT 1")):
        result = shown.quick(*command, code=IndexNotFound.exit_code)
        assert "holdfast index update" in result.errors


def test_hits_are_shown_and_told(indexed: Shell) -> None:
    result = indexed.quick("search", "site:example.com", "--limit", "2", "--sort", "oldest")
    assert result.errors == "4 captures for site:example.com, 1-2 by oldest\n"
    found = [line.split()[1] for line in result.lines if not line.startswith(" ")]
    assert found == ["http://example.com/", "http://example.com/about"]
    *hits, summary = (json.loads(line) for line in indexed.quick("search", "--json", "site:example.com").lines)
    assert summary == {"query": "site:example.com", "sort": "newest", "total": 4, "offset": 0, "pending": 0}
    assert {hit["url"] for hit in hits} >= {"http://example.com/", "http://example.com/about"}
    assert all(hit["record"].count("-") and "snippet" in hit for hit in hits)


def test_counts_are_shown(indexed: Shell) -> None:
    result = indexed.quick("search", "--limit", "0", "--facets", "site,status", "--timeline")
    assert result.lines[0].split() == ["site", "captures"]
    assert result.lines[1].split() == ["example.com", "4"]
    assert "status" in result.text and "month" in result.text
    summary = json.loads(indexed.quick("search", "--limit", "0", "--facets", "all", "--json").text)
    assert set(summary["facets"]) == set(FACETS)
    indexed.quick("search", "--facets", "sites", code=2)


def test_a_malformed_query_is_told(indexed: Shell) -> None:
    result = indexed.quick("search", "titel:a", code=MalformedQuery.exit_code)
    assert "did you mean 'title'?" in result.errors
    indexed.quick("search", "--limit", "-1", "a", code=MalformedQuery.exit_code)


def test_rows_are_printed(indexed: Shell) -> None:
    result = indexed.quick("sql", COUNTED)
    assert [line.split() for line in result.lines] == [["host", "n"], ["example.com", "4"], ["other.org", "1"]]
    assert result.errors == "2 rows\n"
    result = indexed.quick("sql", COUNTED, "--rows", "1")
    assert len(result.lines) == 2
    assert "the first 1 rows" in result.errors
    objects = [json.loads(line) for line in indexed.quick("sql", COUNTED, "--json").lines]
    assert objects == [{"host": "example.com", "n": 4}, {"host": "other.org", "n": 1}]
    found = list(csv.reader(indexed.quick("sql", COUNTED, "--csv").lines))
    assert found == [["host", "n"], ["example.com", "4"], ["other.org", "1"]]


def test_values_of_every_kind_are_printed(indexed: Shell) -> None:
    statement = (
        "SELECT sum(1) AS s, 1.5::DECIMAL(5,2) AS d, DATE '2020-01-02' AS t, 'ab'::BLOB AS b, [1] AS l, NULL AS n"
    )
    (row,) = [json.loads(line) for line in indexed.quick("sql", statement, "--json").lines]
    assert row == {"s": 1, "d": 1.5, "t": "2020-01-02", "b": "6162", "l": [1], "n": None}


def test_rows_are_written_to_files(indexed: Shell, tmp_path: Path) -> None:
    indexed.quick("sql", COUNTED, "--parquet", tmp_path / "a.parquet")
    indexed.quick("sql", COUNTED, "--arrow", tmp_path / "a.arrow")
    wanted = [{"host": "example.com", "n": 4}, {"host": "other.org", "n": 1}]
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == wanted
    assert feather.read_table(tmp_path / "a.arrow").to_pylist() == wanted
    failed = "SELECT CASE WHEN range < 100000 THEN range ELSE error('no') END FROM range(100001)"
    indexed.quick("sql", failed, "--parquet", tmp_path / "b.parquet", code=MalformedQuery.exit_code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "a.parquet"]


def test_statements_that_write_are_refused(indexed: Shell, tmp_path: Path) -> None:
    reading, writing = "SELECT * FROM read_text('/etc/fstab')", f"COPY captures TO '{tmp_path}/out'"
    for statement in ("DELETE FROM captures", reading, writing):
        assert "SQL only reads here" in indexed.quick("sql", statement, code=Denied.exit_code).errors
    assert list(tmp_path.iterdir()) == []
    indexed.quick("sql", "SELECT 1", "--json", "--csv", code=2)
