"""What a run found, for people (a table for each workload) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.bench.report import print_machine, verdict_table
from holdfast.bench.stream.run import StreamOutcome, StreamPlan
from holdfast.bench.stream.target import stream_verdicts
from holdfast.bench.stream.workload import CONSUMERS, UNITS, StreamWorkload

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6
_ABOUT = {
    StreamWorkload.RAW: "the payload of every capture, once",
    StreamWorkload.SHARED: f"the same for {CONSUMERS} consumers at the same time, all together",
}


@dataclass(frozen=True, slots=True)
class StreamReport:
    """Everything that is printed, drawn or written about a run."""

    plan: StreamPlan
    outcome: StreamOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]


def as_json(report: StreamReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome, crawls = report.outcome, report.outcome.crawls
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "repeats": report.plan.repeats,
        "captures": crawls.captures if crawls else None,
        "content_bytes": crawls.content_bytes if crawls else None,
        "file_bytes": crawls.apparent_bytes if crawls else None,
        **outcome.comparison.as_json(),
        "resumed": [asdict(each) | {"seconds": each.seconds} for each in outcome.resumed],
        "targets": [asdict(verdict) for verdict in stream_verdicts(outcome)],
    }


def print_report(report: StreamReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    outcome, crawls = report.outcome, report.outcome.crawls
    if crawls is not None:
        console.print(
            f"{crawls.captures:,} captures in {len(crawls.files)} WARC files of {crawls.apparent_bytes / _MB:.1f} MB, "
            f"payloads {crawls.content_bytes / _MB:.1f} MB; median of {report.plan.repeats}",
            highlight=False,
        )
    for workload, about in _ABOUT.items():
        if outcome.comparison.of(workload):
            console.print(outcome.comparison.table(workload, about))
    if outcome.resumed:
        console.print(_resumed(outcome))
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(stream_verdicts(outcome)))


def _resumed(outcome: StreamOutcome) -> Table:
    from rich.table import Table

    table = Table(title="resume · the next capture behind a token", title_justify="left", title_style="bold")
    for name in ("captures", "order", "token bytes", "open s", "first s", "together s"):
        table.add_column(name, justify="left" if name == "order" else "right", no_wrap=True)
    for each in outcome.resumed:
        times = (f"{seconds:.3f}" for seconds in (each.open_s, each.first_s, each.seconds))
        table.add_row(f"{each.captures:,}", each.order, f"{each.token_bytes:,}", *times)
    return table


def draw(report: StreamReport, path: Path) -> None:
    """The run as a picture."""
    machine = report.machine
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    title = f"holdfast bench stream · commit {machine.get('commit')} · {where}"
    report.outcome.comparison.draw(title, UNITS, path)
