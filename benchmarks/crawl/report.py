"""The report of `python -m benchmarks crawl`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.crawl.crawlers import CRAWLERS, program_versions
from benchmarks.crawl.figure import CrawlFigure
from benchmarks.crawl.run import CrawlOutcome, CrawlPlan
from benchmarks.crawl.target import crawl_verdicts
from benchmarks.harness.chart import bars, colour, draw
from benchmarks.harness.figure import OURS
from benchmarks.harness.machine import package_versions
from benchmarks.harness.report import MB, Report, table, times

if TYPE_CHECKING:
    from rich.table import Table

_PANELS: tuple[tuple[str, Callable[[CrawlFigure], float]], ...] = (
    ("pages per second", lambda each: each.per_s),
    ("processor time per page (ms, less is better)", lambda each: each.cpu_us / 1e3),
    ("peak of memory (MB, less is better)", lambda each: each.cost.rss_peak_bytes / MB),
    ("kept on disk (MB)", lambda each: each.disk_bytes / MB),
)


def crawl_report(plan: CrawlPlan, outcome: CrawlOutcome, machine: dict[str, str | int | float]) -> Report:
    """One table of crawlers, one of frontiers."""
    site = outcome.site
    about = (
        f"{site.pages:,} pages ({len(site.urls):,} URLs, {site.content_bytes / MB:.1f} MB) from "
        f"'{site.corpus.directory}', served by nginx on this machine"
        if site
        else ""
    )
    versions = package_versions(package for name in plan.crawlers for package in CRAWLERS[name].packages)
    tables = [_table(outcome)] if outcome.figures else []
    return Report(
        "crawl",
        machine,
        versions | program_versions(plan.crawlers),
        plan.repeats,
        about,
        {
            "site": site
            and {
                "corpus": str(site.corpus.directory),
                "documents": len(site.corpus.paths),
                "pages": site.pages,
                "urls": len(site.urls),
                "content_bytes": site.content_bytes,
            },
            "results": [_result(each, outcome) for each in outcome.figures],
            "frontiers": [asdict(each) for each in outcome.frontiers],
        },
        [*tables, _frontier_table(outcome)] if outcome.frontiers else tables,
        outcome.missing,
        crawl_verdicts(outcome),
        partial(_draw, outcome) if outcome.figures else None,
    )


def _result(each: CrawlFigure, outcome: CrawlOutcome) -> dict[str, Any]:
    return {
        "crawler": each.subject,
        "keeps": CRAWLERS[each.subject].keeps,
        "pages": each.operations,
        "urls": each.urls,
        "requests": each.requests,
        "seconds": each.cost.seconds,
        "seconds_all": list(each.seconds_all),
        "start_s": each.start_s,
        "cpu_s": each.cost.cpu_s,
        "cpu_us": each.cpu_us,
        "server_cpu_s": each.server_cpu_s,
        "pages_per_s": each.per_s,
        "pages_per_cpu_s": each.per_cpu_s,
        "mb_per_s": each.mb_per_s,
        "memory_peak_bytes": each.cost.rss_peak_bytes,
        "disk_bytes": each.disk_bytes,
        "apparent_bytes": each.apparent_bytes,
        "holdfast_ratio": _ratio(each, outcome),
    }


def _ratio(each: CrawlFigure, outcome: CrawlOutcome) -> float | None:
    """How many times faster Holdfast was."""
    ours = outcome.find(OURS)
    return ours.per_s / each.per_s if ours else None


def _table(outcome: CrawlOutcome) -> Table:
    columns = ("crawler", "pages/s", "s", "start s", "MB/s", "CPU s", "CPU µs", "peak MB", "disk MB")
    rows = [_cells(each, outcome) for each in sorted(outcome.figures, key=lambda each: -each.per_s)]
    ours = CRAWLERS[OURS].title
    more = ("beyond", "nginx CPU s", "Holdfast is", "<what it keeps")
    return table("crawl", (*columns, *more), rows, bold=lambda row: row[0] == ours)


def _cells(each: CrawlFigure, outcome: CrawlOutcome) -> list[str]:
    crawler = CRAWLERS[each.subject]
    return [
        crawler.title,
        f"{each.per_s:,.0f}",
        f"{each.cost.seconds:.2f}",
        f"{each.start_s:.2f}",
        f"{each.mb_per_s:,.1f}",
        f"{each.cost.cpu_s:.2f}",
        f"{each.cpu_us:,.0f}",
        f"{each.cost.rss_peak_bytes / MB:,.0f}",
        f"{each.disk_bytes / MB:,.1f}",
        f"{each.beyond:,}",
        f"{each.server_cpu_s:.2f}",
        times(_ratio(each, outcome)) if each.subject != OURS else "",
        crawler.keeps,
    ]


def _frontier_table(outcome: CrawlOutcome) -> Table:
    columns = ("URLs", "fill 1/s", "filled MB", "peak MB", "disk MB", "pages", "page µs", "CPU µs", "scattered µs")
    rows = [
        (
            f"{each.urls:,}",
            f"{each.urls / max(each.fill_s, 1e-9):,.0f}",
            f"{each.rss_bytes / MB:,.0f}",
            f"{each.rss_peak_bytes / MB:,.0f}",
            f"{each.disk_bytes / MB:,.0f}",
            f"{each.pages:,}",
            f"{each.page_us:,.0f}",
            f"{each.page_cpu_us:,.0f}",
            f"{each.scattered_us:,.0f}",
        )
        for each in outcome.frontiers
    ]
    return table("frontier · Holdfast alone, nothing fetched", columns, rows)


def _draw(outcome: CrawlOutcome, title: str, path: Path) -> None:
    panels = [partial(_panel, outcome, name, height) for name, height in _PANELS]
    draw(title, path, panels, columns=2, panel_size=(6.0, 4.0))


def _panel(outcome: CrawlOutcome, title: str, height: Callable[[CrawlFigure], float], axis: Any) -> None:
    names = tuple(CRAWLERS)
    ordered = sorted(outcome.figures, key=lambda each: names.index(each.subject))
    titles = [CRAWLERS[each.subject].title for each in ordered]
    bars(axis, title, titles, [height(each) for each in ordered], [colour(names, each.subject) for each in ordered])
