"""`holdfast bench stream`: streams beside the readers of WARC files, and beside bare zstd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.bench_output import (
    Publication,
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    report_options,
    workload_option,
)

if TYPE_CHECKING:
    from holdfast.bench.stream.run import StreamPlan

CAPTURES_DEFAULT = 1_000_000


@click.command("stream")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=10_000, show_default=True, help="Pages, captured twice each.")
@click.option(
    "--captures",
    type=click.IntRange(0),
    default=CAPTURES_DEFAULT,
    show_default=True,
    help="Of the archive in which a paused stream goes on; 0 for none.",
)
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@report_options
def stream_(**options: Any) -> None:
    """Streams of contents, alone and shared, and how fast one goes on; beside FastWARC, warcio, datatrove and zstd.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.stream.run import run_streams

    plan = _plan(options)
    measure(plan, run_streams, _publication, options)


def _plan(options: dict[str, Any]) -> StreamPlan:
    from holdfast.bench.archive.crawl import distinct_for
    from holdfast.bench.stream.run import StreamPlan
    from holdfast.bench.stream.workload import SUBJECTS, StreamWorkload

    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in StreamWorkload))
    corpus = None
    if set(workloads) != {StreamWorkload.RESUME}:
        corpus = chosen_corpus(options, distinct_for(options["pages"]))
    return StreamPlan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(StreamWorkload(name) for name in workloads),
        repeats=options["repeat"],
        captures=options["captures"],
    )


def _publication(plan: StreamPlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.stream import report
    from holdfast.bench.stream.workload import SUBJECTS

    packages = {package for name in plan.subjects for package in SUBJECTS[name].packages}
    found = report.StreamReport(plan, outcome, machine_facts(directory), package_versions(packages))
    draw = partial(report.draw, found) if outcome.comparison.figures else None
    return Publication("stream", report.as_json(found), partial(report.print_report, found), draw)
