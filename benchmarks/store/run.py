"""A whole run: plans the tasks, gives each a fresh directory and a fresh process, and collects what comes back."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.process import ChildFailed
from benchmarks.harness.run import Missing, Progress, Runner, Step
from benchmarks.store.scale import Scale, measure_scale
from benchmarks.store.subjects import SUBJECTS, facts
from benchmarks.store.task import Task, run_task
from benchmarks.store.workload import CALLERS, GROUPS, Group, Workload, applies, callers_words


@dataclass(frozen=True, slots=True)
class StorePlan:
    """What to measure."""

    corpus: Corpus | None
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    workloads: frozenset[Workload] = frozenset(Workload)
    callers: tuple[int, ...] = CALLERS
    repeats: int = 3
    scales: tuple[int, ...] = ()


@dataclass(slots=True)
class StoreOutcome:
    """All that a run found."""

    figures: list[Figure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)

    def find(self, subject: str, workload: Workload, callers: int) -> Figure | None:
        """The figure of that place, if there is one."""
        wanted = (subject, workload, "", callers)
        return next((each for each in self.figures if each.place == wanted), None)


def run_store(plan: StorePlan, directory: Path, progress: Progress) -> StoreOutcome:
    """Carries the plan out below the directory. A subject that fails is noted and the rest goes on."""
    tasks = plan_tasks(plan, directory)
    runner = Runner[Figure](plan.repeats, len(tasks) * plan.repeats + len(plan.scales), progress)
    runner.repeat([_step(task) for task in tasks])
    outcome = StoreOutcome(runner.figures())
    for blocks in plan.scales:
        runner.announce(f"scale: {blocks:,} blocks")
        try:
            outcome.scales.append(measure_scale(directory, blocks))
        except ChildFailed as failure:
            runner.note(OURS, f"scale {blocks:,}", failure)
        finally:
            shutil.rmtree(directory / f"scale-{blocks}", ignore_errors=True)
    outcome.missing = runner.missing
    runner.finish()
    return outcome


def plan_tasks(plan: StorePlan, directory: Path) -> list[Task]:
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


def _step(task: Task) -> Step:
    what = f"{task.group}, {callers_words(task.callers)}"
    return Step(task.subject, what, run_task, (task,), cleans=(task.directory.parent,))


def unsupported(plan: StorePlan) -> list[Missing]:
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
