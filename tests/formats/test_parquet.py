"""The Parquet export: DuckDB reads it, and finds Common Crawl's columns and the values in them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.formats.parquet import COLUMNS, ParquetCatalogWriter
from holdfast.model import Capture, RecordId

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
duckdb = pytest.importorskip("duckdb", reason="needs the extra 'test'")

CAPTURE = Capture(
    urlkey="uk,co,bbc,www)/news?a=b",
    timestamp="20200102030405",
    url="https://www.bbc.co.uk:8443/news?a=b",
    mime="text/html",
    status="200",
    digest="sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    length=1043,
    offset=5 << 32,
    filename="a.warc.gz",
    type="response",
    size=12,
    contents="v0:ab",
    record=RecordId("202001", 7),
    collection="main",
    extra='{"charset": "UTF-8", "languages": "eng", "redirect": "http://x/"}',
)


def rows_of(path: Path, captures: list[Capture], row_group: int = 65_536) -> list[dict[str, Any]]:
    with ParquetCatalogWriter(path / "a.parquet", row_group) as writer:
        writer.add(captures)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        cursor = connection.execute(f"select * replace (epoch_ms(fetch_time) as fetch_time) from '{path}/a.parquet'")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def test_columns_and_values(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, [CAPTURE])
    assert list(row) == [name for name, _, _ in COLUMNS]
    assert row.pop("fetch_time") == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp() * 1000
    assert row == {
        "url_surtkey": "uk,co,bbc,www)/news?a=b",
        "url": "https://www.bbc.co.uk:8443/news?a=b",
        "url_host_name": "www.bbc.co.uk",
        "url_host_tld": "uk",
        "url_host_2nd_last_part": "co",
        "url_host_3rd_last_part": "bbc",
        "url_host_4th_last_part": "www",
        "url_host_5th_last_part": None,
        "url_host_registry_suffix": "co.uk",
        "url_host_registered_domain": "bbc.co.uk",
        "url_host_private_suffix": "co.uk",
        "url_host_private_domain": "bbc.co.uk",
        "url_host_name_reversed": "uk.co.bbc.www",
        "url_protocol": "https",
        "url_port": 8443,
        "url_path": "/news",
        "url_query": "a=b",
        "fetch_status": 200,
        "fetch_redirect": "http://x/",
        "content_digest": "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
        "content_mime_type": "text/html",
        "content_mime_detected": None,
        "content_charset": "UTF-8",
        "content_languages": "eng",
        "content_truncated": None,
        "warc_filename": "a.warc.gz",
        "warc_record_offset": 5 << 32,
        "warc_record_length": 1043,
        "warc_segment": "202001",
        "crawl": "main",
        "subset": "warc",
        "contentkey": "v0:ab",
        "record": "202001-0000000007",
    }


def test_types_are_common_crawls() -> None:
    kinds = {name: kind for name, kind, _ in COLUMNS}
    assert (kinds["fetch_time"], kinds["fetch_status"], kinds["url_port"]) == ("timestamp", "int16", "int32")


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    bare = CAPTURE._replace(url="dns:x", mime="-", status="-", digest="-", contents="-", timestamp="0", extra="-")
    (row,) = rows_of(tmp_path, [bare])
    empty = ("content_digest", "content_mime_type", "fetch_status", "fetch_time", "contentkey", "url_host_tld")
    assert {name: row[name] for name in empty} == dict.fromkeys(empty)


@pytest.mark.parametrize(
    ("url", "host", "domain", "private"),
    [
        ("http://192.168.0.1:80/", "192.168.0.1", None, None),
        ("http://[::1]:80/", "[::1]", None, None),
        ("http://a.blogspot.com/", "a.blogspot.com", "blogspot.com", "a.blogspot.com"),
        ("http://[broken/", "", None, None),
        ("", "", None, None),
    ],
)
def test_hosts(tmp_path: Path, url: str, host: str, domain: str | None, private: str | None) -> None:
    (row,) = rows_of(tmp_path, [CAPTURE._replace(url=url)])
    assert (row["url_host_name"], row["url_host_registered_domain"], row["url_host_private_domain"]) == (
        host,
        domain,
        private,
    )


def test_subsets_and_row_groups(tmp_path: Path) -> None:
    captures = [
        CAPTURE._replace(url="http://a/robots.txt"),
        CAPTURE._replace(status="404"),
        CAPTURE._replace(status="-"),
    ]
    rows = rows_of(tmp_path, captures, row_group=2)
    assert [row["subset"] for row in rows] == ["robotstxt", "crawldiagnostics", "warc"]
    import pyarrow.parquet

    assert pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups == 2
