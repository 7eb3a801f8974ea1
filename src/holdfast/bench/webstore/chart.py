"""The run as a picture: the paper's figures 7 to 12, total time over clients, duplicates or volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.bench.webstore.report import TITLES, WebstoreReport
from holdfast.bench.webstore.subjects import SUBJECTS, facts
from holdfast.bench.webstore.workload import Experiment, Line

_COLOURS = ("#0b6e4f", "#6fb98f", "#c0504d", "#e08e45", "#4f81bd", "#8064a2")
_STYLES: dict[Line, str] = {  # what is not here is drawn solid
    Line.DELETE_DUPLICATE: "--",
    Line.STORE_DUPLICATE: "--",
    Line.REGULAR: "--",
    Line.COMPARE: ":",
    Line.ELIMINATING: "--",
    Line.ELIMINATING_DUPLICATE: ":",
}
_MARKS: dict[Line, str] = {Line.COMPARE: "s", Line.ELIMINATING_DUPLICATE: "v", Line.RETRIEVE: "^"}
_COLUMNS = 3


def draw(report: WebstoreReport, path: Path) -> None:
    """Writes the chart as PNG. Needs matplotlib, but no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    experiments = [each for each in report.plan.wanted.experiments if report.lines(each)]
    rows = max(1, -(-len(experiments) // _COLUMNS))
    figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(18, 6.5 * rows), squeeze=False)
    for number, axis in enumerate(axes.flat):
        if number < len(experiments):
            _panel(axis, report, experiments[number])
        else:
            axis.axis("off")
    machine = report.machine
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    pages = f"{len(report.plan.corpus.paths):,} pages of {report.document_bytes / 1e3:.1f} KB"
    figure.suptitle(f"holdfast bench webstore · commit {machine.get('commit')} · {where} · {pages}", fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _panel(axis: Any, report: WebstoreReport, experiment: Experiment) -> None:
    title, what = TITLES[experiment]
    for line, name in report.lines(experiment):
        points = report.outcome.of(experiment, line, name)
        axis.plot(
            [each.x for each in points],
            [each.seconds for each in points],
            color=_COLOURS[list(SUBJECTS).index(name) % len(_COLOURS)],
            linestyle=_STYLES.get(line, "-"),
            marker=_MARKS.get(line, "o"),
            markersize=4,
            linewidth=2.0 if facts(name).is_ours else 1.2,
            label=f"{facts(name).title}: {line}",
        )
    axis.set_yscale("log")
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("% duplicates" if experiment is Experiment.MODES else what, fontsize=8)
    axis.set_xticks(sorted({each.x for each in report.outcome.figures if each.experiment == experiment}))
    axis.set_ylabel("s for all pages, less is better", fontsize=8)
    axis.grid(visible=True, which="both", linewidth=0.3)
    axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
