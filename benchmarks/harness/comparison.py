"""Workloads on subjects, side by side: the figures of a run, as tables, as JSON and as a picture.

What the benchmarks of queries and of streams have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.chart import bars, colour, draw
from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.report import MB, table, times
from benchmarks.harness.run import Missing

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What the report says about a subject."""

    title: str
    does: Mapping[str, str]  # in a few words, what it does for a workload
    packages: tuple[str, ...] = ()  # distributions whose versions the report names


@dataclass(slots=True)
class Comparison:
    """All figures of a run, and what has none."""

    subjects: Mapping[str, SubjectFacts]
    figures: list[Figure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def find(self, subject: str, workload: str) -> Figure | None:
        """The figure of that place, if there is one."""
        return next((each for each in self.figures if (each.subject, each.workload) == (subject, workload)), None)

    def of(self, workload: str) -> list[Figure]:
        """The figures of a workload, the fastest first."""
        return sorted((each for each in self.figures if each.workload == workload), key=lambda each: -each.per_s)

    def ratio(self, each: Figure) -> float | None:
        """How many times faster Holdfast was."""
        ours = self.find(OURS, each.workload)
        return ours.per_s / each.per_s if ours is not None and each.subject != OURS else None

    def as_json(self) -> dict[str, Any]:
        """Plain values. The names are part of the format; new ones may be added."""
        return {"results": [self._values(each) for each in self.figures]}

    def _values(self, each: Figure) -> dict[str, Any]:
        return {
            "subject": each.subject,
            "workload": each.workload,
            "does": self.subjects[each.subject].does[each.workload],
            "operations": each.operations,
            "content_bytes": each.content_bytes,
            "seconds": each.cost.seconds,
            "seconds_all": list(each.seconds_all),
            "cpu_s": each.cost.cpu_s,
            "cpu_us": each.cpu_us,
            "per_s": each.per_s,
            "per_cpu_s": each.per_cpu_s,
            "mb_per_s": each.mb_per_s if each.content_bytes else None,
            "p50_ms": each.p50_ms or None,
            "p95_ms": each.p95_ms or None,
            "disk_bytes": each.disk_bytes or None,
            "rss_before_bytes": each.cost.rss_before_bytes,
            "rss_peak_bytes": each.cost.rss_peak_bytes,
            "holdfast_ratio": self.ratio(each),
        }

    def table(self, workload: str, about: str) -> Table:
        """The figures of a workload."""
        columns = (
            "subject",
            "1/s",
            "s",
            "MB/s",
            "50 % ms",
            "95 % ms",
            "CPU s",
            "CPU µs",
            "peak MB",
            "disk MB",
            "Holdfast is",
        )
        rows = [self._cells(each, workload) for each in self.of(workload)]
        ours = self.subjects[OURS].title
        return table(f"{workload} · {about}", (*columns, "<what it does"), rows, bold=lambda row: row[0] == ours)

    def _cells(self, each: Figure, workload: str) -> Sequence[str]:
        facts = self.subjects[each.subject]
        return (
            facts.title,
            f"{each.per_s:,.0f}" if each.per_s >= 100 else f"{each.per_s:,.2f}",
            f"{each.cost.seconds:.3f}",
            f"{each.mb_per_s:,.1f}" if each.content_bytes else "",
            f"{each.p50_ms:.2f}" if each.p50_ms else "",
            f"{each.p95_ms:.2f}" if each.p95_ms else "",
            f"{each.cost.cpu_s:.2f}",
            f"{each.cpu_us:,.0f}",
            f"{each.cost.rss_peak_bytes / MB:,.0f}",
            f"{each.disk_bytes / MB:,.1f}" if each.disk_bytes else "",
            times(self.ratio(each)),
            facts.does[workload],
        )

    def draw(self, units: Mapping[str, str], title: str, path: Path) -> None:
        """One panel for each workload, one bar for each subject, as PNG."""
        panels = [partial(self._panel, workload, unit) for workload, unit in units.items() if self.of(workload)]
        draw(title, path, panels, columns=2, panel_size=(7.5, 4.2))

    def _panel(self, workload: str, unit: str, axis: Any) -> None:
        shown, names = self.of(workload), tuple(self.subjects)
        heights = [each.mb_per_s if each.content_bytes else each.per_s for each in shown]
        titles = [self.subjects[each.subject].title for each in shown]
        bars(axis, f"{workload} ({unit})", titles, heights, [colour(names, each.subject) for each in shown])
