"""A whole run: every life of every subject, so many times, and what comes of it."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.bench.child import ChildFailed
from holdfast.bench.corpus import Corpus
from holdfast.bench.run import Missing, Progress
from holdfast.bench.subject import Unavailable
from holdfast.bench.webstore.figure import WebstoreFigure, middle
from holdfast.bench.webstore.life import live
from holdfast.bench.webstore.subjects import SUBJECTS, facts
from holdfast.bench.webstore.workload import Experiment, Life, Line, Range, lives

_Key = tuple[Experiment, Line, str, int]


@dataclass(frozen=True, slots=True)
class WebstorePlan:
    """What to measure."""

    corpus: Corpus
    subjects: tuple[str, ...] = tuple(SUBJECTS)
    wanted: Range = field(default_factory=Range)
    repeats: int = 3


@dataclass(slots=True)
class WebstoreOutcome:
    """All that a run found."""

    figures: list[WebstoreFigure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def of(self, experiment: Experiment, line: Line, subject: str) -> list[WebstoreFigure]:
        """The points of one line, in order."""
        found = [
            each for each in self.figures if (each.experiment, each.line, each.subject) == (experiment, line, subject)
        ]
        return sorted(found, key=lambda each: each.x)


def run_webstore(plan: WebstorePlan, directory: Path, progress: Progress) -> WebstoreOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: WebstorePlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._outcome = WebstoreOutcome()
        self._found: dict[_Key, list[WebstoreFigure]] = defaultdict(list)
        self._absent: set[str] = set()  # subjects that are not here
        self._present: set[str] = set()  # subjects that were seen to work
        self._dead: set[tuple[str, Life]] = set()  # lives that failed once

    def run(self) -> WebstoreOutcome:
        plan = self._plan
        tasks = [(name, life) for name in plan.subjects for life in lives(plan.wanted, is_ours=facts(name).is_ours)]
        tasks.sort(key=lambda task: _rank(task[1]))  # stable: subjects take turns, a slow minute hits one of each
        total = len(tasks) * plan.repeats
        for turn in range(plan.repeats):
            for number, (name, life) in enumerate(tasks):
                words = f"{name} · {_words(life)} · repeat {turn + 1}/{plan.repeats}"
                self._progress(turn * len(tasks) + number, total, words)
                self._attempt(name, life)
        self._progress(total, total, "done")
        self._outcome.figures = [middle(found) for found in self._found.values()]
        return self._outcome

    def _attempt(self, name: str, life: Life) -> None:
        if name in self._absent or (name, life) in self._dead:
            return
        directory = self._directory / name
        try:
            figures = live(name, life, self._plan.corpus.paths, directory)
        except (Unavailable, ChildFailed, OSError) as failure:
            self._note(name, life, failure)
        else:
            self._present.add(name)
            for figure in figures:
                if figure.experiment in self._plan.wanted.experiments:
                    self._found[figure.experiment, figure.line, figure.subject, figure.x].append(figure)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _note(self, name: str, life: Life, failure: Exception) -> None:
        if isinstance(failure, Unavailable) and name not in self._present:
            self._absent.add(name)
            self._outcome.missing.append(Missing(name, "all", f"skipped: {failure}"))
        else:
            self._dead.add((name, life))
            self._outcome.missing.append(Missing(name, _words(life), f"failed: {failure}"))


def _rank(life: Life) -> tuple[int, int, int]:
    """Lives of the same experiment and place on the axis come one after the other."""
    last = max(step.experiment for step in life.steps if step.experiment is not None)
    return (last if last > Experiment.STORE else Experiment.RETRIEVE), life.x, life.clients


def _words(life: Life) -> str:
    clients = "1 client" if life.clients == 1 else f"{life.clients} clients"
    volumes = "1 volume" if life.volumes == 1 else f"{life.volumes} volumes"
    lines = ", ".join(dict.fromkeys(step.line for step in life.steps if step.line is not None))
    return f"{clients}, {volumes}: {lines}"
