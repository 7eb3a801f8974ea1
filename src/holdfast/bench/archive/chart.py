"""The run as a picture: one panel for each workload and form, one bar for each subject."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.bench.archive.figure import Figure
from holdfast.bench.archive.report import ArchiveReport
from holdfast.bench.archive.workload import SUBJECTS, ArchiveWorkload, facts

_COLUMNS = 3
_COLOURS = ("#0b6e4f", "#6fb98f", "#c0504d", "#4f81bd", "#e08e45", "#8c8c8c", "#8064a2", "#4bacc6")
_UNITS = {
    ArchiveWorkload.SPACE: "MB, less is better",
    ArchiveWorkload.LOOKUP: "URLs per second",
}


def draw(report: ArchiveReport, path: Path) -> None:
    """Writes the chart as PNG. Needs matplotlib, but no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    outcome = report.outcome
    panels = [(workload, form) for workload in ArchiveWorkload for form in outcome.forms(workload)]
    rows = max(1, -(-len(panels) // _COLUMNS))
    figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(15, 4.2 * rows), squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number < len(panels):
            _panel(axis, report, *panels[number])
        else:
            axis.axis("off")
    figure.suptitle(_title(report), fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, report: ArchiveReport, workload: ArchiveWorkload, form: str) -> None:
    present = [each for each in report.outcome.figures if each.workload is workload and each.form == form]
    ordered = sorted(present, key=lambda each: list(SUBJECTS).index(each.subject))
    heights = [_height(each) for each in ordered]
    colours = [_COLOURS[list(SUBJECTS).index(each.subject) % len(_COLOURS)] for each in ordered]
    bars = axis.bar(range(len(ordered)), heights, 0.7, color=colours)
    axis.bar_label(bars, labels=[f"{height:,.0f}" for height in heights], fontsize=8, padding=2)
    axis.margins(y=0.15)
    name = f"{workload}, {form}" if form else workload
    axis.set_title(f"{name} ({_UNITS.get(workload, 'records per second')})", fontsize=10)
    axis.set_xticks(range(len(ordered)), [facts(each.subject).title for each in ordered], fontsize=8)


def _height(each: Figure) -> float:
    return each.disk_bytes / 1e6 if each.workload is ArchiveWorkload.SPACE else each.per_s


def _title(report: ArchiveReport) -> str:
    machine, crawls = report.machine, report.outcome.crawls
    size = f" · {crawls.pages:,} pages crawled twice" if crawls else ""
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    return f"holdfast bench archive · commit {machine.get('commit')} · {where}{size}"
