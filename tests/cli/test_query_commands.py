"""`holdfast search` and `holdfast sql`: what the index finds, printed and written to files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from program import Shell
from pyarrow import feather, parquet

import holdfast
from holdfast.cli.search import FACETS, SORTS
from holdfast.errors import Denied, IndexNotFound, MalformedQuery, UnknownCollection
from holdfast.query import results

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
    assert SORTS == results.SORTS
    assert FACETS == results.FACETS


def test_without_an_index_it_is_told_how_to_make_one(shown: Shell) -> None:
    for command in (("search", "a"), ("sql", "SELECT 1")):
        result = shown.quick(*command, code=IndexNotFound.exit_code)
        assert "holdfast index update" in result.errors


def test_hits_are_shown_and_told(indexed: Shell) -> None:
    result = indexed.quick("search", "site:example.com", "--limit", "2", "--sort", "oldest")
    assert result.errors == "3 pages (4 captures) for site:example.com, 1-2 by oldest\n"
    found = [line.split()[1] for line in result.lines if not line.startswith(" ")]
    assert found == ["http://example.com/", "http://example.com/about"]
    *hits, summary = (json.loads(line) for line in indexed.quick("search", "--json", "site:example.com").lines)
    assert summary == {
        "query": "site:example.com",
        "sort": "newest",
        "group": "page",
        "total": 3,
        "captures": 4,
        "is_exact": True,
        "offset": 0,
        "pending": 0,
    }
    assert {hit["url"] for hit in hits} >= {"http://example.com/", "http://example.com/about"}
    assert all(hit["record"].count("-") and "snippet" in hit for hit in hits)


def test_hits_are_pages_texts_or_captures(indexed: Shell) -> None:
    """P9, N11."""
    grouped = indexed.quick("search", "site:example.com", "--no-snippets")
    assert [line for line in grouped.lines if line.endswith("(2 captures)")]
    every = indexed.quick("search", "site:example.com", "--group", "capture")
    assert every.errors.startswith("4 captures for")
    assert len([line for line in every.lines if not line.startswith(" ")]) == 4
    texts = indexed.quick("search", "site:example.com", "--group", "text")
    assert "(4 captures)" in texts.errors
    indexed.quick("search", "a", "--group", "site", code=2)


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
    result = indexed.quick("search", "size>99999999T", code=MalformedQuery.exit_code)
    assert "give less than 8388608T" in result.errors
    for query in ("size>8388607T", "size<8388607T", "size:8388607T", "size<=9223372036854775807"):
        indexed.quick("search", query)


@pytest.mark.parametrize("command", [("search", "a"), ("cdx", "example.com"), ("stream",), ("stream", "a")])
def test_an_unknown_collection_is_told(indexed: Shell, command: tuple[str, ...]) -> None:
    result = indexed.quick(*command, "-c", "nope", code=UnknownCollection.exit_code)
    assert result.errors == "holdfast: no collection 'nope': known are main\n"
    assert result.output == b""
    indexed.quick(*command, "-c", "main")


def test_an_archive_without_captures_has_its_collection(archive: Shell) -> None:
    archive.quick("index", "update")
    for command in (("search", "a"), ("cdx", "example.com"), ("stream",)):
        assert archive.quick(*command, "-c", "main").output == b""
        archive.quick(*command, "-c", "nope", code=UnknownCollection.exit_code)


def test_a_host_with_a_port_needs_no_scheme(archive: Shell) -> None:
    with holdfast.open(archive.directory) as opened:
        opened.add(
            [
                holdfast.page("http://x.org:8080/", b"<title>whales</title>"),
                holdfast.page("http://y.org/", b"<a href='http://x.org:8080/'>there</a>"),
            ]
        )
    archive.quick("index", "update")
    for query, url in (("url:x.org:8080", "http://x.org:8080/"), ("links-to:x.org:8080/", "http://y.org/")):
        *hits, summary = archive.quick("search", "--json", query).objects
        assert [hit["url"] for hit in hits] == [url]
        assert summary["query"] == query.replace("x.org", "http://x.org")
    assert [each["url"] for each in archive.quick("cdx", "x.org:8080", "--json").objects] == ["http://x.org:8080/"]
    assert [each["url"] for each in archive.quick("stream", "--url", "x.org:8080/*").objects] == ["http://x.org:8080/"]
    assert archive.quick("get", "x.org:8080").output == b"<title>whales</title>"


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


def test_numbers_that_json_does_not_have_are_null(indexed: Shell) -> None:
    statement = "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE, 1.5::DOUBLE] AS b, {'c': '-inf'::FLOAT} AS d"
    (line,) = indexed.quick("sql", statement, "--json").lines
    assert json.loads(line, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5], "d": {"c": None}}
    assert indexed.quick("sql", "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b", "--csv").lines == ["a,b", "nan,inf"]


def test_rows_are_written_to_files(indexed: Shell, tmp_path: Path) -> None:
    indexed.quick("sql", COUNTED, "-o", tmp_path / "a.parquet")
    indexed.quick("sql", COUNTED, "-o", tmp_path / "a.arrow")
    wanted = [{"host": "example.com", "n": 4}, {"host": "other.org", "n": 1}]
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == wanted
    assert feather.read_table(tmp_path / "a.arrow").to_pylist() == wanted
    indexed.quick("sql", COUNTED, "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "host,n\nexample.com,4\nother.org,1\n"
    indexed.quick("sql", COUNTED, "--format", "jsonl", "-o", tmp_path / "rows")
    assert json.loads((tmp_path / "rows").read_text().splitlines()[0]) == wanted[0]
    for wrong in (["-o", tmp_path / "a.doc"], ["--format", "parquet"], ["--format", "csv", "--json"]):
        assert "format" in indexed.quick("sql", COUNTED, *wrong, code=2).errors or wrong[1] == "parquet"
    failed = "SELECT CASE WHEN range < 100000 THEN range ELSE error('no') END FROM range(100001)"
    indexed.quick("sql", failed, "--format", "parquet", "-o", tmp_path / "b.parquet", code=MalformedQuery.exit_code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.arrow", "a.csv", "a.parquet", "rows"]


def test_statements_that_write_are_refused(indexed: Shell, tmp_path: Path) -> None:
    reading, writing = "SELECT * FROM read_text('/etc/fstab')", f"COPY captures TO '{tmp_path}/out'"
    for statement in ("DELETE FROM captures", reading, writing):
        assert "SQL only reads here" in indexed.quick("sql", statement, code=Denied.exit_code).errors
    assert list(tmp_path.iterdir()) == []
    indexed.quick("sql", "SELECT 1", "--json", "--csv", code=2)
