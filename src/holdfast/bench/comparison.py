"""Workloads on subjects, side by side: the figures of a run, as tables, as JSON and as a picture.

What `holdfast bench query` and `holdfast bench stream` have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.bench.measure import Cost
from holdfast.bench.run import Missing

if TYPE_CHECKING:
    from rich.table import Table

OURS = "holdfast"
_MB = 1e6
_COLUMNS = 2
_COLOURS = ("#0b6e4f", "#6fb98f", "#c0504d", "#4f81bd", "#e08e45", "#8c8c8c", "#8064a2", "#4bacc6")


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What the report says about a subject."""

    title: str
    does: Mapping[str, str]  # in a few words, what it does for a workload
    packages: tuple[str, ...] = ()  # distributions whose versions the report names


@dataclass(frozen=True, slots=True)
class Figure:
    """A workload on a subject: what was done, and what it cost."""

    subject: str
    workload: str
    operations: int
    cost: Cost
    content_bytes: int = 0
    disk_bytes: int = 0
    p50_ms: float = 0.0  # of single operations, where they were timed
    p95_ms: float = 0.0
    seconds_all: tuple[float, ...] = ()  # of all repeats, in order

    @property
    def per_s(self) -> float:
        return self.operations / max(self.cost.seconds, 1e-9)

    @property
    def mb_per_s(self) -> float:
        return self.content_bytes / max(self.cost.seconds, 1e-9) / _MB

    @property
    def per_cpu_s(self) -> float:
        return self.operations / max(self.cost.cpu_s, 1e-6)


def middle(repeats: Sequence[Figure]) -> Figure:
    """The repeat with the median time (the better one of an even number), with the times of all of them."""
    ordered = sorted(repeats, key=lambda repeat: repeat.cost.seconds)
    return replace(ordered[(len(ordered) - 1) // 2], seconds_all=tuple(repeat.cost.seconds for repeat in repeats))


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
        return {
            "results": [self._values(each) for each in self.figures],
            "missing": [asdict(each) for each in self.missing],
        }

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
        from rich.table import Table

        rows = self.of(workload)
        columns = {
            "1/s": lambda each: f"{each.per_s:,.0f}" if each.per_s >= 100 else f"{each.per_s:,.2f}",
            "s": lambda each: f"{each.cost.seconds:.3f}",
            "MB/s": lambda each: f"{each.mb_per_s:,.1f}" if each.content_bytes else "",
            "50 % ms": lambda each: f"{each.p50_ms:.2f}" if each.p50_ms else "",
            "95 % ms": lambda each: f"{each.p95_ms:.2f}" if each.p95_ms else "",
            "CPU s": lambda each: f"{each.cost.cpu_s:.2f}",
            "peak MB": lambda each: f"{each.cost.rss_peak_bytes / _MB:,.0f}",
            "disk MB": lambda each: f"{each.disk_bytes / _MB:,.1f}" if each.disk_bytes else "",
            "Holdfast is": self._times,
        }
        cells = {name: [cell(each) for each in rows] for name, cell in columns.items()}
        told = {name: values for name, values in cells.items() if any(values)}
        table = Table(title=f"{workload} · {about}", title_justify="left", title_style="bold")
        table.add_column("subject", no_wrap=True)
        for name in told:
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("what it does")
        for number, each in enumerate(rows):
            facts = self.subjects[each.subject]
            values = [column[number] for column in told.values()]
            table.add_row(facts.title, *values, facts.does[workload], style="bold" if each.subject == OURS else "")
        return table

    def _times(self, each: Figure) -> str:
        ratio = self.ratio(each)
        return f"{ratio:.2f}x" if ratio is not None else ""

    def draw(self, title: str, units: Mapping[str, str], path: Path) -> None:
        """One panel for each workload, one bar for each subject, as PNG. Needs matplotlib, but no display."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        workloads = [each for each in units if self.of(each)]
        rows = max(1, -(-len(workloads) // _COLUMNS))
        figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(15, 4.2 * rows), squeeze=False)
        for axis, workload in zip(axes.flat, [*workloads, *[""] * _COLUMNS], strict=False):
            if workload:
                self._panel(axis, workload, units[workload])
            else:
                axis.axis("off")
        figure.suptitle(title, fontsize=10)
        figure.tight_layout(rect=(0, 0, 1, 0.97))
        figure.savefig(path, dpi=110)
        pyplot.close(figure)

    def _panel(self, axis: Any, workload: str, unit: str) -> None:
        shown = self.of(workload)
        heights = [each.mb_per_s if each.content_bytes else each.per_s for each in shown]
        names = list(self.subjects)
        colours = [_COLOURS[names.index(each.subject) % len(_COLOURS)] for each in shown]
        bars = axis.bar(range(len(shown)), heights, 0.7, color=colours)
        axis.bar_label(bars, labels=[f"{height:,.0f}" for height in heights], fontsize=8, padding=2)
        axis.margins(y=0.15)
        axis.set_title(f"{workload} ({unit})", fontsize=10)
        axis.set_xticks(range(len(shown)), [self.subjects[each.subject].title for each in shown], fontsize=8)
