"""`python -m benchmarks query`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.archive.crawl import distinct_for
from benchmarks.harness.command import (
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    report_options,
    workload_option,
)
from benchmarks.query.report import query_report
from benchmarks.query.run import QueryPlan, run_queries
from benchmarks.query.workload import SUBJECTS, QueryWorkload


@click.command("query")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=50_000, show_default=True, help="Pages, captured twice each.")
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@report_options
def command(**options: Any) -> None:
    """The index built, and asked for words, phrases, facets and snippets, beside bare tantivy."""
    workloads = known_names("workload", options["workload"], tuple(each.value for each in QueryWorkload))
    plan = QueryPlan(
        subjects=known_names("subject", options["only"], tuple(SUBJECTS)),
        workloads=frozenset(QueryWorkload(name) for name in workloads),
        corpus=chosen_corpus(options, distinct_for(options["pages"])),
        repeats=options["repeat"],
    )
    measure(plan, run_queries, query_report, options)
