"""The index as one query sees it: a view, one generation of ranks, and the captures hidden from the caller."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import IndexNotFound
from holdfast.index.index import IndexView
from holdfast.index.ranks.ranks import Ranks
from holdfast.index.schema import schema

if TYPE_CHECKING:
    import tantivy

Numbers = NDArray[np.uint64]
HITS_MAX = 1 << 18  # of one search; tantivy takes about 200 bytes for each


class MatchSet(NamedTuple):
    """Matches of a query: record numbers, ascending, and addresses in tantivy."""

    records: Numbers
    addresses: Sequence[Any]


class QuerySnapshot:
    """All queries go through `seen`, which excludes removed and hidden records. Thread-safe."""

    def __init__(
        self,
        view: IndexView,
        ranks: Ranks | None,
        hidden: tantivy.Query | None = None,
        ends: dict[str, int] | None = None,
        within: tantivy.Query | None = None,
    ) -> None:
        """`ends` has, for each batch, the first excluded serial; without it, everything indexed is visible.

        `within` is all that is visible, on a node of a cluster that answers for some partitions.
        """
        self.view = view
        self._ranks = ranks
        self._hidden = hidden
        self._ends = ends
        self._within = within

    @property
    def searcher(self) -> tantivy.Searcher:
        return self.view.searcher

    @property
    def ranks(self) -> Ranks:
        """Raises IndexNotFound if none were computed."""
        if self._ranks is None:
            raise IndexNotFound("no ranks were computed yet; compute them with 'holdfast index rank'")
        return self._ranks

    @property
    def known_ranks(self) -> Ranks | None:
        return self._ranks

    def seen(self, query: tantivy.Query) -> tantivy.Query:
        """The query without removed, hidden and later records."""
        from tantivy import Occur, Query

        restricted = self.view.restricted(query)
        unwanted = [self._hidden] if self._hidden is not None else []
        unwanted += [_records(first, last) for first, last in self._later()]
        wanted = [Query.const_score_query(self._within, 0.0)] if self._within is not None else []
        if not unwanted and not wanted:
            return restricted
        clauses = [(Occur.Must, each) for each in wanted] + [(Occur.MustNot, each) for each in unwanted]
        return Query.boolean_query([(Occur.Must, restricted), *clauses])

    def _later(self) -> list[tuple[int, int]]:
        """Record numbers after the ends, as inclusive ranges."""
        from holdfast.index.schema import record_number

        if self._ends is None:
            return []
        numbered = enumerate(self.view.state.batches)
        return [
            (record_number(number, self._ends.get(name, 0)), record_number(number + 1, 0) - 1)
            for number, (name, end) in numbered
            if self._ends.get(name, 0) < end
        ]

    def count(self, query: tantivy.Query) -> int:
        found: int = self.searcher.search(self.seen(query), 1).count  # type: ignore[attr-defined]
        return found

    def gather(self, query: tantivy.Query) -> MatchSet:
        from tantivy import Order

        most = max(1, self.count(query))
        hits = self.searcher.search(self.seen(query), most, count=False, order_by_field="record", order=Order.Asc).hits
        records = np.fromiter((number for number, _ in hits), np.uint64, len(hits))
        return MatchSet(records, [address for _, address in hits])

    def records(self, query: tantivy.Query) -> Numbers:
        """The record numbers of all matches, ascending. Memory: eight bytes for each."""
        ends = [end for _, end in self.view.state.batches]
        if self.count(query) <= HITS_MAX:
            return self.gather(query).records
        return np.concatenate([np.empty(0, np.uint64), *self._records_in_ranges(query, ends)])

    def _records_in_ranges(self, query: tantivy.Query, ends: Sequence[int]) -> Iterator[Numbers]:
        """The same for ranges of records with at most `HITS_MAX` matches each."""
        from tantivy import Occur, Query

        from holdfast.index.schema import record_number

        starts = [0, *accumulate(ends)]  # places of the first serial of each batch, if all stood in a row

        def number_at(place: int) -> int:
            batch = bisect_right(starts, place) - 1
            return record_number(batch, place - starts[batch])

        waiting = [(0, starts[-1])]
        while waiting:
            first, end = waiting.pop()
            within = Query.const_score_query(_records(number_at(first), number_at(end) - 1), 0.0)
            part = Query.boolean_query([(Occur.Must, query), (Occur.Must, within)])
            if end - first > HITS_MAX and self.count(part) > HITS_MAX:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]  # the earlier half is next
            else:
                yield self.gather(part).records

    def numbers(self, field: str, addresses: Sequence[Any]) -> Numbers:
        if not addresses:
            return np.empty(0, np.uint64)
        return np.array(self.searcher.fast_field_values(field, list(addresses)), np.uint64)


def _records(first: int, last: int) -> tantivy.Query:
    from tantivy import FieldType, Query

    return Query.range_query(schema(), "record", FieldType.Unsigned, first, last)
