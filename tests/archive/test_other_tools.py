"""Other people's tools read what the archive exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from archive_warcs import exchange, response, write

import holdfast
from holdfast import CaptureQuery, ExportOptions, Selection

URLS = ("http://www.example.com/", "http://example.com/b?z=1&a=2", "https://example.org/c")


@pytest.fixture
def exported(quick: Path) -> Path:
    records = [part for url in URLS for part in exchange(url, url.encode() * 20)]
    write(quick / "in.warc.gz", [*records, response("http://example.net/", b"alone")], "gzip")
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        (report,) = archive.import_files([quick / "in.warc.gz"])
        assert report.findings == []
        archive.export(Selection(), quick / "out.warc.gz", ExportOptions("warc.gz"))
    return quick / "out.warc.gz"


def run(*command: str) -> str:
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout


def test_warcio_finds_every_digest_right(exported: Path) -> None:
    assert run("-m", "warcio.cli", "check", str(exported)) == ""


def test_fastwarc_counts_the_same(exported: Path) -> None:
    pytest.importorskip("fastwarc")
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    with exported.open("rb") as file:
        found = [record.headers["WARC-Target-URI"] for record in ArchiveIterator(file, WarcRecordType.response)]
    assert sorted(found) == sorted([*URLS, "http://example.net/"])


def test_cdxj_indexer_gives_the_rows_of_the_catalog(exported: Path) -> None:
    pytest.importorskip("cdxj_indexer")
    lines = run("-c", "from cdxj_indexer.main import main; main()", str(exported)).splitlines()
    theirs = [(*line.split(" ", 2)[:2], json.loads(line.split(" ", 2)[2])) for line in lines]
    with holdfast.open(exported.parent / "archive", read_only=True) as archive:
        ours = [row.capture for row in archive.search(CaptureQuery(url="*"))]
    assert sorted((key, time, row["digest"], row["mime"], row["status"]) for key, time, row in theirs) == sorted(
        (each.urlkey, each.timestamp, each.digest, each.mime, each.status) for each in ours
    )
