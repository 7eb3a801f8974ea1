"""`holdfast bench replay`: the archive served beside pywb, and asked by wrk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.bench_output import (
    Meter,
    Publication,
    chosen_corpus,
    corpus_option,
    exit_for,
    known_names,
    publish,
    pywb_option,
    report_options,
    workload_option,
)

if TYPE_CHECKING:
    from holdfast.bench.replay.run import ReplayPlan


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
def replay_(**options: Any) -> None:
    """Rewritten and raw replay, CDX and TimeMap queries, beside pywb; wrk asks.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.replay.run import run_replay
    from holdfast.bench.run import scratch
    from holdfast.bench.subject import Unavailable
    from holdfast.errors import UsageError

    plan = _plan(options)
    with scratch(options["work_dir"]) as directory, Meter() as meter:
        try:
            outcome = run_replay(plan, directory, meter.show)
        except Unavailable as failure:
            raise UsageError(str(failure)) from failure
        publication = _publication(plan, outcome, directory)
    publish(publication, as_json=options["as_json"], output=options["output"])
    exit_for(outcome.missing)


def _plan(options: dict[str, Any]) -> ReplayPlan:
    import sys

    from holdfast.bench.archive.crawl import distinct_for
    from holdfast.bench.replay.run import ReplayPlan
    from holdfast.bench.replay.servers import SERVERS
    from holdfast.bench.replay.workload import ReplayWorkload

    servers = known_names("server", options["only"], tuple(SERVERS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in ReplayWorkload))
    return ReplayPlan(
        corpus=chosen_corpus(options, distinct_for(options["pages"])),
        servers=servers,
        workloads=tuple(ReplayWorkload(name) for name in workloads),
        repeats=options["repeat"],
        seconds=options["seconds"],
        pywb=options["pywb"] or sys.executable,
        requests=options["requests"],
    )


def _publication(plan: ReplayPlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.replay import chart, report
    from holdfast.bench.replay.servers import pywb_versions

    versions = package_versions(("starlette", "uvicorn", "uvloop", "httptools", "turbohtml", "rocksdict"))
    if not plan.requests:
        versions |= pywb_versions(plan.pywb)
    found = report.ReplayReport(plan, outcome, machine_facts(directory), versions)
    draw = partial(chart.draw, found) if outcome.figures else None
    return Publication("replay", report.as_json(found), partial(report.print_report, found), draw)
