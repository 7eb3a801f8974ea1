"""The report of `python -m benchmarks stream`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report, table
from benchmarks.stream.run import StreamOutcome, StreamPlan
from benchmarks.stream.target import stream_verdicts
from benchmarks.stream.workload import CONSUMERS, SUBJECTS, UNITS, StreamWorkload

if TYPE_CHECKING:
    from rich.table import Table

_ABOUT = {
    StreamWorkload.RAW: "the payload of every capture, once",
    StreamWorkload.SHARED: f"the same for {CONSUMERS} consumers at the same time, all together",
}


def stream_report(plan: StreamPlan, outcome: StreamOutcome, machine: dict[str, str | int | float]) -> Report:
    """A table for each workload, and one of resumed streams."""
    crawls, found = outcome.crawls, outcome.comparison
    about = (
        f"{crawls.captures:,} captures in {len(crawls.files)} WARC files of {crawls.apparent_bytes / MB:.1f} MB, "
        f"payloads {crawls.content_bytes / MB:.1f} MB"
        if crawls
        else ""
    )
    tables = [found.table(workload, words) for workload, words in _ABOUT.items() if found.of(workload)]
    return Report(
        "stream",
        machine,
        package_versions({package for name in plan.subjects for package in SUBJECTS[name].packages}),
        plan.repeats,
        about,
        {
            "captures": crawls.captures if crawls else None,
            "content_bytes": crawls.content_bytes if crawls else None,
            "file_bytes": crawls.apparent_bytes if crawls else None,
            **found.as_json(),
            "resumed": [asdict(each) | {"seconds": each.seconds} for each in outcome.resumed],
        },
        [*tables, _resumed(outcome)] if outcome.resumed else tables,
        found.missing,
        stream_verdicts(outcome),
        partial(found.draw, UNITS) if found.figures else None,
    )


def _resumed(outcome: StreamOutcome) -> Table:
    rows = [
        (
            f"{each.captures:,}",
            each.order,
            f"{each.token_bytes:,}",
            *(f"{seconds:.3f}" for seconds in (each.open_s, each.first_s, each.seconds)),
        )
        for each in outcome.resumed
    ]
    columns = ("captures", "<order", "token bytes", "open s", "first s", "together s")
    return table("resume · the next capture after a token", columns, rows)
