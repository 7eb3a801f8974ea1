"""`python -m benchmarks crawl`."""

from __future__ import annotations

from typing import Any

import click

from benchmarks.crawl.crawlers import CRAWLERS
from benchmarks.crawl.frontier import SMALL
from benchmarks.crawl.report import crawl_report
from benchmarks.crawl.run import CrawlPlan, run_crawls
from benchmarks.harness.command import chosen_corpus, corpus_option, known_names, measure, report_options


@click.command("crawl")
@corpus_option
@click.option("--pages", type=click.IntRange(1), default=10_000, show_default=True, help="Pages of the site.")
@click.option("--crawlers", metavar="NAME,...", default="", help="Measure these only; default is all that are here.")
@click.option(
    "--frontier",
    type=click.IntRange(1_000),
    multiple=True,
    help="Also measure a frontier of so many URLs beside a small one; without --corpus, measure nothing else.",
)
@report_options
def command(**options: Any) -> None:
    """Crawl one local site, served by nginx, with Holdfast, Scrapy, wget and wget2."""
    names = tuple(name.strip() for name in options["crawlers"].split(",") if name.strip())
    crawlers = known_names("crawler", names, tuple(CRAWLERS))
    corpus = None
    if options["corpus"] is not None or not options["frontier"]:
        corpus = chosen_corpus(options, options["pages"])
    frontier = tuple(sorted({SMALL, *options["frontier"]})) if options["frontier"] else ()
    plan = CrawlPlan(corpus=corpus, crawlers=crawlers, repeats=options["repeat"], frontier=frontier)
    measure(plan, run_crawls, crawl_report, options)
