"""What a run found, for people (a table for each workload) and for programs (one JSON object)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.measure import Measurement
from holdfast.bench.run import Missing, Outcome, Plan, unsupported
from holdfast.bench.sketch import per_s, words
from holdfast.bench.subjects import facts
from holdfast.bench.target import Verdict, verdicts
from holdfast.bench.workload import WRITING, Workload, callers_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is printed, drawn or written about a run."""

    plan: Plan
    outcome: Outcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]

    @property
    def document_bytes(self) -> float:
        return self.plan.corpus.mean_bytes if self.plan.corpus else 19_000.0

    def missing(self) -> list[Missing]:
        return self.outcome.missing + (unsupported(self.plan) if self.plan.corpus else [])


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    corpus = report.plan.corpus
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "corpus": corpus
        and {
            "directory": str(corpus.directory),
            "documents": len(corpus.paths),
            "bytes": corpus.total_bytes,
            "mean_bytes": round(corpus.mean_bytes, 1),
        },
        "repeats": report.plan.repeats,
        "results": [_result(each, report) for each in report.outcome.measurements],
        "scales": [asdict(scale) for scale in report.outcome.scales],
        "missing": [asdict(each) for each in report.missing()],
        "targets": [asdict(verdict) for verdict in verdicts(report.outcome)],
    }


def _result(each: Measurement, report: Report) -> dict[str, Any]:
    sketch = per_s(each.workload, report.document_bytes)
    return {
        "subject": each.subject,
        "workload": each.workload.value,
        "label": each.label,
        "callers": each.callers,
        "durable": facts(each.subject).durable,
        "operations": each.operations,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "cpu_s": each.cost.cpu_s,
        "per_s": each.per_s,
        "per_cpu_s": each.per_cpu_s,
        "mb_per_s": each.mb_per_s,
        "rss_peak_bytes": each.cost.rss_peak_bytes,
        "rss_grown_bytes": each.rss_grown_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "sketch_per_s": sketch,
        "holdfast_ratio": _ratio(each, report.outcome),
    }


def _ratio(each: Measurement, outcome: Outcome) -> float | None:
    """How many times faster Holdfast's single form with the same number of callers was."""
    ours = outcome.find("holdfast", each.workload, each.callers)
    return ours.per_s / each.per_s if ours else None


def print_report(report: Report, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    _print_head(report, console)
    for workload in Workload:
        for callers in report.plan.callers:
            rows = _rows(report.outcome, workload, callers)
            if any(row.callers == callers for row in rows):
                console.print(_table(report, workload, callers, rows))
    if report.outcome.scales:
        console.print(_scale_table(report))
    for each in report.missing():
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(verdicts(report.outcome)))


def print_machine(machine: dict[str, str | int | float], packages: dict[str, str], console: Console) -> None:
    """Where the run took place, in two lines."""
    for facts_of in (machine, packages):
        console.print(" · ".join(f"{name} {value}" for name, value in facts_of.items()), highlight=False)


def _print_head(report: Report, console: Console) -> None:
    print_machine(report.machine, report.packages, console)
    if report.plan.corpus:
        corpus = report.plan.corpus
        console.print(
            f"{len(corpus.paths):,} documents from '{corpus.directory}', {corpus.total_bytes / _MB:.1f} MB, "
            f"mean {corpus.mean_bytes / 1e3:.1f} KB; median of {report.plan.repeats}",
            highlight=False,
        )


def _rows(outcome: Outcome, workload: Workload, callers: int) -> list[Measurement]:
    """The measurements for one table. Peers that take one writer only stand in every table, with their one caller."""
    rows = [each for each in outcome.measurements if each.workload == workload and each.callers == callers]
    present = {row.subject for row in rows}
    alone = [
        each
        for each in outcome.measurements
        if each.workload == workload and each.callers == 1 and each.subject not in present
    ]
    return rows + alone if callers > 1 else rows


def _table(report: Report, workload: Workload, callers: int, rows: Sequence[Measurement]) -> Table:
    from rich.table import Table

    limit = per_s(workload, report.document_bytes)
    caption = (
        f"sketch of the limit per core: {limit:,.0f}/s = {words(workload, report.document_bytes)}" if limit else ""
    )
    title = f"{workload} · {callers_words(callers)}"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", title_style="bold")
    table.add_column("subject", no_wrap=True)
    names = ("1/s", "ms", "MB/s", "CPU s", "1/CPU s", "memory MB", "disk MB", "of sketch", "Holdfast is")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("durable")
    for row in sorted(rows, key=lambda row: -row.per_s):
        table.add_row(*_cells(row, report, callers), style="bold" if row.subject == "holdfast" else "")
    return table


def _cells(row: Measurement, report: Report, callers: int) -> list[str]:
    limit = per_s(row.workload, report.document_bytes)
    ours = report.outcome.find("holdfast", row.workload, callers)
    alone = " (1 caller)" if row.callers != callers else ""
    return [
        facts(row.subject).title + alone,
        f"{row.per_s:,.0f}" if row.operations > 1 else "",
        f"{row.cost.seconds * 1e3:,.1f}",
        f"{row.mb_per_s:,.1f}" if row.content_bytes else "",
        f"{row.cost.cpu_s:.2f}",
        f"{row.per_cpu_s:,.0f}" if row.operations > 1 else "",
        f"{row.rss_grown_bytes / _MB:,.0f}",
        f"{row.disk_bytes / _MB:,.1f}" if row.disk_bytes else "",
        f"{row.per_s / limit:.0%}" if limit and row.subject.startswith("holdfast") else "",
        f"{ours.per_s / row.per_s:.2f}x" if ours and row.subject != "holdfast" else "",
        facts(row.subject).durable if row.workload in WRITING else "",
    ]


def _scale_table(report: Report) -> Table:
    from rich.table import Table

    table = Table(title="scale · small contents in one volume", title_justify="left", title_style="bold")
    names = (
        "blocks",
        "fill 1/s",
        "fill MB",
        "close s",
        "disk MB",
        "open s",
        "open MB",
        "peak MB",
        "fetch 1/s",
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for scale in report.outcome.scales:
        table.add_row(
            f"{scale.blocks:,}",
            f"{scale.blocks / scale.fill_s:,.0f}",
            f"{scale.fill_rss_peak_bytes / _MB:,.0f}",
            f"{scale.close_s:.2f}",
            f"{scale.disk_bytes / _MB:,.0f}",
            f"{scale.open_s:.3f}",
            f"{scale.rss_open_bytes / _MB:,.0f}",
            f"{scale.rss_peak_bytes / _MB:,.0f}",
            f"{scale.fetches / scale.fetch_s:,.0f}",
        )
    return table


def verdict_table(found: Sequence[Verdict]) -> Table:
    """The targets and what became of them."""
    from rich.table import Table

    table = Table(title="targets", title_justify="left", title_style="bold")
    for name in ("target", "needed", "measured", "verdict"):
        table.add_column(name)
    words_of = {True: "[green]met[/]", False: "[red]missed[/]", None: "not measured"}
    for verdict in found:
        by = f" by {verdict.by}" if verdict.by else ""
        table.add_row(verdict.target, verdict.needed, verdict.measured, words_of[verdict.met] + by)
    return table
