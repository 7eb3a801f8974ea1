"""The project's targets, and whether a run reached them."""

from __future__ import annotations

from benchmarks.harness.figure import OURS
from benchmarks.harness.report import Verdict
from benchmarks.query.run import QueryOutcome
from benchmarks.query.workload import BARE, QueryWorkload

_INDEX = 0.7
_WORD_MS = 10.0
_WORD_CAPTURES = 100_000


def query_verdicts(outcome: QueryOutcome) -> list[Verdict]:
    """All targets, in the order of their issue."""
    return [_index(outcome), _word(outcome)]


def _index(outcome: QueryOutcome) -> Verdict:
    target, needed = "indexing ÷ bare tantivy, given extracted text", f"at least {_INDEX:.0%}"
    ours, bare = (outcome.comparison.find(name, QueryWorkload.INDEX) for name in (OURS, BARE))
    if ours is None or bare is None:
        return Verdict.none(target, needed)
    share = ours.per_s / bare.per_s
    measured = f"{share:.0%} ({ours.per_s:,.0f}/s ÷ {bare.per_s:,.0f}/s)"
    return Verdict(target, needed, measured, share >= _INDEX)


def _word(outcome: QueryOutcome) -> Verdict:
    target = f"queries for a word over {_WORD_CAPTURES:,} pages, in process, 95th percentile"
    needed = f"under {_WORD_MS:g} ms"
    ours, crawls = outcome.comparison.find(OURS, QueryWorkload.WORD), outcome.crawls
    if ours is None or crawls is None or crawls.captures < _WORD_CAPTURES:
        return Verdict.none(target, needed)
    bare = outcome.comparison.find(BARE, QueryWorkload.WORD)
    beside = f"; tantivy alone {bare.p95_ms:.2f} ms" if bare is not None else ""
    measured = f"{ours.p95_ms:.2f} ms with {crawls.captures:,}{beside}"
    return Verdict(target, needed, measured, ours.p95_ms < _WORD_MS)
