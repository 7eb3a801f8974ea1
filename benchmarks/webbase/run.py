"""A whole run: all measurements, so many times, and what comes of it."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.run import Missing, Progress, Runner
from benchmarks.webbase import paper
from benchmarks.webbase.buckets import SIZES, Figure4, figure_4, figure_5
from benchmarks.webbase.disk import bucket_times
from benchmarks.webbase.pages import Pages, pages_of
from benchmarks.webbase.paper import PROTOTYPE, UPDATE_RATIO, Row
from benchmarks.webbase.updates import Prototype, UpdateBench, UpdateCost
from benchmarks.webbase.volumes import Told, VolumeBench
from holdfast.errors import HoldfastError

RATIOS = (0.1, 0.25, 0.5, 0.75, 1.0)
_DISK_BYTES = 512 << 20
_DISK_READS = 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebbasePlan:
    """What to measure."""

    corpus: Corpus
    repeats: int = 3
    ratios: tuple[float, ...] = RATIOS
    disk_bytes: int = _DISK_BYTES  # of the file in which buckets are read


@dataclass(slots=True)
class WebbaseOutcome:
    """All that a run found."""

    mean_stored: float = 0.0
    table_3: dict[str, Told] = field(default_factory=dict)
    table_4: dict[tuple[str, str], UpdateCost] = field(default_factory=dict)
    table_5: Prototype | None = None
    figure_4: Figure4 | None = None
    figure_5: list[Figure4] = field(default_factory=list)
    figure_6: list[UpdateCost] = field(default_factory=list)
    is_direct: bool = True  # reads of buckets went past the system's cache
    missing: list[Missing] = field(default_factory=list)

    def rate(self, organization: str, row: Row, *, warm: bool = False) -> float | None:
        return self.table_3.get(organization, {}).get((row, warm))


def run_webbase(plan: WebbasePlan, directory: Path, progress: Progress) -> WebbaseOutcome:
    """Carries the plan out below the directory. What fails is noted and the rest goes on."""
    return _Run(plan, directory, progress).run()


class _Run:
    """A run under way."""

    def __init__(self, plan: WebbasePlan, directory: Path, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._outcome = WebbaseOutcome()
        total = (len(paper.ORGANIZATIONS) + len(paper.TABLE_4) + 1 + len(plan.ratios)) * plan.repeats + 1
        self._runner = Runner[Figure](plan.repeats, total, progress)

    def run(self) -> WebbaseOutcome:
        pages, outcome = pages_of(self._plan.corpus), self._outcome
        outcome.mean_stored = pages.mean_stored
        for name in paper.ORGANIZATIONS:
            told = self._repeated(f"volume {name}", VolumeBench(name, pages).run)
            if told:
                outcome.table_3[name] = {key: statistics.median(each[key] for each in told) for key in told[0]}
        for pair in paper.TABLE_4:
            if cost := self._update(pair, pages, UPDATE_RATIO):
                outcome.table_4[pair] = cost
        costs = [self._update(PROTOTYPE, pages, ratio) for ratio in self._plan.ratios]
        outcome.figure_6 = [cost for cost in costs if cost is not None]
        prototypes = self._repeated(
            "prototype, log and log", lambda work: UpdateBench(PROTOTYPE, pages, work).prototype()
        )
        if prototypes:
            outcome.table_5 = Prototype(
                *(statistics.median(each) for each in zip(*map(_values, prototypes), strict=True))
            )
        self._buckets(pages)
        self._runner.finish()
        return outcome

    def _update(self, pair: tuple[str, str], pages: Pages, ratio: float) -> UpdateCost | None:
        words = f"update {pair[0]} to {pair[1]}, ratio {ratio:g}"
        costs = self._repeated(words, lambda work: UpdateBench(pair, pages, work).run(ratio))
        if not costs:
            return None
        seconds = {step: statistics.median(each.seconds[step] for each in costs) for step in costs[0].seconds}
        return replace(costs[0], seconds=seconds)

    def _buckets(self, pages: Pages) -> None:
        self._runner.announce("buckets")
        times, self._outcome.is_direct = bucket_times(self._directory, SIZES, self._plan.disk_bytes, _DISK_READS)
        self._outcome.figure_4 = figure_4(pages.sizes, times, paper.FIGURE_4_PAGES)
        self._outcome.figure_5 = figure_5(pages.sizes, times)

    def _repeated(self, words: str, work: Callable[[Path], T]) -> list[T]:
        """What each repeat gave; nothing if one failed."""
        found: list[T] = []
        for turn in range(self._plan.repeats):
            self._runner.announce(f"{words} · repeat {turn + 1}/{self._plan.repeats}")
            directory = self._directory / "work"
            directory.mkdir()
            try:
                found.append(work(directory))
            except (HoldfastError, OSError) as failure:
                self._outcome.missing.append(Missing(OURS, words, f"failed: {failure}"))
                return []
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        return found


def _values(found: Prototype) -> tuple[float, float, float]:
    return found.streaming, found.addition, found.random
