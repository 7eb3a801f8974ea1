"""`holdfast bench webbase`: the tables and figures of the WebBase paper for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.bench_output import (
    Publication,
    chosen_corpus,
    corpus_option,
    measure,
    report_options,
)

if TYPE_CHECKING:
    from holdfast.bench.webbase.run import WebbaseOutcome, WebbasePlan


@click.command("webbase")
@corpus_option
@click.option(
    "--pages", type=click.IntRange(100), default=10_000, show_default=True, help="Pages of the corpus to use."
)
@report_options
def webbase_(**options: Any) -> None:
    """Tables 3 to 6 and figures 4 to 6 of the WebBase paper, from volumes log, hash and hashed-log.

    The paper's own figures stand beside. The exit code is 1 if something could not be measured.
    """
    from holdfast.bench.webbase.run import WebbasePlan, run_webbase

    plan = WebbasePlan(chosen_corpus(options, options["pages"]), options["repeat"])
    measure(plan, run_webbase, _publication, options)


def _publication(plan: WebbasePlan, outcome: WebbaseOutcome, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.webbase import chart, report

    versions = package_versions(["rocksdict", "zstandard"])
    found = report.WebbaseReport(plan, outcome, machine_facts(directory), versions)
    return Publication(
        "webbase", report.as_json(found), partial(report.print_report, found), partial(chart.draw, found)
    )
