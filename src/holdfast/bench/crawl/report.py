"""What a run found, for people (tables) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.bench.crawl.crawlers import CRAWLERS, OURS
from holdfast.bench.crawl.figure import CrawlFigure
from holdfast.bench.crawl.run import CrawlOutcome, CrawlPlan
from holdfast.bench.crawl.target import crawl_verdicts
from holdfast.bench.report import print_machine, verdict_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMAT = 1
_MB = 1e6


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """Everything that is printed, drawn or written about a run."""

    plan: CrawlPlan
    outcome: CrawlOutcome
    machine: dict[str, str | int | float]
    packages: dict[str, str]


def as_json(report: CrawlReport) -> dict[str, Any]:
    """The report as plain values. The names are part of the format; new ones may be added."""
    outcome = report.outcome
    site = outcome.site
    return {
        "format": FORMAT,
        "machine": report.machine,
        "packages": report.packages,
        "site": site
        and {
            "corpus": str(site.corpus.directory),
            "documents": len(site.corpus.paths),
            "pages": site.pages,
            "urls": len(site.urls),
            "content_bytes": site.content_bytes,
        },
        "repeats": report.plan.repeats,
        "results": [_result(each, outcome) for each in outcome.figures],
        "frontiers": [asdict(each) for each in outcome.frontiers],
        "missing": [asdict(each) for each in outcome.missing],
        "targets": [asdict(verdict) for verdict in crawl_verdicts(outcome)],
    }


def _result(each: CrawlFigure, outcome: CrawlOutcome) -> dict[str, Any]:
    return {
        "crawler": each.crawler,
        "keeps": CRAWLERS[each.crawler].keeps,
        "pages": each.pages,
        "urls": each.urls,
        "requests": each.requests,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "start_s": each.start_s,
        "cpu_s": each.cost.cpu_s,
        "server_cpu_s": each.server_cpu_s,
        "pages_per_s": each.pages_per_s,
        "pages_per_cpu_s": each.pages_per_cpu_s,
        "mb_per_s": each.mb_per_s,
        "memory_peak_bytes": each.cost.rss_peak_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "holdfast_ratio": _ratio(each, outcome),
    }


def _ratio(each: CrawlFigure, outcome: CrawlOutcome) -> float | None:
    """How many times faster Holdfast was."""
    ours = outcome.find(OURS)
    return ours.pages_per_s / each.pages_per_s if ours else None


def print_report(report: CrawlReport, console: Console) -> None:
    """Machine, tables, what is missing, verdicts."""
    print_machine(report.machine, report.packages, console)
    outcome = report.outcome
    if outcome.site is not None:
        site = outcome.site
        console.print(
            f"{site.pages:,} pages ({len(site.urls):,} URLs, {site.content_bytes / _MB:.1f} MB) from "
            f"'{site.corpus.directory}', served by nginx on this machine; median of {report.plan.repeats}",
            highlight=False,
        )
    if outcome.figures:
        console.print(_table(outcome))
    if outcome.frontiers:
        console.print(_frontier_table(outcome))
    for each in outcome.missing:
        console.print(f"[yellow]no figure[/] for {each.subject}, {each.what}: {each.reason}", highlight=False)
    console.print(verdict_table(crawl_verdicts(outcome)))


def _table(outcome: CrawlOutcome) -> Table:
    from rich.table import Table

    table = Table(title="crawl", title_justify="left", title_style="bold")
    table.add_column("crawler", no_wrap=True)
    names = (
        "pages/s",
        "s",
        "start s",
        "MB/s",
        "CPU s",
        "pages/CPU s",
        "peak MB",
        "disk MB",
        "beyond",
        "nginx CPU s",
        "Holdfast is",
    )
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what it keeps")
    for each in sorted(outcome.figures, key=lambda each: -each.pages_per_s):
        crawler = CRAWLERS[each.crawler]
        table.add_row(
            crawler.title, *_cells(each, outcome), crawler.keeps, style="bold" if each.crawler == OURS else ""
        )
    return table


def _cells(each: CrawlFigure, outcome: CrawlOutcome) -> list[str]:
    times = _ratio(each, outcome)
    return [
        f"{each.pages_per_s:,.0f}",
        f"{each.cost.seconds:.2f}",
        f"{each.start_s:.2f}",
        f"{each.mb_per_s:,.1f}",
        f"{each.cost.cpu_s:.2f}",
        f"{each.pages_per_cpu_s:,.0f}",
        f"{each.cost.rss_peak_bytes / _MB:,.0f}",
        f"{each.disk_bytes / _MB:,.1f}",
        f"{each.beyond:,}",
        f"{each.server_cpu_s:.2f}",
        f"{times:.2f}x" if times is not None and each.crawler != OURS else "",
    ]


def _frontier_table(outcome: CrawlOutcome) -> Table:
    from rich.table import Table

    table = Table(title="frontier · Holdfast alone, nothing fetched", title_justify="left", title_style="bold")
    for name in ("URLs", "fill 1/s", "filled MB", "peak MB", "disk MB", "pages", "page µs", "CPU µs", "scattered µs"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in outcome.frontiers:
        table.add_row(
            f"{each.urls:,}",
            f"{each.urls / max(each.fill_s, 1e-9):,.0f}",
            f"{each.rss_bytes / _MB:,.0f}",
            f"{each.rss_peak_bytes / _MB:,.0f}",
            f"{each.disk_bytes / _MB:,.0f}",
            f"{each.pages:,}",
            f"{each.page_us:,.0f}",
            f"{each.page_cpu_us:,.0f}",
            f"{each.scattered_us:,.0f}",
        )
    return table
