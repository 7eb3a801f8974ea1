"""Documents that hang, or eat up memory, cost themselves only."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from index_samples import add, exchange, finds, new_archive, pages, reading, rows

from holdfast.index import build

DOCUMENT = "http://example.org/large"


def indexed(path: Path) -> tuple[dict[str, str | None], list[str]]:
    """Failures by URL, and the records that have the common word."""
    with reading(path) as archive:
        archive.index.update()
        failures = {row["url"]: row["failure"] for row in rows(archive.index, "captures")}
        assert archive.index.status().failed == {failures[DOCUMENT]: 1}
        return failures, finds(archive.index, "common")


def test_one_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive", "workers = 1")
    monkeypatch.setattr(build, "DOCUMENT_SECONDS_MAX", 0.5)
    slow = gzip.compress(b"<a href=x>y</a><table><tr><td>" * 1_000_000)
    add(path, [*pages(3), exchange(DOCUMENT, slow, "text/html", "Content-Encoding: gzip"), *pages(3, 3)])
    failures, found = indexed(path)
    assert failures[DOCUMENT] == "timeout"
    assert len(found) == 6


def test_one_that_takes_too_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_archive(tmp_path / "archive", "workers = 1")
    monkeypatch.setattr(build, "WORKER_BYTES_MAX", 512 << 20)
    large = gzip.compress(b"<b><i>" * 5_000_000)
    add(path, [*pages(3), exchange(DOCUMENT, large, "text/html", "Content-Encoding: gzip"), *pages(3, 3)])
    failures, found = indexed(path)
    assert failures[DOCUMENT] in ("memory", "crashed")
    assert len(found) == 6
