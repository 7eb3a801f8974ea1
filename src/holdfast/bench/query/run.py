"""A whole run: an archive is made and indexed once, then every subject is asked in a fresh process."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.bench.archive.crawl import Crawls, build
from holdfast.bench.child import ChildFailed, run_apart
from holdfast.bench.comparison import OURS, Comparison, Figure, middle
from holdfast.bench.corpus import Corpus
from holdfast.bench.query.indexing import build_index, index_bare, index_given_text
from holdfast.bench.query.sample import Asked, sample
from holdfast.bench.query.searching import search, search_bare
from holdfast.bench.query.workload import BARE, SEARCHES, SUBJECTS, QueryWorkload
from holdfast.bench.run import Missing, Progress
from holdfast.bench.stream.ours import make_archive
from holdfast.bench.subject import Unavailable


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What to measure."""

    corpus: Corpus
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[QueryWorkload] = frozenset(QueryWorkload)
    repeats: int = 3


@dataclass(slots=True)
class QueryOutcome:
    """All that a run found."""

    crawls: Crawls | None = None
    comparison: Comparison = field(default_factory=lambda: Comparison(SUBJECTS))

    @property
    def missing(self) -> list[Missing]:
        return self.comparison.missing


@dataclass(frozen=True, slots=True)
class Step:
    """One call in a child."""

    subject: str
    workload: QueryWorkload
    function: Callable[..., Figure]
    arguments: tuple[Any, ...]
    scratch: Path | None = None  # removed afterwards


def run_queries(plan: QueryPlan, directory: Path, progress: Progress) -> QueryOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    outcome, archive = QueryOutcome(), directory / "archive"
    progress(0, 1, "making the archive and its index")
    crawls = outcome.crawls = run_apart(build, plan.corpus, directory / "files")
    run_apart(make_archive, archive, crawls)
    shutil.rmtree(directory / "files")
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    built = run_apart(build_index, archive, crawls.captures)  # once: it takes longest, and everything needs it
    if OURS in plan.subjects and QueryWorkload.BUILD in plan.workloads:
        found[OURS, QueryWorkload.BUILD].append(built)
    asked = run_apart(sample, archive)
    steps = [each for each in _steps(archive, directory, asked) if _wanted(plan, each)]
    total, dead = len(steps) * plan.repeats, set[tuple[str, str]]()
    for turn in range(plan.repeats):  # repeats are spread over the run, so that a slow minute hits one of each
        for number, step in enumerate(steps):
            place = step.subject, step.workload
            text = f"{step.subject} · {step.workload} · repeat {turn + 1}/{plan.repeats}"
            progress(turn * len(steps) + number, total, text)
            if place not in dead and (figure := _attempt(step, outcome)) is not None:
                found[place].append(figure)
            else:
                dead.add(place)
    outcome.comparison.figures += [middle(each) for each in found.values()]
    progress(total, total, "done")
    return outcome


def _wanted(plan: QueryPlan, step: Step) -> bool:
    return step.subject in plan.subjects and step.workload in plan.workloads


def _steps(archive: Path, directory: Path, asked: Asked) -> Iterator[Step]:
    scratch = directory / "given"
    yield Step(OURS, QueryWorkload.INDEX, index_given_text, (archive, scratch), scratch)
    yield Step(BARE, QueryWorkload.INDEX, index_bare, (archive, scratch), scratch)
    for workload in SEARCHES:
        yield Step(OURS, workload, search, (archive, asked, workload))
        if workload in SUBJECTS[BARE].does:
            yield Step(BARE, workload, search_bare, (archive, asked, workload))


def _attempt(step: Step, outcome: QueryOutcome) -> Figure | None:
    os.sync()  # what the subject before left dirty is not this one's burden
    try:
        return run_apart(step.function, *step.arguments)
    except (Unavailable, ChildFailed) as failure:
        verb = "skipped" if isinstance(failure, Unavailable) else "failed"
        outcome.missing.append(Missing(step.subject, step.workload, f"{verb}: {failure}"))
        return None
    finally:
        if step.scratch is not None:
            shutil.rmtree(step.scratch, ignore_errors=True)
