"""A whole run: plans the tasks, gives each a fresh directory and a fresh process, and collects what comes back."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.bench.child import ChildFailed, Task, run_apart, run_task
from holdfast.bench.corpus import Corpus
from holdfast.bench.measure import Measurement, median
from holdfast.bench.scale import Scale, measure_scale
from holdfast.bench.subject import Unavailable
from holdfast.bench.subjects import SUBJECTS, facts
from holdfast.bench.workload import CALLERS, GROUPS, Group, Workload, applies, callers_words

Progress = Callable[[int, int, str], None]  # done, total, what comes next


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    corpus: Corpus | None
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[Workload] = frozenset(Workload)
    callers: tuple[int, ...] = CALLERS
    repeats: int = 3
    scales: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """A subject, or a part of one, that gave no figures, and why."""

    subject: str
    what: str
    reason: str


@dataclass(slots=True)
class Outcome:
    """All that a run found."""

    measurements: list[Measurement] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)

    def find(self, subject: str, workload: Workload, callers: int) -> Measurement | None:
        """The measurement of that name, if there is one."""
        for each in self.measurements:
            if (each.subject, each.workload, each.callers) == (subject, workload, callers):
                return each
        return None


@contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """A directory for the stores under test, removed at the end, also after Ctrl-C or a polite kill.

    For the main thread only, because it answers SIGTERM while it is in force.
    """
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=parent))
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield path
    finally:
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(path, ignore_errors=True)


def run(plan: Plan, directory: Path, progress: Progress) -> Outcome:
    """Carries the plan out below the directory. A subject that fails is noted and the rest goes on."""
    outcome = Outcome()
    tasks = plan_tasks(plan, directory)
    total = len(tasks) * plan.repeats + len(plan.scales)
    found: dict[tuple[str, Workload, int], list[Measurement]] = defaultdict(list)
    dead: set[tuple[str, Group, int]] = set()
    for turn in range(plan.repeats):  # repeats are spread over the run, so that a slow minute hits one of each
        for number, task in enumerate(tasks):
            progress(turn * len(tasks) + number, total, _describe(task, turn, plan.repeats))
            if (task.subject, task.group, task.callers) not in dead:
                for each in _attempt(task, outcome, dead):
                    found[each.subject, each.workload, each.callers].append(each)
    outcome.measurements = [median(repeats) for repeats in found.values()]
    for number, blocks in enumerate(plan.scales):
        progress(len(tasks) * plan.repeats + number, total, f"scale: {blocks:,} blocks")
        _attempt_scale(directory, blocks, outcome)
    progress(total, total, "done")
    return outcome


def plan_tasks(plan: Plan, directory: Path) -> list[Task]:
    """One task for every subject, group and number of callers that measures anything."""
    if plan.corpus is None:
        return []
    tasks = []
    for group in Group:
        for callers in plan.callers:
            for subject in plan.subjects:
                wanted = _measurable(subject, callers, plan.workloads & frozenset(GROUPS[group]))
                path = directory / f"{subject}-{group}-{callers}" / "store"
                if wanted:
                    tasks.append(Task(subject, group, callers, wanted, plan.corpus, path))
    return tasks


def _measurable(subject: str, callers: int, workloads: frozenset[Workload]) -> frozenset[Workload]:
    its = facts(subject)
    if callers > its.callers_max:
        return frozenset()
    return frozenset(each for each in workloads & its.workloads if applies(each, callers, its.writers_max))


def _attempt(task: Task, outcome: Outcome, dead: set[tuple[str, Group, int]]) -> Sequence[Measurement]:
    task.directory.mkdir(parents=True)
    os.sync()  # what the subject before left dirty is not this one's burden
    try:
        return run_apart(run_task, task)
    except (Unavailable, ChildFailed) as failure:
        verb = "skipped" if isinstance(failure, Unavailable) else "failed"
        dead.add((task.subject, task.group, task.callers))
        what = f"{task.group}, {callers_words(task.callers)}"
        outcome.missing.append(Missing(task.subject, what, f"{verb}: {failure}"))
        return []
    finally:
        shutil.rmtree(task.directory.parent, ignore_errors=True)


def _attempt_scale(directory: Path, blocks: int, outcome: Outcome) -> None:
    os.sync()
    try:
        outcome.scales.append(measure_scale(directory, blocks))
    except ChildFailed as failure:
        outcome.missing.append(Missing("holdfast", f"scale {blocks:,}", f"failed: {failure}"))
    finally:
        shutil.rmtree(directory / f"scale-{blocks}", ignore_errors=True)


def _describe(task: Task, turn: int, repeats: int) -> str:
    return f"{task.subject} · {task.group} · {callers_words(task.callers)} · repeat {turn + 1}/{repeats}"


def unsupported(plan: Plan) -> list[Missing]:
    """The workloads that a planned subject has no form of, so that an absent row has a reason too."""
    gaps: list[Missing] = []
    for subject in plan.subjects:
        its = facts(subject)
        if its.suffix:  # a bulk form stands beside its subject's other forms and owes nothing
            continue
        absent = sorted(plan.workloads - its.workloads)
        gaps.extend(Missing(subject, each, f"{its.title} has no {each}") for each in absent)
        alone = [each for each in plan.callers if each > min(its.writers_max, its.callers_max)]
        if alone:
            gaps.append(Missing(subject, f"writing with {max(alone)} callers", f"{its.title} has one caller only"))
    return gaps
