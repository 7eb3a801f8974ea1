"""`python -m benchmarks store`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.harness.command import (
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    report_options,
    workload_option,
)
from benchmarks.store.report import store_report
from benchmarks.store.run import StorePlan, run_store
from benchmarks.store.subjects import SUBJECTS
from benchmarks.store.workload import CALLERS, Workload

_DOCUMENTS_BYTES_MAX = 1 << 30  # every process holds all of them in memory


@click.command("store")
@corpus_option
@click.option("--documents", default=5_000, show_default=True, help="How many distinct documents to use.")
@click.option("--callers", type=click.IntRange(1, 256), multiple=True, help="Concurrent callers; default 1 and 16.")
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@click.option(
    "--scale",
    type=click.IntRange(1),
    multiple=True,
    help="Also fill a volume with so many small contents; without --corpus, measure nothing else.",
)
@report_options
def command(**options: Any) -> None:
    """Named workloads on Holdfast, plain files, WARC writers, SQLite, RocksDB and SeaweedFS."""
    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in Workload))
    corpus = None
    if options["corpus"] is not None or not options["scale"]:
        corpus = chosen_corpus(options, max(1, options["documents"]), _DOCUMENTS_BYTES_MAX)
    plan = StorePlan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(Workload(name) for name in workloads),
        callers=tuple(sorted(set(options["callers"]))) or CALLERS,
        repeats=options["repeat"],
        scales=tuple(options["scale"]),
    )
    measure(plan, run_store, store_report, options)
