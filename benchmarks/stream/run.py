"""A run: files and archive are made once, then each subject reads them in a fresh process."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.archive.crawl import Crawls, build
from benchmarks.harness.comparison import Comparison
from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.process import ChildFailed, run_apart
from benchmarks.harness.run import Progress, Runner, Step
from benchmarks.stream import ours, peers
from benchmarks.stream.resume import Resumed, measure_resume
from benchmarks.stream.workload import SEPARATE, SUBJECTS, StreamWorkload


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What to measure."""

    corpus: Corpus | None
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[StreamWorkload] = frozenset(StreamWorkload)
    repeats: int = 3
    captures: int = 0  # of the archive in which a stream is resumed; 0: none


@dataclass(slots=True)
class StreamOutcome:
    """The results of a run."""

    crawls: Crawls | None = None
    comparison: Comparison = field(default_factory=lambda: Comparison(SUBJECTS))
    resumed: list[Resumed] = field(default_factory=list)


def run_streams(plan: StreamPlan, directory: Path, progress: Progress) -> StreamOutcome:
    """Runs the plan below the directory. Failures are recorded, and the rest continues."""
    outcome = StreamOutcome()
    resumes = plan.captures > 0 and StreamWorkload.RESUME in plan.workloads and OURS in plan.subjects
    steps: list[Step] = []
    if plan.corpus is not None:
        progress(0, 1, "making the WARC files and the archive")
        outcome.crawls = run_apart(build, plan.corpus, directory / "files")
        run_apart(ours.make_archive, directory / "archive", outcome.crawls)
        steps = _wanted(plan, outcome.crawls, directory / "archive")
    runner = Runner[Figure](plan.repeats, len(steps) * plan.repeats + int(resumes), progress)
    runner.repeat(steps)
    if resumes:
        runner.announce(f"resuming a stream among {plan.captures:,} captures")
        try:
            outcome.resumed += measure_resume(directory / "many", plan.captures, plan.repeats)
        except ChildFailed as failure:
            runner.note(OURS, StreamWorkload.RESUME, failure)
        finally:
            shutil.rmtree(directory / "many", ignore_errors=True)
    outcome.comparison.figures += runner.figures()
    outcome.comparison.missing += runner.missing
    runner.finish()
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
    return [each for each in steps if each.subject in plan.subjects and each.what in plan.workloads]
