"""What a run found, for people (tables) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.replay.figure import Answered, ReplayFigure
from holdfast.bench.replay.run import ReplayOutcome, ReplayPlan
from holdfast.bench.replay.servers import OURS, SERVERS
from holdfast.bench.replay.target import replay_verdicts
from holdfast.bench.replay.wrk import CONNECTIONS, THINKERS
from holdfast.bench.report import print_machine, verdict_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Everything that is printed, drawn or written about a run."""

    plan: ReplayPlan
    outcome: ReplayOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]


def as_json(report: ReplayReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome, plan = report.outcome, report.plan
    crawls = outcome.crawls
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "crawls": crawls
        and {
            "corpus": str(crawls.corpus.directory),
            "pages": crawls.pages,
            "captures": crawls.captures,
            "content_bytes": crawls.content_bytes,
        },
        "repeats": plan.repeats,
        "seconds": plan.seconds,
        "connections": {"top": CONNECTIONS, "half": THINKERS},
        "results": [_result(each, outcome) for each in outcome.figures],
        "memory": [asdict(each) for each in outcome.memories],
        "soak": outcome.soak and asdict(outcome.soak),
        "missing": [asdict(each) for each in outcome.missing],
        "targets": [asdict(verdict) for verdict in replay_verdicts(outcome)],
    }


def _result(each: ReplayFigure, outcome: ReplayOutcome) -> dict[str, Any]:
    return {
        "server": each.server,
        "workload": each.workload,
        "requests_per_s": each.per_s,
        "requests_per_s_all": list(each.per_s_all),
        "cpu_ms": each.cpu_ms,
        "answer_bytes": each.answer_bytes,
        "top": _answered(each.top),
        "half": each.half and _answered(each.half),
        "holdfast_ratio": _ratio(each, outcome),
    }


def _answered(each: Answered) -> dict[str, Any]:
    return {"requests_per_s": each.per_s} | asdict(each)


def _ratio(each: ReplayFigure, outcome: ReplayOutcome) -> float | None:
    """How many times faster Holdfast was."""
    ours = outcome.find(OURS, each.workload)
    return ours.per_s / each.per_s if ours else None


def print_report(report: ReplayReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    outcome, plan = report.outcome, report.plan
    if outcome.crawls is not None:
        crawls = outcome.crawls
        console.print(
            f"{crawls.captures:,} captures of {crawls.pages:,} pages ({crawls.content_bytes / _MB:.1f} MB) from "
            f"'{crawls.corpus.directory}'; wrk on this machine, {CONNECTIONS} connections, "
            f"median of {plan.repeats} times {plan.seconds:g} s",
            highlight=False,
        )
    for workload in plan.workloads:
        figures = [each for each in outcome.figures if each.workload == workload]
        if figures:
            console.print(_table(workload, figures, outcome))
    _print_memory(outcome, console)
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(replay_verdicts(outcome)))


def _print_memory(outcome: ReplayOutcome, console: Console) -> None:
    for each in outcome.memories:
        before, after = each.before_bytes / _MB, each.after_bytes / _MB
        console.print(
            f"memory of {SERVERS[each.server].title}: {before:,.0f} MB before, {after:,.0f} MB after", highlight=False
        )
    if outcome.soak is not None:
        soak = outcome.soak
        parts = ", ".join(f"{each / _MB:,.0f}" for each in soak.memory_bytes)
        console.print(
            f"{soak.requests:,} requests in {soak.seconds:,.0f} s; MB after each tenth of them: {parts}",
            highlight=False,
        )


def _table(title: str, figures: list[ReplayFigure], outcome: ReplayOutcome) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("server", no_wrap=True)
    names = ("1/s", "p50 ms", "p99 ms", "half 1/s", "half p50 ms", "half p99 ms", "CPU ms", "KB", "Holdfast is")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("how it runs")
    for each in sorted(figures, key=lambda each: -each.per_s):
        server = SERVERS[each.server]
        table.add_row(server.title, *_cells(each, outcome), server.how, style="bold" if each.server == OURS else "")
    return table


def _cells(each: ReplayFigure, outcome: ReplayOutcome) -> list[str]:
    times, half = _ratio(each, outcome), each.half
    return [
        f"{each.per_s:,.0f}",
        f"{each.top.p50_ms:.1f}",
        f"{each.top.p99_ms:.1f}",
        *((f"{half.per_s:,.0f}", f"{half.p50_ms:.1f}", f"{half.p99_ms:.1f}") if half else ("", "", "")),
        f"{each.cpu_ms:.2f}",
        f"{each.answer_bytes / 1e3:.1f}",
        f"{times:.1f}x" if times is not None and each.server != OURS else "",
    ]
