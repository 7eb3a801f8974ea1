"""Searches in sequence, each timed. Every function runs in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.figure import OURS, Figure
from benchmarks.harness.measure import measured
from benchmarks.harness.process import ChildFailed
from benchmarks.query.sample import Asked
from benchmarks.query.workload import BARE, QueryWorkload

if TYPE_CHECKING:
    import tantivy

    from holdfast.query.results import QueryOptions

_HITS = 10


def search(path: Path, asked: Asked, workload: QueryWorkload) -> Figure:
    """Through `archive.query`, the archive open for reading."""
    from holdfast.archive import open

    options = _options(workload)
    with open(path, read_only=True) as archive:
        return _timed(OURS, workload, _texts(asked, workload), lambda text: archive.query(text, options).total)


def search_bare(path: Path, asked: Asked, workload: QueryWorkload) -> Figure:
    """tantivy's own searcher, on the files of the archive's index."""
    from holdfast.archive import open

    with open(path, read_only=True) as archive:
        searcher = archive.index.view().searcher
    queries = {text: _bare_query(text) for text in _texts(asked, workload)}

    def ask(text: str) -> int:
        found: int = searcher.search(queries[text], _HITS).count  # type: ignore[attr-defined]
        return found

    return _timed(BARE, workload, list(queries), ask)


def _bare_query(text: str) -> tantivy.Query:
    from tantivy import Occur, Query

    from holdfast.index.schema import TEXT_FIELDS, schema

    words = text.strip('"').split()
    fields = TEXT_FIELDS
    if len(words) == 1:
        parts = [Query.term_query(schema(), field, words[0], "freq") for field in fields]
    else:
        parts = [Query.phrase_query(schema(), field, list(words)) for field in fields]
    return Query.boolean_query([(Occur.Should, part) for part in parts])


def _texts(asked: Asked, workload: QueryWorkload) -> list[str]:
    if workload is QueryWorkload.PHRASE:
        return [f'"{pair}"' for pair in asked.pairs]
    if workload is QueryWorkload.FILTERED:
        return [f'"{word}" from:202601 to:2026 -site:site001.example' for word in asked.words]
    return [f'"{word}"' for word in asked.words]


def _options(workload: QueryWorkload) -> QueryOptions:
    from holdfast.query.results import FACETS, QueryOptions

    counts = workload is QueryWorkload.FACETS
    return QueryOptions(
        group="capture",  # as the peers answer
        limit=_HITS,
        snippets=workload is QueryWorkload.SNIPPETS,
        facets=FACETS if counts else (),
        timeline=counts,
    )


def _timed(subject: str, workload: QueryWorkload, texts: Sequence[str], ask: Callable[[str], int]) -> Figure:
    """Runs each query once to warm up, then once timed."""
    expected = [ask(text) for text in texts]
    times: list[float] = []

    def work() -> list[int]:
        found = []
        for text in texts:
            start = time.perf_counter()
            found.append(ask(text))
            times.append(time.perf_counter() - start)
        return found

    found, cost = measured(work)
    if found != expected or not any(found):
        raise ChildFailed(f"{sum(found)} matches were found, expected {sum(expected)}")
    times.sort()
    p50, p95 = (times[min(len(times) - 1, int(len(times) * share))] * 1e3 for share in (0.5, 0.95))
    return Figure(subject, workload, len(texts), cost, p50_ms=p50, p95_ms=p95)
