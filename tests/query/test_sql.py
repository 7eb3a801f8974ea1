"""SQL: the tables hold what the archive holds, and nothing but them can be reached, whatever is tried."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from query_archive import Asked
from waiting import wait_until

import holdfast
from holdfast import CaptureQuery
from holdfast.errors import Denied, HoldfastError, MalformedQuery, TooLarge
from holdfast.query.sql.statement import CHARACTERS_MAX
from holdfast.urls import url_key

SECRET = "do not show this"


def rows(asked: Asked, text: str, *parameters: object) -> list[dict[str, object]]:
    return list(asked.archive.sql(text, parameters))


def test_every_capture_and_link_is_a_row(asked: Asked) -> None:
    captures = [row.capture for row in asked.archive.search(CaptureQuery(url="*"))]
    found = rows(asked, "SELECT record, url, timestamp, collection FROM captures")
    wanted = [(str(each.record), each.url, each.timestamp, each.collection) for each in captures]
    assert sorted(tuple(each.values()) for each in found) == sorted(wanted)
    links = rows(asked, "SELECT DISTINCT batch, serial, target_key FROM links")
    assert len(links) == sum(len(each.links) for each in asked.documents)


def test_a_page_is_the_newest_capture_of_its_url(asked: Asked) -> None:
    newest = {each.urlkey: each for each in sorted(asked.documents, key=lambda each: (each.timestamp, each.record))}
    found = {
        str(each["urlkey"]): each for each in rows(asked, "SELECT urlkey, record, rank, inlinks, title FROM pages")
    }
    assert found.keys() == newest.keys()
    for key, document in newest.items():
        told = found[key]
        assert (told["record"], told["title"] or "") == (str(document.record), document.raw_title)
        assert (told["rank"], told["inlinks"]) == (document.rank, document.inlinks)


def test_contents_are_those_of_the_store(asked: Asked) -> None:
    stored = [each for some in asked.archive.contents.listing() for each in some]
    found = rows(asked, 'SELECT contentkey, size, stored_size, "references" FROM contents')
    wanted = [(str(each.key), each.size, each.stored_size, each.references) for each in stored]
    assert sorted(tuple(each.values()) for each in found) == sorted(wanted)
    joined = rows(asked, "SELECT count(*) AS n FROM captures JOIN contents ON captures.contents = contents.contentkey")
    assert joined == [{"n": len(asked.documents)}]


def test_tables_are_joined_by_numbers(asked: Asked) -> None:
    """The example of the paper, in SQL."""
    statement = """
        SELECT DISTINCT captures.record FROM captures JOIN links USING (number)
        WHERE title ILIKE ? AND target_key = ?
    """
    key = url_key("http://www-db.stanford.edu/")
    wanted = {str(each.record) for each in asked.documents if "stanford" in each.raw_title and key in each.links}
    assert {each["record"] for each in rows(asked, statement, "%stanford%", key)} == wanted != set()


def test_an_answer_is_arrow(asked: Asked) -> None:
    statement = "SELECT host, count(*) AS n FROM captures GROUP BY host"
    wanted = Counter(each.host for each in asked.documents)
    table = asked.archive.sql(statement).table()
    assert isinstance(table, pyarrow.Table)
    assert dict(zip(table["host"].to_pylist(), table["n"].to_pylist(), strict=True)) == wanted
    with asked.archive.sql(statement) as answer:
        assert answer.schema.names == ["host", "n"]
        assert answer.reader().read_all().num_rows == len(wanted)
    assert asked.archive.sql("SELECT url FROM captures WHERE false").table().num_rows == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DESCRIBE captures",
        "SHOW TABLES",
        "SUMMARIZE SELECT size FROM captures",
        "FROM pages LIMIT 1",
        "VALUES (1)",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t",
        "WITH captures AS (SELECT 1 AS a) SELECT a FROM captures",
        "WITH ranks AS (SELECT 1), removed AS (SELECT 2), tables AS (SELECT 3) SELECT * FROM ranks, removed, tables",
        "WITH größe_1 AS (SELECT 1) SELECT * FROM Größe_1",
        "SELECT * FROM range(3), unnest([1, 2])",
        "SELECT lower(url), row_number() OVER (PARTITION BY host) FROM captures;",
        "(SELECT 1) UNION (SELECT 2) ORDER BY 1",
        "-- a remark\nSELECT count(*) FROM Captures",
    ],
)
def test_what_only_reads_is_run(asked: Asked, statement: str) -> None:
    assert rows(asked, statement)


def test_a_query_may_have_the_name_of_a_table(asked: Asked) -> None:
    """The table is read where the name does not mean the query."""
    (wanted,) = rows(asked, "SELECT count(*) AS n FROM contents WHERE size > 1")
    assert wanted["n"]
    own = "WITH contents AS (SELECT * FROM contents WHERE size > 1) SELECT count(*) AS n FROM contents"
    assert rows(asked, own) == [wanted]
    (ranked,) = rows(asked, "SELECT sum(rank) AS rank, sum(inlinks) AS inlinks FROM pages")
    assert ranked["rank"]
    own = "WITH pages AS (SELECT * FROM pages) SELECT sum(rank) AS rank, sum(inlinks) AS inlinks FROM pages"
    assert rows(asked, own) == [ranked]
    assert rows(asked, "SELECT count(*) AS n FROM (WITH contents AS (SELECT 1) SELECT 1), contents WHERE size > 1") == [
        wanted
    ]


def test_the_tables_that_can_be_read_are_listed(asked: Asked, tmp_path: Path) -> None:
    wanted = [{"name": name} for name in ("captures", "contents", "links", "pages")]
    assert rows(asked, "SHOW TABLES") == wanted
    assert rows(asked, "show tables;") == wanted
    holdfast.init(tmp_path / "empty")
    with holdfast.open(tmp_path / "empty") as archive:
        archive.index.update()
        assert list(archive.sql("SHOW TABLES")) == wanted
        for each in wanted:
            assert list(archive.sql(f"SELECT count(*) AS n FROM {each['name']}")) == [{"n": 0}]


# -- what must not be --------------------------------------------------------------------------------------------------


@contextmanager
def unchanged(directory: Path) -> Iterator[None]:
    """Nothing below the directory is made, changed or removed."""
    before = _files(directory)
    yield
    assert _files(directory) == before


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file() and path.name != "LOG"  # in which RocksDB notes what it pleases
    }


HOSTILE = [
    "COPY captures TO '{there}/out.csv'",
    "COPY (SELECT 1) TO '{there}/out.parquet'",
    "COPY captures FROM '{there}/secret.csv'",
    "EXPORT DATABASE '{there}/exported'",
    "IMPORT DATABASE '{there}/exported'",
    "ATTACH '{there}/other.db'",
    "ATTACH ':memory:' AS other",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{there}/code.so'",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "SET allowed_directories = ['/']",
    "RESET lock_configuration",
    "SET VARIABLE a = 1",
    "CREATE TABLE t (a INT)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE OR REPLACE VIEW captures AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE SECRET s (TYPE s3)",
    "INSERT INTO captures VALUES (1)",
    "UPDATE captures SET url = ''",
    "DELETE FROM captures",
    "TRUNCATE captures",
    "DROP VIEW captures",
    "ALTER VIEW captures RENAME TO gone",
    "MERGE INTO contents USING captures ON true WHEN MATCHED THEN DELETE",
    "COMMENT ON VIEW captures IS 'mine'",
    "BEGIN",
    "CHECKPOINT",
    "VACUUM",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN ANALYZE SELECT 1",
    "WITH gone AS (DELETE FROM contents RETURNING *) SELECT * FROM gone",
    "WITH x AS (INSERT INTO contents VALUES ('a', 'b', 'c', 1, 1, 1) RETURNING *) SELECT * FROM x",
    "SELECT * FROM '{there}/secret.csv'",
    'SELECT * FROM "{there}/secret.csv"',
    "SELECT * FROM read_csv('{there}/secret.csv')",
    "SELECT * FROM read_csv_auto('{there}/secret.csv')",
    "SELECT * FROM read_text('{there}/secret.csv')",
    "SELECT * FROM read_blob('{there}/*')",
    "SELECT * FROM read_json('{there}/secret.csv')",
    "SELECT * FROM read_parquet('{table}')",
    "SELECT * FROM parquet_metadata('{table}')",
    "SELECT * FROM '{table}'",
    'SELECT a.url FROM (WITH "{table}" AS (SELECT 1) SELECT 1) t, "{table}" a',
    'WITH "{table}" AS (SELECT * FROM "{table}") SELECT * FROM "{table}"',
    'WITH a AS (SELECT * FROM "{table}"), "{table}" AS (SELECT 1) SELECT * FROM a',
    'WITH "{there}/secret.csv" AS (SELECT 1) SELECT 1',
    "SELECT a.* FROM (WITH duckdb_views AS (SELECT 1) SELECT 1) t, duckdb_views a",
    "WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT * FROM sqlite_master",
    "WITH RECURSIVE pg_class AS (SELECT * FROM pg_class UNION ALL SELECT * FROM pg_class) SELECT * FROM pg_class",
    "SELECT a.* FROM (WITH _holdfast_removed AS (SELECT 1) SELECT 1) t, _holdfast_removed a",
    "SELECT a.* FROM (WITH _HOLDFAST_RANKS AS (SELECT 1) SELECT 1) t, _holdfast_ranks a",
    "SELECT a.* FROM (WITH ranks AS (SELECT 1) SELECT 1) t, ranks a",
    "SELECT a.* FROM (WITH b AS (SELECT 1) SELECT 1) t, b a",
    "WITH __show_tables_expanded AS (SELECT 1) SELECT * FROM (SHOW ALL TABLES)",
    "WITH databases AS (SELECT 1) SELECT * FROM (SHOW DATABASES)",
    "WITH tables AS (SELECT 1) SELECT * FROM (SHOW TABLES)",
    "SELECT * FROM read_parquet('http://127.0.0.1:1/a.parquet')",
    "SELECT * FROM read_parquet('s3://bucket/a.parquet')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('{there}/secret.csv')",
    "SELECT (SELECT content FROM read_text('{there}/secret.csv')) FROM captures",
    "SELECT url FROM captures WHERE url IN (SELECT content FROM read_text('{there}/secret.csv'))",
    "SELECT * FROM captures, LATERAL (SELECT * FROM glob(url))",
    "DESCRIBE SELECT * FROM read_csv('{there}/secret.csv')",
    "SELECT * FROM query('SELECT * FROM read_text(''{there}/secret.csv'')')",
    "SELECT * FROM query_table('captures')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "SELECT * FROM pandas_scan(140000000000000::POINTER)",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_settings",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.captures",
    "SELECT * FROM removed",
    "SELECT * FROM ranks",
    "SELECT * FROM _holdfast_removed",
    "DESCRIBE _holdfast_ranks",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM checkpoint()",
    "SELECT getenv('HOME')",
    "SELECT current_setting('allowed_paths')",
    "SELECT write_log('{secret}')",
    "SELECT nextval('s')",
    "SELECT sleep_ms(1000000)",
    "SELECT * FROM local_table",
    "SELECT * FROM SECRET",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW captures",
    "SELECT 1;; DELETE FROM captures",
    "SHOW DATABASES",
    "SHOW ALL TABLES",
    "SHOW TABLES FROM main",
    "SELECT * FROM (SHOW TABLES)",
    "",
    ";",
    "SELEC 1",
    "SELECT * FROM",
    "SELECT nothing FROM captures",
    "SELECT no_such_function(url) FROM captures",
    "SELECT \ud800",
]


@pytest.mark.parametrize("statement", HOSTILE)
def test_what_does_more_than_read_is_refused(asked: Asked, scratch: Path, statement: str) -> None:
    there = scratch / "there"
    there.mkdir(exist_ok=True)
    (there / "secret.csv").write_text(SECRET)
    local_table = pyarrow.table({"secret": [SECRET]})  # which a replacement scan would find
    (table, *_) = asked.archive.index.view().table_files("captures")
    text = statement.replace("{there}", str(there)).replace("{table}", str(table)).replace("{secret}", SECRET)
    with unchanged(scratch), pytest.raises((Denied, MalformedQuery)) as caught:
        asked.archive.sql(text).table()
    assert str(caught.value)
    assert SECRET not in str(caught.value)
    assert local_table.num_rows == 1


def test_deep_and_long_statements_are_refused_or_run(asked: Asked) -> None:
    deep = 2000
    for text in (
        "SELECT " + "(" * deep + "1" + ")" * deep,
        "SELECT * FROM " + "(SELECT * FROM " * deep + "captures" + ")" * deep,
        "SELECT " + "NOT " * deep + "true",
        "SELECT 1" + "+1" * deep,
        "SELECT '" + "x" * CHARACTERS_MAX + "'",
    ):
        with pytest.raises(MalformedQuery):
            asked.archive.sql(text).table()


# -- limits ------------------------------------------------------------------------------------------------------------

ENDLESS = "SELECT count(*) FROM range(1000000000000)"


@contextmanager
def limited(asked: Asked, **limits: float) -> Iterator[None]:
    instance = asked.archive.instance
    before = instance.settings
    instance.settings = replace(before, query=replace(before.query, **limits))  # type: ignore[arg-type]
    try:
        yield
    finally:
        instance.settings = before


def test_what_takes_too_long_is_ended(asked: Asked) -> None:
    with limited(asked, sql_seconds_max=0.2), pytest.raises(TooLarge, match=r"longer than 0\.2 s.*sql_seconds_max"):
        asked.archive.sql(ENDLESS).table()


def test_memory_is_limited(asked: Asked, scratch: Path) -> None:
    statement = "SELECT list(range) FROM range(30000000)"
    with (
        limited(asked, sql_memory_bytes=64 << 20, sql_spill_bytes_max=1 << 20, sql_threads=1),
        pytest.raises(TooLarge, match="sql_memory_bytes"),
    ):
        asked.archive.sql(statement).table()


GREEDY = [
    "SELECT repeat('x', 4000000000)",
    "SELECT length(repeat(range::VARCHAR, 4000000000)) FROM range(2)",
    "SELECT len(range(1000000000))",
    "SELECT length(printf('%2000000000d', 1))",
    "SELECT len(list_resize([1], 1000000000, 2))",
    "SELECT length(string_agg(repeat('x', 1000000))) FROM range(4000)",
    "WITH RECURSIVE t(s, n) AS (SELECT 'x', 0 UNION ALL SELECT s || s, n + 1 FROM t WHERE n < 32) "
    "SELECT max(length(s)) FROM t",
]


@pytest.mark.parametrize("statement", GREEDY)
def test_no_function_gets_more_memory_than_is_allowed(asked: Asked, statement: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with limited(asked, sql_memory_bytes=64 << 20, sql_threads=1), pytest.raises(TooLarge, match="sql_memory_bytes"):
        asked.archive.sql(statement).table()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # kilobytes
    assert rows(asked, "SELECT 1 AS one") == [{"one": 1}]


def test_a_function_that_cannot_be_interrupted_is_ended(asked: Asked) -> None:
    statement = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
    with limited(asked, sql_seconds_max=0.2), pytest.raises(TooLarge, match="sql_seconds_max"):
        asked.archive.sql(statement).table()


def test_a_statement_ends_with_its_caller(asked: Asked) -> None:
    """Nothing goes on computing for a process that was killed."""
    code = "import holdfast, sys; holdfast.open(sys.argv[1], read_only=True).sql(sys.argv[2]).table()"
    caller = subprocess.Popen([sys.executable, "-c", code, str(asked.archive.path), ENDLESS])
    try:
        wait_until(lambda: _children(caller.pid), "the statement runs")
        (child,) = _children(caller.pid)
    finally:
        caller.kill()
        caller.wait()
    wait_until(lambda: not _is_running(child), "the statement ends")


def _children(pid: int) -> list[int]:
    """Of its main thread, once one of them has begun to run a statement."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if b"sql.child" in Path(f"/proc/{each}/cmdline").read_bytes()]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("value", [threading.Lock(), lambda: 1, object()], ids=["lock", "function", "object"])
def test_a_parameter_that_is_no_value_is_refused(asked: Asked, value: object) -> None:
    with pytest.raises(MalformedQuery):
        asked.archive.sql("SELECT ?", [value]).table()


def test_what_is_sorted_on_disk_is_gone_afterwards(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    statement = "SELECT range, hash(range) AS h FROM range(3000000) ORDER BY h"
    with limited(asked, sql_memory_bytes=64 << 20, sql_threads=1), asked.archive.sql(statement) as answer:
        assert list(tmp_path.iterdir())
        assert next(answer.batches()).num_rows
    assert list(tmp_path.iterdir()) == []


def test_closing_ends_a_statement(asked: Asked) -> None:
    answer = asked.archive.sql("SELECT range FROM range(1000000000000) WHERE range % 100000000000 = 1 OR range < 1e6")
    threads = threading.active_count()
    assert next(answer.batches()).num_rows
    answer.close()
    answer.close()
    assert threading.active_count() <= threads
    assert rows(asked, "SELECT 1 AS one") == [{"one": 1}]


def test_ctrl_c_ends_a_statement(asked: Asked) -> None:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), 2))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        asked.archive.sql(ENDLESS).table()
    timer.join()
    assert rows(asked, "SELECT 1 AS one") == [{"one": 1}]


def test_a_reader_may_ask_while_the_index_is_written(asked: Asked) -> None:
    with holdfast.open(asked.archive.path, read_only=True) as reader:
        assert reader.sql("SELECT count(*) AS n FROM captures").table()["n"].to_pylist() == [len(asked.documents)]
        with pytest.raises(HoldfastError):
            reader.sql("DELETE FROM captures")
