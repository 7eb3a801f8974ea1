"""The figures that the project promised itself, and whether a run reached them."""

from __future__ import annotations

from benchmarks.crawl.frontier import SMALL, FrontierScale
from benchmarks.crawl.run import CrawlOutcome
from benchmarks.harness.figure import OURS
from benchmarks.harness.report import Verdict, ratio_verdict

_MB = 1e6
_SCRAPY = 3.0
_WGET2 = 1.0
_FRONTIER_URLS = 1_000_000
_FRONTIER_RSS_BYTES = 500 * _MB
_FLAT = 1.5  # at most so many times the cost of a page with few URLs


def crawl_verdicts(outcome: CrawlOutcome) -> list[Verdict]:
    """Every target, in the order of the issue that set them."""
    return [
        _ratio(outcome, "Holdfast ÷ Scrapy, pages per second", "scrapy", _SCRAPY),
        _ratio(outcome, "Holdfast ÷ wget2, pages per second", "wget2", _WGET2),
        _memory(outcome),
        _flat(outcome),
    ]


def _ratio(outcome: CrawlOutcome, target: str, peer: str, factor: float) -> Verdict:
    ours, theirs = outcome.find(OURS), outcome.find(peer)
    return ratio_verdict(target, factor, ours, theirs)


def _memory(outcome: CrawlOutcome) -> Verdict:
    target, needed = (
        f"resident memory, frontier of {_FRONTIER_URLS:,} URLs",
        f"under {_FRONTIER_RSS_BYTES / _MB:.0f} MB",
    )
    large = _large(outcome)
    if large is None:
        return Verdict.none(target, needed)
    measured = f"{large.rss_peak_bytes / _MB:.0f} MB at most, {large.rss_bytes / _MB:.0f} MB when filled"
    return Verdict(target, needed, measured, large.rss_peak_bytes < _FRONTIER_RSS_BYTES)


def _flat(outcome: CrawlOutcome) -> Verdict:
    target = f"cost of a page, {_FRONTIER_URLS:,} URLs seen ÷ {SMALL:,}"
    needed = f"at most {_FLAT:g}x"
    small, large = next((each for each in outcome.frontiers if each.urls == SMALL), None), _large(outcome)
    if small is None or large is None:
        return Verdict.none(target, needed)
    ratio = large.page_us / max(small.page_us, 1e-9)
    return Verdict(target, needed, f"{ratio:.2f}x ({large.page_us:,.0f} µs ÷ {small.page_us:,.0f} µs)", ratio <= _FLAT)


def _large(outcome: CrawlOutcome) -> FrontierScale | None:
    large = [each for each in outcome.frontiers if each.urls >= _FRONTIER_URLS]
    return min(large, key=lambda each: each.urls, default=None)
