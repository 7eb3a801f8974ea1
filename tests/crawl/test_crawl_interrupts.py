"""Ctrl-C at random moments of a crawl: the archive is sound each time, and the crawl goes on to the same set (H5)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from crawl_hosts import ManyHosts
from crawl_runs import captured, frontier_state, job_for, make_archive, write_job_file
from interrupted_commands import INTERRUPTED, SEED, interrupted_commands

import holdfast
from holdfast.storage.maintenance.check import CheckOptions

HOSTS, PAGES = 12, 25


@pytest.mark.parametrize("rounds", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_ctrl_c_at_random_moments(tmp_path: Path, rounds: int) -> None:
    print(f"seed {SEED}")
    random, web = Random(SEED), ManyHosts(HOSTS, PAGES)
    with web.serving() as served, interrupted_commands() as commands:
        job = job_for(served, robots=False, sitemap=False, workers=16)  # type: ignore[arg-type]
        words = ["crawl", write_job_file(tmp_path / "job.toml", job), "--quiet"]
        whole, path = make_archive(tmp_path / "whole"), make_archive(tmp_path / "archive")
        code, whole_s = commands.run(["-a", whole, *words])
        assert code == 0
        interrupted = 0
        for number in range(rounds):
            index = [] if number % 4 == 0 else ["--no-index"]  # which takes longer than the rest
            code, _ = commands.run(["-a", path, *words, *index], random.uniform(0, whole_s))
            assert code in (0, INTERRUPTED), f"seed {SEED}"
            report = holdfast.check(path, CheckOptions(deep=True))
            assert report.clean, (f"seed {SEED}", report.faults)
            interrupted += code == INTERRUPTED
            if code == 0:
                assert captured(path) == captured(whole), f"seed {SEED}"
                path = make_archive(tmp_path / f"archive{number}")
        assert interrupted, "Ctrl-C never came in time"
        assert commands.run(["-a", path, *words])[0] == 0
        assert captured(path) == captured(whole), f"seed {SEED}"
        assert len(captured(path)) == HOSTS * PAGES
        assert frontier_state(path)[0].queued == 0
