"""Ctrl-C at random moments of an import: the archive is sound each time, and the import goes on to the same records.

Half of the imports read in other processes, as those of large files do.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from archive_warcs import exchange, response
from interrupted_commands import INTERRUPTED, SEED, InterruptedCommands, interrupted_commands

import holdfast
from holdfast.archive.ingest.importer import PROCESS_BYTES_MIN
from holdfast.catalog import CaptureQuery
from holdfast.storage.maintenance.check import CheckOptions

PAGES = 700  # of a small file; a large one has incompressible ones as well


@pytest.fixture(scope="module")
def commands() -> Iterator[InterruptedCommands]:
    with interrupted_commands() as commands:
        yield commands


def write_files(directory: Path, *, large: bool) -> list[Path]:
    """Two files with duplicates within and between them; large ones are read in other processes."""
    random, paths = Random(7), []
    for part in range(2):
        records = []
        for number in range(PAGES):
            page = b"<p>page %d of a site</p>" % (number % 500) * (1 + number % 90)
            records += exchange(f"http://part{part}.example/{number}", page)
        while large and sum(map(len, records)) < PROCESS_BYTES_MIN + (2 << 20):
            records.append(response(f"http://part{part}.example/noise/{len(records)}", random.randbytes(60_000)))
        path = directory / f"part{part}-{'large' if large else 'small'}.warc.gz"
        path.write_bytes(b"".join(gzip.compress(record, 1) for record in records))
        paths.append(path)
    return paths


def state_of(path: Path) -> tuple[list[tuple[str, str, str, str]], int, int]:
    """Captures, references of contents, and payloads that stay with their records."""
    with holdfast.open(path, read_only=True) as archive:
        rows = [row.capture for row in archive.search(CaptureQuery(url="*"))]
        references = sum(report.stat.references for report in archive.volumes() if report.stat)
        inline = sum(total.inline for total in archive.catalog.totals()[0].values())
    return sorted((each.urlkey, each.timestamp, each.digest, each.type) for each in rows), references, inline


def assert_sound(path: Path) -> None:
    report = holdfast.check(path, CheckOptions(deep=True))
    assert report.clean, (f"seed {SEED}", report.faults)


@pytest.mark.parametrize("large", [False, True], ids=["threads", "processes"])
@pytest.mark.parametrize("rounds", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_ctrl_c_at_random_moments(tmp_path: Path, commands: InterruptedCommands, large: bool, rounds: int) -> None:
    print(f"seed {SEED}")
    random, files = Random(f"{SEED} {large}"), write_files(tmp_path, large=large)
    words = ["import", *files, "--jobs", "2", "--no-index"]
    whole, path = tmp_path / "whole", tmp_path / "archive0"
    for each in (whole, path):
        holdfast.init(each)
    code, whole_s = commands.run(["-a", whole, *words])
    assert code == 0
    expected, interrupted = state_of(whole), 0
    for number in range(rounds):
        code, _ = commands.run(["-a", path, *words], random.uniform(0, whole_s))
        assert code in (0, INTERRUPTED), f"seed {SEED}"
        assert_sound(path)
        interrupted += code == INTERRUPTED
        if code == 0 or random.random() < 0.2:  # a new one, so that most moments are in the midst of the first import
            assert commands.run(["-a", path, *words])[0] == 0
            assert state_of(path) == expected, f"seed {SEED}"
            path = tmp_path / f"archive{number + 1}"
            holdfast.init(path)
    assert interrupted, "Ctrl-C never came in time"
    assert commands.run(["-a", path, *words])[0] == 0
    assert_sound(path)
    assert state_of(path) == expected, f"seed {SEED}"
