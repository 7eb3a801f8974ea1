"""What a run found, for people (a table for each workload) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.bench.query.run import QueryOutcome, QueryPlan
from holdfast.bench.query.sample import QUERIES
from holdfast.bench.query.target import query_verdicts
from holdfast.bench.query.workload import UNITS, QueryWorkload
from holdfast.bench.report import print_machine, verdict_table

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = 1
_MB = 1e6
_ABOUT = {
    QueryWorkload.BUILD: "the index of the archive, from nothing; once",
    QueryWorkload.INDEX: "text, title and links given",
    QueryWorkload.WORD: "one word, ten hits with title and address, and their number",
    QueryWorkload.PHRASE: "two words side by side",
    QueryWorkload.FILTERED: "a word, within a year, not on one host",
    QueryWorkload.FACETS: "a word, with all facets and the timeline",
    QueryWorkload.SNIPPETS: "a word, with a piece of the text of each hit",
}


@dataclass(frozen=True, slots=True)
class QueryReport:
    """Everything that is printed, drawn or written about a run."""

    plan: QueryPlan
    outcome: QueryOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]


def as_json(report: QueryReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome, crawls = report.outcome, report.outcome.crawls
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "repeats": report.plan.repeats,
        "queries": QUERIES,
        "captures": crawls.captures if crawls else None,
        "content_bytes": crawls.content_bytes if crawls else None,
        **outcome.comparison.as_json(),
        "targets": [asdict(verdict) for verdict in query_verdicts(outcome)],
    }


def print_report(report: QueryReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    outcome, crawls = report.outcome, report.outcome.crawls
    if crawls is not None:
        console.print(
            f"{crawls.captures:,} captures, payloads {crawls.content_bytes / _MB:.1f} MB; up to {QUERIES} queries of "
            f"each kind, asked once before; median of {report.plan.repeats}",
            highlight=False,
        )
    for workload, about in _ABOUT.items():
        if outcome.comparison.of(workload):
            console.print(outcome.comparison.table(workload, about))
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(query_verdicts(outcome)))


def draw(report: QueryReport, path: Path) -> None:
    """The run as a picture."""
    machine = report.machine
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    title = f"holdfast bench query · commit {machine.get('commit')} · {where}"
    report.outcome.comparison.draw(title, UNITS, path)
