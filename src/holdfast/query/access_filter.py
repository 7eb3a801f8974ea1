"""Access filters: captures hidden from a caller, as a query that excludes them from hits, counts and facets alike.

A server's access rules are such a filter. `block` hides as `exclude` does: a page whose words could
be searched one by one would not be withheld. The first rule that matches a capture decides; so, from the
last rule to the first, rules that hide add captures to the hidden set, and rules that allow remove some of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from holdfast.catalog.access_rules import DatedRule, Verdict, before, dated, prefix_key
from holdfast.config import AccessRule
from holdfast.formats.dates import timestamp_at
from holdfast.index.index import IndexView
from holdfast.index.schema import host_of, page_number, schema
from holdfast.index.tables import read_rows
from holdfast.query.snapshot import Numbers
from holdfast.urls import host_key, url_key

if TYPE_CHECKING:
    import pyarrow
    import tantivy

_ANY = "*"
_POSTED = "__wb_method="  # in the key of a request with a body; rules match its URL


class AccessFilter(Protocol):
    """Hides captures. Thread-safe."""

    def hidden(self, view: IndexView) -> tantivy.Query | None:
        """The hidden documents; None if there are none. Raises FileNotFoundError if the view is outdated."""


class _Place(NamedTuple):
    """The keys that a rule for a URL or prefix matches: one key, and those with given beginnings."""

    exact: str
    beginnings: tuple[str, ...]

    def fits(self, key: str) -> bool:
        return key == self.exact or key.startswith(self.beginnings)


class RuleFilter:
    """Access rules as a filter. The pages they match are cached until the index changes."""

    def __init__(self, rules: Sequence[AccessRule], clock: Callable[[], float] = time.time) -> None:
        self._rules = [(rule, dated(rule), _place(rule)) for rule in rules]
        self._clock = clock
        self._lock = threading.Lock()
        self._files: list[Path] = []
        self._pages: dict[_Place, Numbers] = {}

    def hidden(self, view: IndexView) -> tantivy.Query | None:
        from tantivy import Occur, Query

        pages = self._pages_of(view)
        now = timestamp_at(self._clock())
        hidden: tantivy.Query | None = None
        groups = groupby(reversed(self._rules), lambda each: each[1].verdict is Verdict.ALLOW)
        for is_allowed, rules in groups:
            fitting = [each for each in (_fitting(*rule, pages, now) for rule in rules) if each is not None]
            if not is_allowed:
                every = [*fitting, *([hidden] if hidden is not None else [])]
                hidden = Query.boolean_query([(Occur.Should, each) for each in every]) if every else None
            elif hidden is not None and fitting:
                hidden = Query.boolean_query([(Occur.Must, hidden), *((Occur.MustNot, each) for each in fitting)])
        return hidden

    def _pages_of(self, view: IndexView) -> dict[_Place, Numbers]:
        """The pages that each rule for a URL or prefix matches."""
        places = [place for _, _, place in self._rules if place is not None]
        files = view.table_files("captures")
        with self._lock:
            if places and files != self._files:
                self._pages = _pages(view, places)
                self._files = files
            return self._pages


def _place(rule: AccessRule) -> _Place | None:
    if rule.url:
        return _Place(url_key(rule.url), ())
    if not rule.prefix:
        return None
    key, ends = prefix_key(rule.prefix)
    return _Place(key, tuple(key + end for end in ends))


def _pages(view: IndexView, places: Sequence[_Place]) -> dict[_Place, Numbers]:
    found: dict[_Place, list[Numbers]] = {place: [] for place in places}
    for path in view.table_files("captures"):
        rows = read_rows(path, ["urlkey", "page"])
        posted = _posted(path, rows)
        for place, pages in found.items():
            pages.append(_matching(rows, place))
            pages.append(np.array([page for page, key in posted.items() if place.fits(key)], np.uint64))
    return {
        place: np.unique(np.concatenate([np.array([page_number(place.exact)], np.uint64), *pages]))
        for place, pages in found.items()
    }


def _matching(rows: pyarrow.Table, place: _Place) -> Numbers:
    """Pages whose key has one of the beginnings."""
    from pyarrow import compute

    numbers = [
        rows.filter(compute.starts_with(rows["urlkey"], pattern=beginning))["page"].to_numpy()
        for beginning in place.beginnings
    ]
    return np.concatenate([np.empty(0, np.uint64), *numbers])


def _posted(path: Path, rows: pyarrow.Table) -> dict[int, str]:
    """For requests with a body, their page and the key of the bare URL, which rules match."""
    from pyarrow import compute

    chosen = compute.match_substring(rows["urlkey"], pattern=_POSTED)
    if not compute.any(chosen).as_py():
        return {}
    urls = read_rows(path, ["url"]).filter(chosen)["url"].to_pylist()
    pages = rows.filter(chosen)["page"].to_pylist()
    return {page: url_key(url) for page, url in zip(pages, urls, strict=True)}


def _fitting(
    rule: AccessRule, asked: DatedRule, place: _Place | None, pages: dict[_Place, Numbers], now: str
) -> tantivy.Query | None:
    """The documents that a rule matches; None if it matches none."""
    from tantivy import FieldType, Occur, Query

    if asked.until and now >= asked.until:
        return None
    parts = [Query.all_query()]
    if rule.collection != _ANY:
        parts.append(Query.term_query(schema(), "collection", rule.collection, "basic"))
    if place is not None:
        parts.append(Query.term_set_query(schema(), "page", pages[place].tolist()))
    elif rule.domain:
        host = host_of(host_key(rule.domain.removeprefix("*.")) + ")")
        parts.append(Query.term_query(schema(), "suffix", host, "basic"))
    first, last = int(asked.first or 0), int(asked.last)
    if asked.span is not None:
        first = max(first, int(before(now, asked.span) or -1) + 1)
    if asked.asks_time:
        parts.append(Query.range_query(schema(), "date", FieldType.Unsigned, first, last))
    return Query.boolean_query([(Occur.Must, each) for each in parts])
