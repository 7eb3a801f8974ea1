"""`python -m benchmarks replay`."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmarks.archive.crawl import distinct_for
from benchmarks.harness.command import (
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    pywb_option,
    report_options,
    workload_option,
)
from benchmarks.replay.report import replay_report
from benchmarks.replay.run import ReplayPlan, run_replay
from benchmarks.replay.servers import SERVERS
from benchmarks.replay.workload import ReplayWorkload


@click.command("replay")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=10_000, show_default=True, help="Pages, captured twice each.")
@click.option("--only", metavar="SERVER", multiple=True, help="Measure these servers only.")
@workload_option
@click.option("--seconds", type=click.FloatRange(1), default=4.0, show_default=True, help="Of each measurement.")
@click.option(
    "--requests", type=click.IntRange(0), default=0, help="Instead: so many requests to Holdfast alone, and its memory."
)
@pywb_option
@report_options
def command(**options: Any) -> None:
    """Rewritten and raw replay, CDX and TimeMap queries, beside pywb; wrk asks."""
    workloads = known_names("workload", options["workload"], tuple(each.value for each in ReplayWorkload))
    plan = ReplayPlan(
        servers=known_names("server", options["only"], tuple(SERVERS)),
        corpus=chosen_corpus(options, distinct_for(options["pages"])),
        workloads=tuple(ReplayWorkload(name) for name in workloads),
        repeats=options["repeat"],
        seconds=options["seconds"],
        pywb=options["pywb"] or sys.executable,
        requests=options["requests"],
    )
    measure(plan, run_replay, replay_report, options)
