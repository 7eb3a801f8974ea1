"""A run: the steps of all subjects in turns, so many times; what fails is noted and the rest goes on."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.harness.figure import Figure, median
from benchmarks.harness.process import ChildFailed, Unavailable, run_apart

F = TypeVar("F", bound=Figure)
Progress = Callable[[int, int, str], None]  # done, total, what comes next


@dataclass(frozen=True, slots=True)
class Missing:
    """A subject, or a part of one, that gave no figures, and why."""

    subject: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of work of one subject."""

    subject: str
    what: str  # the workload, as progress and report name it
    function: Callable[..., Any]  # returns a figure, several, or None
    arguments: tuple[Any, ...]
    apart: bool = True  # in a child; programs that start processes of their own are called here
    makes: Path | None = None  # what later steps of the same turn need; removed if the step fails
    needs: Path | None = None
    cleans: tuple[Path, ...] = ()  # removed afterwards


class Runner(Generic[F]):
    """Carries steps out, and remembers what they gave."""

    def __init__(self, repeats: int, total: int, progress: Progress) -> None:
        self.repeats = repeats
        self.missing: list[Missing] = []
        self.found: dict[tuple[object, ...], list[F]] = defaultdict(list)
        self._progress = progress
        self._total = total
        self._done = 0
        self._dead: set[tuple[str, str]] = set()

    def announce(self, text: str) -> None:
        """Says what comes next; counts as one of the total."""
        self._progress(min(self._done, self._total), self._total, text)
        self._done += 1

    def finish(self) -> None:
        self._progress(self._total, self._total, "done")

    def repeat(self, steps: Sequence[Step]) -> None:
        """All steps, so many times. Repeats are spread over the run, so that a slow minute hits one of each."""
        for turn in range(self.repeats):
            for step in steps:
                self.attempt(step, turn)

    def attempt(self, step: Step, turn: int = 0, *, quiet: bool = False, keep: bool = True) -> None:
        """One step, unless it failed before or lacks what it needs. Its figures are kept if they are wanted."""
        if not quiet:
            self.announce(f"{step.subject} · {step.what} · repeat {turn + 1}/{self.repeats}")
        if self.is_dead(step) or (step.needs is not None and not step.needs.exists()):
            return
        os.sync()  # what the step before left dirty is not this one's burden
        try:
            found = (run_apart if step.apart else _call)(step.function, *step.arguments)
        except (Unavailable, ChildFailed) as failure:
            self.note(step.subject, step.what, failure)
            found = None
            if step.makes is not None:
                _remove(step.makes)  # nobody shall build on half of it
        for figure in found if isinstance(found, list) else [found] if found is not None else []:
            if keep:
                self.found[figure.place].append(figure)
        for path in step.cleans:
            _remove(path)

    def is_dead(self, step: Step) -> bool:
        return (step.subject, step.what) in self._dead

    def note(self, subject: str, what: str, failure: Exception) -> None:
        """The subject has no figure for this, now and in later turns."""
        verb = "skipped" if isinstance(failure, Unavailable) else "failed"
        self._dead.add((subject, what))
        self.missing.append(Missing(subject, what, f"{verb}: {failure}"))

    def figures(self) -> list[F]:
        """The median of each measurement."""
        return [median(repeats) for repeats in self.found.values()]


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


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
