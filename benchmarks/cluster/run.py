"""A run: each figure so many times, in a process of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.cluster import answers, crawls, links, measurements, processes
from benchmarks.cluster.figure import ClusterFigure, medians
from benchmarks.harness.figure import OURS
from benchmarks.harness.process import ChildFailed, Unavailable, run_apart
from benchmarks.harness.run import Missing, Progress


class ClusterWorkload(StrEnum):
    """What is measured."""

    COPY = "copy"
    MOVEMENT = "movement"
    REPAIR = "repair"
    COMPARISON = "comparison"
    TAKE_OVER = "take-over"
    NATS = "nats"
    LINKS = "links"
    CRAWL = "crawl"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What to measure."""

    records: int = 4000  # that are copied
    compared: int = 1_000_000  # records of two equal holders
    messages: int = 1_000_000  # that a NATS server keeps
    links: int = 400_000  # that are exchanged
    pages: int = 9600  # that are crawled
    workloads: frozenset[ClusterWorkload] = frozenset(ClusterWorkload)
    repeats: int = 3


@dataclass(slots=True)
class ClusterOutcome:
    """The results of a run."""

    figures: list[ClusterFigure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def find(self, workload: ClusterWorkload, name: str) -> ClusterFigure | None:
        return next((each for each in self.figures if each.workload == workload and each.name.startswith(name)), None)


def run_cluster(plan: ClusterPlan, directory: Path, progress: Progress) -> ClusterOutcome:
    """Runs the plan below the directory. Failures are recorded, and the rest continues."""
    outcome, work = ClusterOutcome(), directory / "nodes"
    steps: dict[ClusterWorkload, tuple[Callable[..., list[ClusterFigure]], tuple[Any, ...]]] = {
        ClusterWorkload.COPY: (measurements.copy_cost, (work, plan.records)),
        ClusterWorkload.MOVEMENT: (measurements.movement, (work, plan.records)),
        ClusterWorkload.REPAIR: (measurements.repair_rate, (work, plan.records // 4)),
        ClusterWorkload.COMPARISON: (measurements.comparison, (work, plan.compared)),
        ClusterWorkload.TAKE_OVER: (processes.take_over, (work,)),
        ClusterWorkload.NATS: (processes.service_memory, (work, plan.messages)),
        ClusterWorkload.LINKS: (links.link_exchange, (work, plan.links)),
        ClusterWorkload.CRAWL: (crawls.crawl_cost, (work, plan.pages)),
        ClusterWorkload.ANSWERS: (answers.answers, (work, plan.records // 4)),
    }
    wanted = [each for each in steps if each in plan.workloads]
    found: list[ClusterFigure] = []
    for number, workload in enumerate(wanted):
        function, arguments = steps[workload]
        try:
            if workload == ClusterWorkload.COMPARISON:
                progress(number * plan.repeats, len(wanted) * plan.repeats, "making two equal holders")
                run_apart(measurements.make_equal_holders, work, plan.compared)
            for turn in range(plan.repeats):
                text = f"{workload} · repeat {turn + 1}/{plan.repeats}"
                progress(number * plan.repeats + turn, len(wanted) * plan.repeats, text)
                found += run_apart(function, *arguments)
        except (ChildFailed, Unavailable) as failure:
            verb = "skipped" if isinstance(failure, Unavailable) else "failed"
            outcome.missing.append(Missing(OURS, workload, f"{verb}: {failure}"))
        shutil.rmtree(work, ignore_errors=True)
    outcome.figures = medians(found)
    progress(1, 1, "done")
    return outcome
