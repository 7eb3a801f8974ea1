"""The report of `python -m benchmarks query`."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report
from benchmarks.query.run import QueryOutcome, QueryPlan
from benchmarks.query.sample import QUERIES
from benchmarks.query.target import query_verdicts
from benchmarks.query.workload import SUBJECTS, UNITS, QueryWorkload

_ABOUT = {
    QueryWorkload.BUILD: "the index of the archive, from nothing; once",
    QueryWorkload.INDEX: "text, title and links given",
    QueryWorkload.WORD: "one word, ten hits with title and address, and their number",
    QueryWorkload.PHRASE: "two words side by side",
    QueryWorkload.FILTERED: "a word, within a year, not on one host",
    QueryWorkload.FACETS: "a word, with all facets and the timeline",
    QueryWorkload.SNIPPETS: "a word, with a piece of the text of each hit",
}


def query_report(plan: QueryPlan, outcome: QueryOutcome, machine: dict[str, str | int | float]) -> Report:
    """A table for each workload."""
    crawls, found = outcome.crawls, outcome.comparison
    about = (
        f"{crawls.captures:,} captures, payloads {crawls.content_bytes / MB:.1f} MB; up to {QUERIES} queries of each "
        "kind, asked once before"
        if crawls
        else ""
    )
    return Report(
        "query",
        machine,
        package_versions({package for name in plan.subjects for package in SUBJECTS[name].packages}),
        plan.repeats,
        about,
        {
            "queries": QUERIES,
            "captures": crawls.captures if crawls else None,
            "content_bytes": crawls.content_bytes if crawls else None,
            **found.as_json(),
        },
        [found.table(workload, about) for workload, about in _ABOUT.items() if found.of(workload)],
        found.missing,
        query_verdicts(outcome),
        partial(found.draw, UNITS) if found.figures else None,
    )
