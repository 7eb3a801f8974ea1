"""`python -m benchmarks stream`."""

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
from benchmarks.stream.report import stream_report
from benchmarks.stream.run import StreamPlan, run_streams
from benchmarks.stream.workload import SUBJECTS, StreamWorkload

_CAPTURES_DEFAULT = 1_000_000


@click.command("stream")
@corpus_option
@click.option("--pages", type=click.IntRange(5), default=10_000, show_default=True, help="Pages, captured twice each.")
@click.option(
    "--captures",
    type=click.IntRange(0),
    default=_CAPTURES_DEFAULT,
    show_default=True,
    help="Captures of the archive in which a stream is resumed; 0 for none.",
)
@click.option("--only", metavar="SUBJECT", multiple=True, help="Measure these subjects only.")
@workload_option
@report_options
def command(**options: Any) -> None:
    """Streams of contents, alone and shared, and resuming; compared with FastWARC, warcio, datatrove and zstd."""
    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in StreamWorkload))
    corpus = None
    if set(workloads) != {StreamWorkload.RESUME}:
        corpus = chosen_corpus(options, distinct_for(options["pages"]))
    plan = StreamPlan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(StreamWorkload(name) for name in workloads),
        repeats=options["repeat"],
        captures=options["captures"],
    )
    measure(plan, run_streams, stream_report, options)
