"""Sorted matches: the first of them, in a given order.

Hits with equal sort keys come in the order of their records, by relevance the last one added first, so that paging
returns every match once. Only beyond `EQUALS_MAX` hits of equal relevance is the order tantivy's, which is stable until
the index changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from holdfast.index.schema import schema
from holdfast.query.snapshot import Numbers, QuerySnapshot

if TYPE_CHECKING:
    import tantivy

EQUALS_MAX = 100


class Shown(NamedTuple):
    """One hit: its record number, its address in tantivy, and its relevance."""

    record: int
    address: Any
    score: float


def by_relevance(snapshot: QuerySnapshot, query: tantivy.Query, limit: int) -> tuple[int, list[Shown]]:
    """The number of matches, and the first of them."""
    found = snapshot.searcher.search(snapshot.seen(query), limit + EQUALS_MAX + 1)
    total: int = found.count  # type: ignore[attr-defined]
    hits = found.hits
    if not hits:
        return total, []
    scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
    records = snapshot.numbers("record", [address for _, address in hits])
    level = np.append(0, np.cumsum(np.diff(scores) != 0))
    is_sorted = np.bincount(level)[level] <= EQUALS_MAX
    places = np.lexsort((np.where(is_sorted, ~records, np.arange(len(hits), dtype=np.uint64)), level))
    return total, [Shown(int(records[at]), hits[at][1], float(scores[at])) for at in places[:limit].tolist()]


def by_date(snapshot: QuerySnapshot, query: tantivy.Query, limit: int, *, is_newest: bool) -> tuple[int, list[Shown]]:
    """Of captures in one second, the last one added is the newest."""
    from tantivy import Order

    most = max(1, limit)
    order = Order.Desc if is_newest else Order.Asc
    found = snapshot.searcher.search(snapshot.seen(query), most, order_by_field="date", order=order)
    total: int = found.count  # type: ignore[attr-defined]
    hits = found.hits
    dates = [date for date, _ in hits]
    addresses = [address for _, address in hits]
    if len(hits) < total:  # more captures of the last second may follow
        last = dates[-1]
        first_of_last = dates.index(last)
        dates, addresses = dates[:first_of_last], addresses[:first_of_last]
        same = snapshot.gather(_at(query, last))
        dates += [last] * len(same.addresses)
        addresses += same.addresses
    records = snapshot.numbers("record", addresses)
    keys = (records, np.array(dates, np.uint64))
    places = np.lexsort(keys)[::-1] if is_newest else np.lexsort(keys)
    return total, _shown(records, addresses, places[:limit])


def by_rank(snapshot: QuerySnapshot, query: tantivy.Query, limit: int) -> tuple[int, list[Shown]]:
    """Highest first; of captures of one page, the last one added first. Raises IndexNotFound without ranks."""
    ranks = snapshot.ranks
    found = snapshot.gather(query)
    ranked = ranks.of(snapshot.numbers("page", found.addresses)).rank
    places = np.lexsort((found.records, ranked))[::-1]
    return len(found.records), _shown(found.records, found.addresses, places[:limit])


def _shown(records: Numbers, addresses: Any, places: Any) -> list[Shown]:
    return [Shown(int(records[place]), addresses[place], 0.0) for place in places]


def _at(query: tantivy.Query, date: int) -> tantivy.Query:
    from tantivy import FieldType, Occur, Query

    second = Query.range_query(schema(), "date", FieldType.Unsigned, date, date)
    return Query.boolean_query([(Occur.Must, query), (Occur.Must, second)])
