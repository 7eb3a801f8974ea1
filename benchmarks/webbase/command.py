"""`python -m benchmarks webbase`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.harness.command import chosen_corpus, corpus_option, measure, report_options
from benchmarks.webbase.report import webbase_report
from benchmarks.webbase.run import WebbasePlan, run_webbase


@click.command("webbase")
@corpus_option
@click.option(
    "--pages", type=click.IntRange(100), default=10_000, show_default=True, help="Pages of the corpus to use."
)
@report_options
def command(**options: Any) -> None:
    """Tables 3 to 6 and figures 4 to 6 of the WebBase paper, from volumes log, hash and hashed-log.

    The paper's own figures stand beside.
    """
    measure(
        WebbasePlan(chosen_corpus(options, options["pages"]), options["repeat"]), run_webbase, webbase_report, options
    )
