"""`holdfast bench query`: indexing and searching beside bare tantivy."""

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
    from holdfast.bench.query.run import QueryPlan


@click.command("query")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=50_000, show_default=True, help="Pages, captured twice each.")
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@report_options
def query_(**options: Any) -> None:
    """The index built, and asked for words, phrases, facets and snippets, beside bare tantivy.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.query.run import run_queries

    plan = _plan(options)
    measure(plan, run_queries, _publication, options)


def _plan(options: dict[str, Any]) -> QueryPlan:
    from holdfast.bench.archive.crawl import distinct_for
    from holdfast.bench.query.run import QueryPlan
    from holdfast.bench.query.workload import SUBJECTS, QueryWorkload

    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in QueryWorkload))
    return QueryPlan(
        corpus=chosen_corpus(options, distinct_for(options["pages"])),
        subjects=subjects,
        workloads=frozenset(QueryWorkload(name) for name in workloads),
        repeats=options["repeat"],
    )


def _publication(plan: QueryPlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.query import report
    from holdfast.bench.query.workload import SUBJECTS

    packages = {package for name in plan.subjects for package in SUBJECTS[name].packages}
    found = report.QueryReport(plan, outcome, machine_facts(directory), package_versions(packages))
    draw = partial(report.draw, found) if outcome.comparison.figures else None
    return Publication("query", report.as_json(found), partial(report.print_report, found), draw)
