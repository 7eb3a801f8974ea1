"""What a run found, for people (tables in the shape of the paper's figures) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.report import print_machine, verdict_table
from holdfast.bench.run import Missing
from holdfast.bench.webstore.figure import WebstoreFigure
from holdfast.bench.webstore.run import WebstoreOutcome, WebstorePlan
from holdfast.bench.webstore.sketch import limit_per_s, words
from holdfast.bench.webstore.subjects import SUBJECTS, facts
from holdfast.bench.webstore.target import webstore_verdicts
from holdfast.bench.webstore.workload import Experiment, Line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6
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


@dataclass(frozen=True, slots=True)
class WebstoreReport:
    """Everything that is printed, drawn or written about a run."""

    plan: WebstorePlan
    outcome: WebstoreOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]

    @property
    def document_bytes(self) -> float:
        return self.plan.corpus.mean_bytes

    def lines(self, experiment: Experiment) -> list[tuple[Line, str]]:
        """Lines of its figure that have points, with their subjects, in a fixed order."""
        present = {(each.line, each.subject) for each in self.outcome.figures if each.experiment == experiment}
        return [(line, name) for line in Line for name in SUBJECTS if (line, name) in present]


def as_json(report: WebstoreReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    plan, outcome = report.plan, report.outcome
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "corpus": {
            "directory": str(plan.corpus.directory),
            "pages": len(plan.corpus.paths),
            "content_bytes": plan.corpus.total_bytes,
        },
        "repeats": plan.repeats,
        "subjects": [
            {"subject": name, "title": facts(name).title, "stored": facts(name).stored, "deleted": facts(name).deleted}
            for name in plan.subjects
        ],
        "results": [_result(each, report) for each in outcome.figures],
        "missing": [asdict(each) for each in outcome.missing],
        "targets": [asdict(verdict) for verdict in webstore_verdicts(outcome)],
    }


def _result(each: WebstoreFigure, report: WebstoreReport) -> dict[str, Any]:
    return {
        "experiment": each.experiment.value,
        "line": each.line.value,
        "subject": each.subject,
        TITLES[each.experiment][1]: each.x,
        "operations": each.operations,
        "content_bytes": each.content_bytes,
        "seconds": each.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cpu_s,
        "per_s": each.per_s,
        "sketch_per_s": limit_per_s(each.line, report.document_bytes),
    }


def print_report(report: WebstoreReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    corpus = report.plan.corpus
    console.print(
        f"{len(corpus.paths):,} pages from '{corpus.directory}', {corpus.total_bytes / _MB:.1f} MB, "
        f"mean {corpus.mean_bytes / 1e3:.1f} KB; servers and clients on this machine; median of {report.plan.repeats}. "
        "Documents per second; below, seconds for all of them",
        highlight=False,
    )
    for experiment in report.plan.wanted.experiments:
        if report.lines(experiment):
            console.print(_table(report, experiment))
            console.print(words(experiment, report.document_bytes), style="dim", highlight=False)
    if report.outcome.figures:
        console.print(_promises(report))
    for (subject, reason), whats in _grouped(report.outcome.missing).items():
        more = f" and {len(whats) - 1} more" if len(whats) > 1 else ""
        console.print(f"[yellow]no figure[/] for {subject}, {whats[0]}{more}: {reason}", highlight=False)
    console.print(verdict_table(webstore_verdicts(report.outcome)))


def _table(report: WebstoreReport, experiment: Experiment) -> Table:
    from rich.table import Table

    table = Table(title=TITLES[experiment][0], title_justify="left", title_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("subject", no_wrap=True)
    xs = sorted({each.x for each in report.outcome.figures if each.experiment == experiment})
    for x in xs:
        table.add_column(str(x), justify="right", no_wrap=True)
    table.add_column("CPU ms", justify="right", no_wrap=True)
    before = None
    for line, name in report.lines(experiment):
        figures = report.outcome.of(experiment, line, name)
        cells = [line if line != before else "", facts(name).title, *_cells(figures, xs)]
        table.add_row(*cells, style="bold" if facts(name).is_ours else "")
        before = line
    return table


def _cells(figures: list[WebstoreFigure], xs: list[int]) -> list[str]:
    by_x = {each.x: each for each in figures}
    cells = [f"{by_x[x].per_s:,.0f}\n{by_x[x].seconds:.2f} s" if x in by_x else "" for x in xs]
    return [*cells, f"{min(each.cpu_ms for each in figures):.2f}"]


def _grouped(missing: list[Missing]) -> dict[tuple[str, str], list[str]]:
    """What is missing for the same reason is told in one line."""
    whats: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        whats.setdefault((each.subject, each.reason), []).append(each.what)
    return whats


def _promises(report: WebstoreReport) -> Table:
    """What each subject guarantees when it has answered."""
    from rich.table import Table

    table = Table(title="durable when it was answered", title_justify="left", title_style="bold")
    for name in ("subject", "a store", "a deletion"):
        table.add_column(name)
    for name in report.plan.subjects:
        table.add_row(facts(name).title, facts(name).stored, facts(name).deleted)
    return table
