"""A million captures: each study in bounded memory. The processor time is printed (`pytest -s`)."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from generated import made

import holdfast
from holdfast import study
from holdfast.batches.batch import BatchState
from holdfast.catalog import CatalogChange
from holdfast.model import Capture, RecordId

CAPTURES = 1_000_000
MEMORY_BYTES_MAX = 1 << 30
STUDIES = ("duplicates", "change", "composition", "media", "sample")
_RUN = """
import json, resource, sys
import holdfast
from holdfast import study

with holdfast.open(sys.argv[1], read_only=True) as archive:
    options = [study.SampleOptions(captures=10_000, by=("site", "type"))] if sys.argv[2] == "sample" else []
    result = getattr(study, sys.argv[2])(archive, *options)
used = resource.getrusage(resource.RUSAGE_SELF)
rows = {name: len(table) for name, table in result.tables.items()}
print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "bytes": used.ru_maxrss * 1024, "rows": rows}))
"""


def fill(path: Path, count: int) -> None:
    """Rows of a catalog: 5 crawls of 20,000 sites, three of ten pages changed each time."""
    chance = random.Random(1)
    with made(path) as archive:
        urls = count // 5
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
                    rows = []
            ends = {f"crawl-{crawl}": BatchState(next_serial=urls + 1).pack()}  # what a snapshot is taken of
            archive.catalog.add(CatalogChange(rows, fresh=True, batches=ends))


def test_what_is_measured_is_studied(tmp_path: Path) -> None:
    """The same with few captures: each study finds something in what `fill` makes."""
    fill(tmp_path / "archive", 500)
    with holdfast.open(tmp_path / "archive", read_only=True) as archive:
        for name in STUDIES:
            options = [study.SampleOptions(captures=100, by=("site", "type"))] if name == "sample" else []
            assert len(getattr(study, name)(archive, *options).table), name


@pytest.mark.soak
def test_a_million_captures(tmp_path: Path) -> None:
    fill(tmp_path / "archive", CAPTURES)
    for name in STUDIES:
        command = [sys.executable, "-c", _RUN, str(tmp_path / "archive"), name]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(name, told)
        assert told["bytes"] < MEMORY_BYTES_MAX, name
        assert next(iter(told["rows"].values()))
