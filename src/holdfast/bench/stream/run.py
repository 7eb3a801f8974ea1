"""A whole run: files and archive are made once, then every subject reads them in a fresh process."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.bench.archive.crawl import Crawls, build
from holdfast.bench.child import ChildFailed, run_apart
from holdfast.bench.comparison import OURS, Comparison, Figure, middle
from holdfast.bench.corpus import Corpus
from holdfast.bench.run import Missing, Progress
from holdfast.bench.stream import ours, peers
from holdfast.bench.stream.resume import Resumed, measure_resume
from holdfast.bench.stream.workload import SEPARATE, SUBJECTS, StreamWorkload
from holdfast.bench.subject import Unavailable


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What to measure."""

    corpus: Corpus | None
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[StreamWorkload] = frozenset(StreamWorkload)
    repeats: int = 3
    captures: int = 0  # of the archive in which a stream goes on; none if zero


@dataclass(slots=True)
class StreamOutcome:
    """All that a run found."""

    crawls: Crawls | None = None
    comparison: Comparison = field(default_factory=lambda: Comparison(SUBJECTS))
    resumed: list[Resumed] = field(default_factory=list)

    @property
    def missing(self) -> list[Missing]:
        return self.comparison.missing


@dataclass(frozen=True, slots=True)
class Step:
    """One call in a child."""

    subject: str
    workload: StreamWorkload
    function: Callable[..., Figure]
    arguments: tuple[Any, ...]


def run_streams(plan: StreamPlan, directory: Path, progress: Progress) -> StreamOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    outcome = StreamOutcome()
    resumes = plan.captures > 0 and StreamWorkload.RESUME in plan.workloads and OURS in plan.subjects
    done, total = 0, int(resumes)
    if plan.corpus is not None:
        progress(0, 1, "making the WARC files and the archive")
        outcome.crawls = run_apart(build, plan.corpus, directory / "files")
        run_apart(ours.make_archive, directory / "archive", outcome.crawls)
        wanted = _wanted(plan, outcome.crawls, directory / "archive")
        total += len(wanted) * plan.repeats
        done = _repeat(plan, wanted, outcome, lambda done, text: progress(done, total, text))
    if resumes:
        progress(done, total, f"a stream goes on among {plan.captures:,} captures")
        _resume(plan, directory / "many", outcome)
    progress(total, total, "done")
    return outcome


def _wanted(plan: StreamPlan, crawls: Crawls, archive: Path) -> list[Step]:
    raw, shared = StreamWorkload.RAW, StreamWorkload.SHARED
    steps = (
        Step(OURS, raw, ours.stream_raw, (archive, crawls)),
        Step("zstd", raw, peers.decompress, (crawls,)),
        Step("zstd-one", raw, peers.decompress_one_by_one, (crawls,)),
        Step("fastwarc", raw, peers.read_with_fastwarc, (crawls,)),
        Step("fastwarc-all", raw, peers.read_with_fastwarc_on_all_cores, (crawls,)),
        Step("warcio", raw, peers.read_with_warcio, (crawls,)),
        Step("datatrove", raw, peers.read_with_datatrove, (crawls,)),
        Step(OURS, shared, ours.stream_shared, (archive, crawls)),
        Step(SEPARATE, shared, ours.stream_separately, (archive, crawls)),
    )
    return [each for each in steps if each.subject in plan.subjects and each.workload in plan.workloads]


def _repeat(plan: StreamPlan, steps: list[Step], outcome: StreamOutcome, tell: Callable[[int, str], None]) -> int:
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    dead: set[tuple[str, str]] = set()
    done = 0
    for turn in range(plan.repeats):  # repeats are spread over the run, so that a slow minute hits one of each
        for step in steps:
            place = step.subject, step.workload
            tell(done, f"{step.subject} · {step.workload} · repeat {turn + 1}/{plan.repeats}")
            done += 1
            if place in dead:
                continue
            os.sync()  # what the subject before left dirty is not this one's burden
            try:
                found[place].append(run_apart(step.function, *step.arguments))
            except (Unavailable, ChildFailed) as failure:
                verb = "skipped" if isinstance(failure, Unavailable) else "failed"
                dead.add(place)
                outcome.missing.append(Missing(step.subject, step.workload, f"{verb}: {failure}"))
    outcome.comparison.figures += [middle(each) for each in found.values()]
    return done


def _resume(plan: StreamPlan, path: Path, outcome: StreamOutcome) -> None:
    try:
        outcome.resumed += measure_resume(path, plan.captures, plan.repeats)
    except ChildFailed as failure:
        outcome.missing.append(Missing(OURS, StreamWorkload.RESUME, f"failed: {failure}"))
    finally:
        shutil.rmtree(path, ignore_errors=True)
