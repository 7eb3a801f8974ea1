"""The report of `python -m benchmarks replay`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.chart import colour, draw, number
from benchmarks.harness.figure import OURS
from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report, table, times
from benchmarks.replay.figure import Answered, ReplayFigure
from benchmarks.replay.run import ReplayOutcome, ReplayPlan
from benchmarks.replay.servers import SERVERS, pywb_versions
from benchmarks.replay.target import replay_verdicts
from benchmarks.replay.wrk import CONNECTIONS, THINKERS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_PACKAGES = ("starlette", "uvloop", "httptools", "turbohtml", "rocksdict")
_PANELS: tuple[tuple[str, Callable[[ReplayFigure], float]], ...] = (
    ("requests per second (logarithmic)", lambda each: each.per_s),
    ("processor time of an answer (ms, logarithmic, less is better)", lambda each: each.cpu_ms),
    ("99th percentile at top rate (ms, logarithmic)", lambda each: each.top.p99_ms),
    ("99th percentile at half of the rate (ms, logarithmic)", lambda each: each.half.p99_ms if each.half else 0.0),
)


def replay_report(plan: ReplayPlan, outcome: ReplayOutcome, machine: dict[str, str | int | float]) -> Report:
    """A table for each workload, and what memory the servers took."""
    crawls = outcome.crawls
    about = (
        f"{crawls.captures:,} captures of {crawls.pages:,} pages ({crawls.content_bytes / MB:.1f} MB) from "
        f"'{crawls.corpus.directory}'; wrk on this machine, {CONNECTIONS} connections, {plan.seconds:g} s each"
        if crawls
        else ""
    )
    parts: list[RenderableType] = [
        _table(str(workload), figures, outcome)
        for workload in plan.workloads
        if (figures := [each for each in outcome.figures if each.workload == workload])
    ]
    return Report(
        "replay",
        machine,
        package_versions(_PACKAGES) | ({} if plan.requests else pywb_versions(plan.pywb)),
        plan.repeats,
        about,
        {
            "crawls": crawls
            and {
                "corpus": str(crawls.corpus.directory),
                "pages": crawls.pages,
                "captures": crawls.captures,
                "content_bytes": crawls.content_bytes,
            },
            "seconds": plan.seconds,
            "connections": {"top": CONNECTIONS, "half": THINKERS},
            "results": [_result(each, outcome) for each in outcome.figures],
            "memory": [asdict(each) for each in outcome.memories],
            "soak": outcome.soak and asdict(outcome.soak),
        },
        [*parts, *_memory(outcome)],
        outcome.missing,
        replay_verdicts(outcome),
        partial(_draw, plan, outcome) if outcome.figures else None,
    )


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


def _memory(outcome: ReplayOutcome) -> list[str]:
    lines = [
        f"memory of {SERVERS[each.server].title}: {each.before_bytes / MB:,.0f} MB before, "
        f"{each.after_bytes / MB:,.0f} MB after"
        for each in outcome.memories
    ]
    if outcome.soak is not None:
        soak = outcome.soak
        parts = ", ".join(f"{each / MB:,.0f}" for each in soak.memory_bytes)
        lines.append(f"{soak.requests:,} requests in {soak.seconds:,.0f} s; MB after each tenth of them: {parts}")
    return lines


def _table(title: str, figures: list[ReplayFigure], outcome: ReplayOutcome) -> Table:
    columns = ("server", "1/s", "p50 ms", "p99 ms", "half 1/s", "half p50 ms", "half p99 ms", "CPU ms", "KB")
    rows = [_cells(each, outcome) for each in sorted(figures, key=lambda each: -each.per_s)]
    ours = SERVERS[OURS].title
    return table(title, (*columns, "Holdfast is", "<how it runs"), rows, bold=lambda row: row[0] == ours)


def _cells(each: ReplayFigure, outcome: ReplayOutcome) -> list[str]:
    half = each.half
    server = SERVERS[each.server]
    return [
        server.title,
        f"{each.per_s:,.0f}",
        f"{each.top.p50_ms:.1f}",
        f"{each.top.p99_ms:.1f}",
        *((f"{half.per_s:,.0f}", f"{half.p50_ms:.1f}", f"{half.p99_ms:.1f}") if half else ("", "", "")),
        f"{each.cpu_ms:.2f}",
        f"{each.answer_bytes / 1e3:.1f}",
        times(_ratio(each, outcome), 1) if each.server != OURS else "",
        server.how,
    ]


def _draw(plan: ReplayPlan, outcome: ReplayOutcome, title: str, path: Path) -> None:
    panels = [partial(_panel, plan, outcome, name, height) for name, height in _PANELS]
    draw(title, path, panels, columns=2, panel_size=(7.0, 4.0))


def _panel(
    plan: ReplayPlan, outcome: ReplayOutcome, title: str, height: Callable[[ReplayFigure], float], axis: Any
) -> None:
    workloads = plan.workloads
    names = [name for name in SERVERS if any(each.server == name for each in outcome.figures)]
    width = 0.8 / max(len(names), 1)
    for order, name in enumerate(names):
        found = [outcome.find(name, workload) for workload in workloads]
        heights = [height(each) if each else 0.0 for each in found]
        places = [place + (order - (len(names) - 1) / 2) * width for place in range(len(workloads))]
        drawn = axis.bar(places, heights, width, color=colour(tuple(SERVERS), name), label=SERVERS[name].title)
        axis.bar_label(drawn, labels=[number(value) for value in heights], padding=2, fontsize=8)
    axis.set_yscale("symlog", linthresh=0.1)
    axis.margins(y=0.15)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(workloads)), [str(workload) for workload in workloads])
    axis.legend(fontsize=8)
