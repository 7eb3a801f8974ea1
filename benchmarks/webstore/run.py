"""A whole run: every life of every subject, so many times, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.process import ChildFailed, Unavailable
from benchmarks.harness.run import Missing, Progress, Runner, Step
from benchmarks.webstore.figure import WebstoreFigure
from benchmarks.webstore.life import live
from benchmarks.webstore.subjects import SUBJECTS, facts
from benchmarks.webstore.workload import Experiment, Life, Line, Range, lives


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
        self._tasks = [
            (name, life) for name in plan.subjects for life in lives(plan.wanted, is_ours=facts(name).is_ours)
        ]
        self._tasks.sort(key=lambda task: _rank(task[1]))  # stable: subjects take turns, a slow minute hits one of each
        self._runner = Runner[WebstoreFigure](plan.repeats, len(self._tasks) * plan.repeats, progress)
        self._absent: set[str] = set()  # subjects that are not here
        self._present: set[str] = set()  # subjects that were seen to work

    def run(self) -> WebstoreOutcome:
        runner = self._runner
        runner.repeat([self._step(name, life) for name, life in self._tasks])
        runner.finish()
        return WebstoreOutcome(runner.figures(), runner.missing)

    def _step(self, name: str, life: Life) -> Step:
        cleans = (self._directory / name,)
        return Step(name, _words(life), self._live, (name, life), apart=False, cleans=cleans)

    def _live(self, name: str, life: Life) -> list[WebstoreFigure]:
        """Figures of the life. A subject that is not here at all is noted once."""
        if name in self._absent:
            return []
        try:
            figures = live(name, life, self._plan.corpus.paths, self._directory / name)
        except Unavailable as failure:
            if name in self._present:
                raise ChildFailed(str(failure)) from failure
            self._absent.add(name)
            self._runner.note(name, "all", failure)
            return []
        except OSError as failure:
            raise ChildFailed(str(failure)) from failure
        self._present.add(name)
        return [figure for figure in figures if figure.experiment in self._plan.wanted.experiments]


def _rank(life: Life) -> tuple[int, int, int]:
    """Lives of the same experiment and place on the axis come one after the other."""
    last = max(step.experiment for step in life.steps if step.experiment is not None)
    return (last if last > Experiment.STORE else Experiment.RETRIEVE), life.x, life.clients


def _words(life: Life) -> str:
    clients = "1 client" if life.clients == 1 else f"{life.clients} clients"
    volumes = "1 volume" if life.volumes == 1 else f"{life.volumes} volumes"
    lines = ", ".join(dict.fromkeys(step.line for step in life.steps if step.line is not None))
    return f"{clients}, {volumes}: {lines}"
