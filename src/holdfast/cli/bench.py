"""`holdfast bench`: measure Holdfast beside its peers; store, archive and crawler here, the others in their files."""

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
    pywb_option,
    report_options,
    workload_option,
)
from holdfast.cli.bench_query import query_
from holdfast.cli.bench_replay import replay_
from holdfast.cli.bench_stream import stream_
from holdfast.cli.bench_webbase import webbase_
from holdfast.cli.bench_webstore import webstore_
from holdfast.cli.options import read_bytes

if TYPE_CHECKING:
    from holdfast.bench.archive.run import ArchivePlan
    from holdfast.bench.crawl.run import CrawlPlan
    from holdfast.bench.run import Plan

CAPTURES_DEFAULT = 1_000_000
DOCUMENTS_BYTES_MAX = 1 << 30  # every process of `bench storage` holds all of them in memory


@click.group()
def bench() -> None:
    """Measure Holdfast beside its peers, in one run on this machine."""


@bench.command()
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
def storage(**options: Any) -> None:
    """Named workloads on Holdfast, plain files, WARC writers, SQLite, RocksDB and SeaweedFS.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.run import run

    plan = _plan(options)
    measure(plan, run, _storage_publication, options)


@bench.command("archive")
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
@pywb_option
@report_options
def archive_(**options: Any) -> None:
    """Import, space, lookup, export and round trip, beside warcio, FastWARC, cdxj-indexer and pywb.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.archive.run import run_archive

    plan = _archive_plan(options)
    measure(plan, run_archive, _archive_publication, options)


@bench.command("crawl")
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
def crawl_(**options: Any) -> None:
    """Crawl one local site, served by nginx, with Holdfast, Scrapy, wget and wget2.

    The exit code is 1 if Holdfast itself failed to run; a missed target is reported and is no failure.
    """
    from holdfast.bench.crawl.run import run_crawls

    plan = _crawl_plan(options)
    measure(plan, run_crawls, _crawl_publication, options)


def _plan(options: dict[str, Any]) -> Plan:
    from holdfast.bench.run import Plan
    from holdfast.bench.subjects import SUBJECTS
    from holdfast.bench.workload import CALLERS, Workload

    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in Workload))
    corpus = None
    if options["corpus"] is not None or not options["scale"]:
        corpus = chosen_corpus(options, max(1, options["documents"]), DOCUMENTS_BYTES_MAX)
    return Plan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(Workload(name) for name in workloads),
        callers=tuple(sorted(set(options["callers"]))) or CALLERS,
        repeats=options["repeat"],
        scales=tuple(options["scale"]),
    )


def _archive_plan(options: dict[str, Any]) -> ArchivePlan:
    import sys

    from holdfast.bench.archive.crawl import distinct_for
    from holdfast.bench.archive.run import ArchivePlan
    from holdfast.bench.archive.workload import SUBJECTS, ArchiveWorkload

    subjects = known_names("subject", options["only"], tuple(SUBJECTS))
    workloads = known_names("workload", options["workload"], tuple(each.value for each in ArchiveWorkload))
    corpus = None
    alone = options["scale"] or options["large"] or options["captures"]
    if options["corpus"] is not None or not alone:
        corpus = chosen_corpus(options, distinct_for(options["pages"]))
    captures = options["captures"]
    if captures is None:
        captures = CAPTURES_DEFAULT if corpus else 0
    return ArchivePlan(
        corpus=corpus,
        subjects=subjects,
        workloads=frozenset(ArchiveWorkload(name) for name in workloads),
        repeats=options["repeat"],
        captures=captures,
        scales=tuple(options["scale"]),
        large_bytes=options["large"] or 0,
        pywb=options["pywb"] or sys.executable,
    )


def _crawl_plan(options: dict[str, Any]) -> CrawlPlan:
    from holdfast.bench.crawl.crawlers import CRAWLERS
    from holdfast.bench.crawl.frontier import SMALL
    from holdfast.bench.crawl.run import CrawlPlan

    names = tuple(name.strip() for name in options["crawlers"].split(",") if name.strip())
    crawlers = known_names("crawler", names, tuple(CRAWLERS))
    corpus = None
    if options["corpus"] is not None or not options["frontier"]:
        corpus = chosen_corpus(options, options["pages"])
    frontier = tuple(sorted({SMALL, *options["frontier"]})) if options["frontier"] else ()
    return CrawlPlan(corpus=corpus, crawlers=crawlers, repeats=options["repeat"], frontier=frontier)


def _storage_publication(plan: Plan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench import chart, report
    from holdfast.bench.machine import machine_facts, package_versions
    from holdfast.bench.subjects import facts

    packages = {package for name in plan.subjects for package in facts(name).packages}
    found = report.Report(plan, outcome, machine_facts(directory), package_versions(packages))
    draw = partial(chart.draw, found) if outcome.measurements else None
    return Publication("storage", report.as_json(found), partial(report.print_report, found), draw)


def _archive_publication(plan: ArchivePlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.archive import chart, report
    from holdfast.bench.archive.workload import facts
    from holdfast.bench.machine import machine_facts, package_versions

    packages = {package for name in plan.subjects for package in facts(name).packages}
    found = report.ArchiveReport(plan, outcome, machine_facts(directory), package_versions(packages))
    draw = partial(chart.draw, found) if outcome.figures else None
    return Publication("archive", report.as_json(found), partial(report.print_report, found), draw)


def _crawl_publication(plan: CrawlPlan, outcome: Any, directory: Path) -> Publication:
    from functools import partial

    from holdfast.bench.crawl import chart, report
    from holdfast.bench.crawl.crawlers import CRAWLERS, program_versions
    from holdfast.bench.machine import machine_facts, package_versions

    versions = package_versions(package for name in plan.crawlers for package in CRAWLERS[name].packages)
    versions |= program_versions(plan.crawlers)
    found = report.CrawlReport(plan, outcome, machine_facts(directory), versions)
    draw = partial(chart.draw, found) if outcome.figures else None
    return Publication("crawl", report.as_json(found), partial(report.print_report, found), draw)


bench.add_command(query_)
bench.add_command(replay_)
bench.add_command(stream_)
bench.add_command(webstore_)
bench.add_command(webbase_)
