"""A million captures, indexed: each study in bounded memory. The processor time is printed (`pytest -s`)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from generated import made

import holdfast
from holdfast import study
from holdfast.archive import Archive
from holdfast.batches.batch import BatchState
from holdfast.catalog import CatalogChange
from holdfast.index import build, paths
from holdfast.index.extract.extract import Extracted
from holdfast.index.extract.rows import Rows
from holdfast.index.state import IndexState
from holdfast.index.workers.worker import IndexTask, TaskResult
from holdfast.model import Capture, RecordId

CAPTURES = 1_000_000
MEMORY_BYTES_MAX = 1 << 30
TOPICS = ["harbour", "storm", "flood OR tide"]  # in each page, in a third, in some
SAMPLED = 10_000
STUDIES = ("duplicates", "near_duplicates", "change", "composition", "media", "topic", "sample")
_RUN = """
import json, resource, sys
import holdfast
from holdfast import study

with holdfast.open(sys.argv[1], read_only=True) as archive:
    options = json.loads(sys.argv[3])
    options = [study.SampleOptions(**options)] if sys.argv[2] == "sample" else [options] if options else []
    result = getattr(study, sys.argv[2])(archive, *options)
used = resource.getrusage(resource.RUSAGE_SELF)
rows = {name: len(table) for name, table in result.tables.items()}
print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "bytes": used.ru_maxrss * 1024, "rows": rows}))
"""


def fill(path: Path, count: int) -> None:
    """Rows of catalog and index: 5 crawls of 20,000 sites, three of ten pages changed each time."""
    chance = random.Random(1)
    with (
        made(path) as archive,
        build.locked(archive.index),
        build.IndexWriter(archive.index, IndexState(1), paths.STATE) as index,
    ):
        index.number_batches([f"crawl-{crawl}" for crawl in range(5)])
        fill_crawls(archive, index, count // 5, chance)
        index.commit()


def fill_crawls(archive: Archive, index: build.IndexWriter, urls: int, chance: random.Random) -> None:
    versions = [0] * urls
    for crawl in range(5):
        rows: list[Capture] = []
        for number in range(urls):
            versions[number] += crawl > 0 and chance.random() < 0.3
            site = number % 20_000
            tld = ("com", "org", "edu", "gov.cn")[site % 4]
            digest = f"sha1:{number * 9973 % (urls - urls // 8):016x}{versions[number]:016x}"
            mime = ("text/html", "text/html", "image/jpeg", "application/pdf")[number % 4]
            day = f"2026{crawl * 2 + 1:02}{1 + number % 28:02}{number % 24:02}0000"
            key = f"{','.join(reversed(tld.split('.')))},site{site})/dir{number % 7}/page{number}"
            url = f"http://site{site}.{tld}/dir{number % 7}/page{number}"
            record = RecordId(f"crawl-{crawl}", number + 1)
            size = 2000 + number * 7919 % 60_000
            contents = f"v0:{digest[5:].ljust(64, '0')}"
            about = key, day, url, mime, "200", digest, size, 0, "-", "response", size, contents
            rows.append(Capture(*about, record, "main"))
            if len(rows) == 5000:
                archive.catalog.add(CatalogChange(rows, fresh=True))
                fill_index(index, crawl, rows)
                rows = []
        ends = {f"crawl-{crawl}": BatchState(next_serial=urls + 1).pack()}  # what a snapshot is taken of
        archive.catalog.add(CatalogChange(rows, fresh=True, batches=ends))
        fill_index(index, crawl, rows)


def fill_index(index: build.IndexWriter, crawl: int, captures: list[Capture]) -> None:
    """What extraction would have found: forty words that are those of the content, and topics."""
    if not captures:
        return
    rows = Rows(crawl)
    for capture in captures:
        words = random.Random(capture.digest)
        text = " ".join(f"word{words.randrange(5000)}" for _ in range(40)) + " harbour"
        text += " storm" * (words.random() < 1 / 3) + " flood" * (words.random() < 0.01) + " tide" * (crawl == 3)
        rows.add(capture, None, Extracted(text=text, language="en") if "image" not in capture.mime else Extracted())
    task = IndexTask(f"crawl-{crawl}", crawl, captures[0].record.serial, captures[-1].record.serial + 1, ())
    index.add(task, TaskResult(rows.documents, rows.captures(), rows.links(), 0, []))


def options_of(name: str, sampled: int = SAMPLED) -> Any:
    return {"captures": sampled, "by": ["site", "type"]} if name == "sample" else TOPICS if name == "topic" else None


def test_what_is_measured_is_studied(tmp_path: Path) -> None:
    """The same with few captures: each study finds something in what `fill` makes."""
    fill(tmp_path / "archive", 500)
    with holdfast.open(tmp_path / "archive", read_only=True) as archive:
        assert archive.index.pending() == 0
        for name in STUDIES:
            options = options_of(name, 100)
            given = [study.SampleOptions(**options)] if name == "sample" else [options] if options else []
            assert len(getattr(study, name)(archive, *given).table), name
        topics = {row["topic"]: row for row in study.topic(archive, TOPICS, unit="month").rows()}
        assert topics["harbour"]["captures"] == 375  # all but images
        assert topics["flood OR tide"]["peak"] == "2026-07"
        assert 50 < topics["storm"]["captures"] < 200


@pytest.mark.soak
def test_a_million_captures(tmp_path: Path) -> None:
    fill(tmp_path / "archive", CAPTURES)
    for name in STUDIES:
        command = [sys.executable, "-c", _RUN, str(tmp_path / "archive"), name, json.dumps(options_of(name))]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(name, told)
        assert told["bytes"] < MEMORY_BYTES_MAX, name
        assert next(iter(told["rows"].values()))
