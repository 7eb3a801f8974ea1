"""The run as a picture: rate, processor time and latency, bars for each workload, one for each server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.bench.replay.figure import ReplayFigure
from holdfast.bench.replay.report import ReplayReport
from holdfast.bench.replay.servers import SERVERS

_COLOURS = ("#0b6e4f", "#c0504d", "#e08e45")
_PANELS: tuple[tuple[str, Callable[[ReplayFigure], float]], ...] = (
    ("requests per second (logarithmic)", lambda each: each.per_s),
    ("processor time of an answer (ms, logarithmic, less is better)", lambda each: each.cpu_ms),
    ("99th percentile at top rate (ms, logarithmic)", lambda each: each.top.p99_ms),
    ("99th percentile at half of the rate (ms, logarithmic)", lambda each: each.half.p99_ms if each.half else 0.0),
)


def draw(report: ReplayReport, path: Path) -> None:
    """Writes the chart as PNG. Needs matplotlib, but no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(14, 8), squeeze=False)
    for axis, (title, height) in zip(axes.flat, _PANELS, strict=True):
        _panel(axis, report, title, height)
    axes.flat[0].legend(fontsize=8)
    machine = report.machine
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    figure.suptitle(f"holdfast bench replay · commit {machine.get('commit')} · {where}", fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, report: ReplayReport, title: str, height: Callable[[ReplayFigure], float]) -> None:
    workloads = report.plan.workloads
    names = [name for name in SERVERS if any(each.server == name for each in report.outcome.figures)]
    width = 0.8 / max(len(names), 1)
    for number, name in enumerate(names):
        found = [report.outcome.find(name, workload) for workload in workloads]
        heights = [height(each) if each else 0.0 for each in found]
        places = [place + (number - (len(names) - 1) / 2) * width for place in range(len(workloads))]
        colour = _COLOURS[list(SERVERS).index(name) % len(_COLOURS)]
        bars = axis.bar(places, heights, width, color=colour, label=SERVERS[name].title)
        labels = [f"{value:,.0f}" if value >= 10 else f"{value:.2f}" for value in heights]
        axis.bar_label(bars, labels=labels, padding=2, fontsize=8)
    axis.set_yscale("symlog", linthresh=0.1)
    axis.margins(y=0.15)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(workloads)), [str(workload) for workload in workloads])
