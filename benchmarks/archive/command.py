"""`python -m benchmarks archive`."""

from __future__ import annotations

import sys
from typing import Any

import click

from benchmarks.archive.crawl import distinct_for
from benchmarks.archive.report import archive_report
from benchmarks.archive.run import ArchivePlan, run_archive
from benchmarks.archive.workload import SUBJECTS, ArchiveWorkload
from benchmarks.harness.command import (
    chosen_corpus,
    corpus_option,
    known_names,
    measure,
    pywb_option,
    report_options,
    workload_option,
)
from holdfast.cli.options import read_bytes

_CAPTURES_DEFAULT = 1_000_000


@click.command("archive")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=10_000, show_default=True, help="Pages of one crawl.")
@click.option(
    "--captures",
    type=click.IntRange(0),
    help="Also look up in a catalog of so many synthetic captures; default 1,000,000 with a corpus, 0 for none.",
)
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@click.option(
    "--scale",
    type=click.IntRange(1),
    multiple=True,
    help="Also fill a catalog with so many synthetic captures; without --corpus, measure nothing else.",
)
@click.option(
    "--large",
    metavar="BYTES",
    callback=read_bytes,
    help="Also import and export one record with so large a payload; without --corpus, measure nothing else.",
)
@click.option(
    "--small",
    type=click.IntRange(1),
    help="Also import so many small records and measure their space; without --corpus, measure nothing else.",
)
@pywb_option
@report_options
def command(**options: Any) -> None:
    """Import, space, lookup, export and round trip, beside warcio, FastWARC, cdxj-indexer and pywb."""
    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in ArchiveWorkload))
    corpus = None
    alone = options["scale"] or options["large"] or options["small"] or options["captures"]
    if options["corpus"] is not None or not alone:
        corpus = chosen_corpus(options, distinct_for(options["pages"]))
    captures = options["captures"]
    if captures is None:
        captures = _CAPTURES_DEFAULT if corpus else 0
    plan = ArchivePlan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(ArchiveWorkload(name) for name in workloads),
        repeats=options["repeat"],
        captures=captures,
        scales=tuple(options["scale"]),
        large_bytes=options["large"] or 0,
        small_records=options["small"] or 0,
        pywb=options["pywb"] or sys.executable,
    )
    measure(plan, run_archive, archive_report, options)
