"""The run as a picture: speed, processor time, memory and disk, one bar for each crawler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.bench.crawl.crawlers import CRAWLERS
from holdfast.bench.crawl.figure import CrawlFigure
from holdfast.bench.crawl.report import CrawlReport

_COLOURS = ("#0b6e4f", "#c0504d", "#e08e45", "#4f81bd")
_PANELS: tuple[tuple[str, Callable[[CrawlFigure], float]], ...] = (
    ("pages per second", lambda each: each.pages_per_s),
    ("processor time per page (ms, less is better)", lambda each: each.cost.cpu_s / each.pages * 1e3),
    ("peak of memory (MB, less is better)", lambda each: each.cost.rss_peak_bytes / 1e6),
    ("kept on disk (MB)", lambda each: each.disk_bytes / 1e6),
)


def draw(report: CrawlReport, path: Path) -> None:
    """Writes the chart as PNG. Needs matplotlib, but no display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(12, 8), squeeze=False)
    for axis, (title, height) in zip(axes.flat, _PANELS, strict=True):
        _panel(axis, report, title, height)
    machine, site = report.machine, report.outcome.site
    size = f" · {site.pages:,} pages" if site else ""
    where = f"{machine.get('cores')} cores {machine.get('cpu')}"
    figure.suptitle(f"holdfast bench crawl · commit {machine.get('commit')} · {where}{size}", fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _panel(axis: Any, report: CrawlReport, title: str, height: Callable[[CrawlFigure], float]) -> None:
    names = list(CRAWLERS)
    ordered = sorted(report.outcome.figures, key=lambda each: names.index(each.crawler))
    heights = [height(each) for each in ordered]
    colours = [_COLOURS[names.index(each.crawler) % len(_COLOURS)] for each in ordered]
    bars = axis.bar(range(len(ordered)), heights, 0.7, color=colours)
    axis.bar_label(bars, labels=[f"{value:,.0f}" if value >= 10 else f"{value:.2f}" for value in heights], padding=2)
    axis.margins(y=0.15)
    axis.set_title(title, fontsize=10)
    axis.set_xticks(range(len(ordered)), [CRAWLERS[each.crawler].title for each in ordered])
