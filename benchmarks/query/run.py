"""A run: builds and indexes an archive once, then measures every subject in a fresh process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.archive.crawl import Crawls, build
from benchmarks.harness.comparison import Comparison
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.process import run_apart
from benchmarks.harness.run import Progress, Runner, Step
from benchmarks.query.indexing import build_index, index_bare, index_given_text
from benchmarks.query.sample import Asked, sample
from benchmarks.query.searching import search, search_bare
from benchmarks.query.workload import BARE, SEARCHES, SUBJECTS, QueryWorkload
from benchmarks.stream.ours import make_archive


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What to measure."""

    corpus: Corpus
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[QueryWorkload] = frozenset(QueryWorkload)
    repeats: int = 3


@dataclass(slots=True)
class QueryOutcome:
    """The results of a run."""

    crawls: Crawls | None = None
    comparison: Comparison = field(default_factory=lambda: Comparison(SUBJECTS))


def run_queries(plan: QueryPlan, directory: Path, progress: Progress) -> QueryOutcome:
    """Carries out the plan in the directory. Notes failures and continues."""
    outcome, archive = QueryOutcome(), directory / "archive"
    progress(0, 1, "making the archive and its index")
    crawls = outcome.crawls = run_apart(build, plan.corpus, directory / "files")
    run_apart(make_archive, archive, crawls)
    shutil.rmtree(directory / "files")
    built = run_apart(build_index, archive, crawls.captures)  # once: it takes longest, and everything needs it
    asked = run_apart(sample, archive)
    steps = [each for each in _steps(archive, directory, asked) if _wanted(plan, each.subject, each.what)]
    runner = Runner[Figure](plan.repeats, len(steps) * plan.repeats, progress)
    if _wanted(plan, OURS, QueryWorkload.BUILD):
        runner.found[built.place].append(built)
    runner.repeat(steps)
    outcome.comparison.figures += runner.figures()
    outcome.comparison.missing += runner.missing
    runner.finish()
    return outcome


def _wanted(plan: QueryPlan, subject: str, workload: str) -> bool:
    return subject in plan.subjects and workload in plan.workloads


def _steps(archive: Path, directory: Path, asked: Asked) -> Iterator[Step]:
    scratch = directory / "given"
    yield Step(OURS, QueryWorkload.INDEX, index_given_text, (archive, scratch), cleans=(scratch,))
    yield Step(BARE, QueryWorkload.INDEX, index_bare, (archive, scratch), cleans=(scratch,))
    for workload in SEARCHES:
        yield Step(OURS, workload, search, (archive, asked, workload))
        if workload in SUBJECTS[BARE].does:
            yield Step(BARE, workload, search_bare, (archive, asked, workload))
