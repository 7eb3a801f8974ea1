"""The run as a picture: one panel for each workload, grouped bars by number of callers, the sketch as a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.bench.report import Report
from holdfast.bench.sketch import per_s
from holdfast.bench.subjects import SUBJECTS, facts
from holdfast.bench.workload import Workload, callers_words

_COLUMNS = 3
_COLOURS = ("#0b6e4f", "#6fb98f", "#8c8c8c", "#c0504d", "#e08e45", "#4f81bd", "#8064a2", "#4bacc6")


def draw(report: Report, path: Path) -> None:
    """Writes the chart as PNG. Needs matplotlib, but no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    present = {each.workload for each in report.outcome.measurements}
    workloads = [workload for workload in Workload if workload in present]
    rows = max(1, -(-len(workloads) // _COLUMNS))
    figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(15, 4.2 * rows), squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number < len(workloads):
            _panel(axis, report, workloads[number])
        else:
            axis.axis("off")
    _legend(figure, report)
    figure.suptitle(_title(report), fontsize=10)
    figure.tight_layout(rect=(0, 0.07, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, report: Report, workload: Workload) -> None:
    measurements = [each for each in report.outcome.measurements if each.workload == workload]
    callers = sorted({each.callers for each in measurements})
    subjects = [name for name in SUBJECTS if any(each.subject == name for each in measurements)]
    width = 0.8 / max(1, len(subjects))
    for place, name in enumerate(subjects):
        for each in (each for each in measurements if each.subject == name):
            x = callers.index(each.callers) + (place - (len(subjects) - 1) / 2) * width
            height = each.cost.seconds * 1e3 if workload is Workload.OPEN else each.per_s
            bars = axis.bar(x, height, width * 0.92, color=_colour(name))
            axis.bar_label(bars, labels=[_number(height)], fontsize=6, rotation=90, padding=2)
    limit = per_s(workload, report.document_bytes)
    if limit:
        axis.axhline(limit, color="black", linewidth=0.8, linestyle="--")
    axis.set_yscale("log")
    axis.margins(y=0.2)
    axis.set_title(f"{workload} ({'ms, less is better' if workload is Workload.OPEN else 'per second'})", fontsize=10)
    axis.set_xticks(range(len(callers)), [callers_words(each) for each in callers])


def _legend(figure: Any, report: Report) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = {each.subject for each in report.outcome.measurements}
    handles: list[Any] = [
        Patch(
            color=_colour(name),
            label=f"{facts(name).title} (durable: {facts(name).durable.partition(':')[0]})",
        )
        for name in SUBJECTS
        if name in present
    ]
    handles.append(Line2D([], [], color="black", linestyle="--", linewidth=0.8, label="sketch of the limit, per core"))
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=7, frameon=False)


def _title(report: Report) -> str:
    machine = report.machine
    documents = len(report.plan.corpus.paths) if report.plan.corpus else 0
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    return (
        f"holdfast bench storage · commit {machine.get('commit')} · {where} · "
        f"{documents:,} documents of {report.document_bytes / 1e3:.1f} KB"
    )


def _colour(name: str) -> str:
    return _COLOURS[list(SUBJECTS).index(name) % len(_COLOURS)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
