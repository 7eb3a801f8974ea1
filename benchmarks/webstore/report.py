"""The report of `python -m benchmarks webstore`: tables and panels in the shape of the paper's figures 7 to 12."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.chart import colour, draw
from benchmarks.harness.machine import debian_versions, package_versions
from benchmarks.harness.report import MB, Report, table
from benchmarks.webstore.figure import WebstoreFigure
from benchmarks.webstore.run import WebstoreOutcome, WebstorePlan
from benchmarks.webstore.sketch import limit_per_s, words
from benchmarks.webstore.subjects import SUBJECTS, facts
from benchmarks.webstore.target import webstore_verdicts
from benchmarks.webstore.workload import Experiment, Line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

TITLES: dict[Experiment, tuple[str, str]] = {  # what it is, and what stands on the axis
    Experiment.RETRIEVE: ("experiment 1 (figure 7): retrieving, by clients", "clients"),
    Experiment.DELETE: ("experiment 2 (figure 8): deleting, by clients", "clients"),
    Experiment.STORE: ("experiment 3 (figure 9): storing, by clients", "clients"),
    Experiment.MODES: ("experiment 4 (figure 10): modes of a store, by per cent of duplicates", "duplicates"),
    Experiment.ELIMINATION: (
        "experiment 5 (figure 11): elimination of duplicates with one client, by volumes",
        "volumes",
    ),
    Experiment.BALANCE: ("experiment 6 (figure 12): load balancing with four clients, by volumes", "volumes"),
}
_STYLES: dict[Line, str] = {  # what is not here is drawn solid
    Line.DELETE_DUPLICATE: "--",
    Line.STORE_DUPLICATE: "--",
    Line.REGULAR: "--",
    Line.COMPARE: ":",
    Line.ELIMINATING: "--",
    Line.ELIMINATING_DUPLICATE: ":",
}
_MARKS: dict[Line, str] = {Line.COMPARE: "s", Line.ELIMINATING_DUPLICATE: "v", Line.RETRIEVE: "^"}


def webstore_report(plan: WebstorePlan, outcome: WebstoreOutcome, machine: dict[str, str | int | float]) -> Report:
    """A table for each experiment, with the sketch of the limit; what each subject guarantees."""
    corpus = plan.corpus
    versions = package_versions(package for name in plan.subjects for package in facts(name).packages)
    versions |= debian_versions(program for name in plan.subjects for program in facts(name).programs)
    shown = [each for each in plan.wanted.experiments if _lines(outcome, each)]
    parts: list[RenderableType] = []
    for experiment in shown:
        parts += [_table(outcome, experiment), f"[dim]{words(experiment, corpus.mean_bytes)}[/]"]
    if outcome.figures:
        parts.append(_promises(plan))
    return Report(
        "webstore",
        machine,
        versions,
        plan.repeats,
        f"{len(corpus.paths):,} pages from '{corpus.directory}', {corpus.total_bytes / MB:.1f} MB, mean "
        f"{corpus.mean_bytes / 1e3:.1f} KB; servers and clients on this machine; documents per second, below that "
        "seconds for all of them",
        {
            "corpus": {
                "directory": str(corpus.directory),
                "pages": len(corpus.paths),
                "content_bytes": corpus.total_bytes,
            },
            "subjects": [
                {"subject": name, "title": its.title, "stored": its.stored, "deleted": its.deleted}
                for name in plan.subjects
                for its in (facts(name),)
            ],
            "results": [_result(each, corpus.mean_bytes) for each in outcome.figures],
        },
        parts,
        outcome.missing,
        webstore_verdicts(outcome),
        partial(_draw, outcome, shown) if outcome.figures else None,
    )


def _lines(outcome: WebstoreOutcome, experiment: Experiment) -> list[tuple[Line, str]]:
    """Lines of its figure that have points, with their subjects, in a fixed order."""
    present = {(each.line, each.subject) for each in outcome.figures if each.experiment == experiment}
    return [(line, name) for line in Line for name in SUBJECTS if (line, name) in present]


def _result(each: WebstoreFigure, mean_bytes: float) -> dict[str, Any]:
    return {
        "experiment": each.experiment.value,
        "line": each.line.value,
        "subject": each.subject,
        TITLES[each.experiment][1]: each.x,
        "operations": each.operations,
        "content_bytes": each.content_bytes,
        "seconds": each.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cost.cpu_s,
        "cpu_us": each.cpu_us,
        "server_cpu_us": each.server_cpu_us,
        "client_cpu_us": each.client_cpu_us,
        "per_s": each.per_s,
        "sketch_per_s": limit_per_s(each.line, mean_bytes),
    }


def _table(outcome: WebstoreOutcome, experiment: Experiment) -> Table:
    xs = sorted({each.x for each in outcome.figures if each.experiment == experiment})
    ours = {its.title for name in SUBJECTS if (its := facts(name)).is_ours}
    rows: list[list[str]] = []
    before = None
    for line, name in _lines(outcome, experiment):
        figures = outcome.of(experiment, line, name)
        by_x = {each.x: each for each in figures}
        cells = [f"{by_x[x].per_s:,.0f}\n{by_x[x].seconds:.2f} s" if x in by_x else "" for x in xs]
        cheapest = min(figures, key=lambda each: each.cpu_us)
        cpu = [f"{cheapest.client_cpu_us:,.0f}", f"{cheapest.server_cpu_us:,.0f}"]
        rows.append([str(line) if line != before else "", facts(name).title, *cells, *cpu])
        before = line
    columns = ("", "<subject", *map(str, xs), "client CPU µs", "server CPU µs")
    return table(TITLES[experiment][0], columns, rows, bold=lambda row: row[1] in ours)


def _promises(plan: WebstorePlan) -> Table:
    """What each subject guarantees when it has answered."""
    rows = [(facts(name).title, facts(name).stored, facts(name).deleted) for name in plan.subjects]
    return table("durable when it was answered", ("subject", "<a store", "<a deletion"), rows)


def _draw(outcome: WebstoreOutcome, experiments: list[Experiment], title: str, path: Path) -> None:
    draw(title, path, [partial(_panel, outcome, each) for each in experiments], panel_size=(6.0, 6.5))


def _panel(outcome: WebstoreOutcome, experiment: Experiment, axis: Any) -> None:
    title, what = TITLES[experiment]
    for line, name in _lines(outcome, experiment):
        points = outcome.of(experiment, line, name)
        axis.plot(
            [each.x for each in points],
            [each.seconds for each in points],
            color=colour(tuple(SUBJECTS), name),
            linestyle=_STYLES.get(line, "-"),
            marker=_MARKS.get(line, "o"),
            markersize=4,
            linewidth=2.0 if facts(name).is_ours else 1.2,
            label=f"{facts(name).title}: {line}",
        )
    axis.set_yscale("log")
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("% duplicates" if experiment is Experiment.MODES else what, fontsize=8)
    axis.set_xticks(sorted({each.x for each in outcome.figures if each.experiment == experiment}))
    axis.set_ylabel("s for all pages, less is better", fontsize=8)
    axis.grid(visible=True, which="both", linewidth=0.3)
    axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
