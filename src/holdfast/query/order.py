"""Matches in order, a page of them at a time.

Hits that are equal in what is sorted by stand in the order of their records, so that an answer taken in parts has every
match once. Only where more than `EQUALS_MAX` are of one relevance their order is tantivy's, which stays for as long as
the index does.
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
    """One hit: its record number, where tantivy has it, and its relevance."""

    record: int
    address: Any
    score: float


def by_relevance(moment: QuerySnapshot, query: tantivy.Query, offset: int, limit: int) -> tuple[int, list[Shown]]:
    """The number of matches, and those of the page that is asked for."""
    most = offset + limit
    found = moment.searcher.search(moment.seen(query), most + EQUALS_MAX + 1)
    total: int = found.count  # type: ignore[attr-defined]
    hits = found.hits
    scores = np.fromiter((score for score, _ in hits), np.float32, len(hits))
    ends = [*np.flatnonzero(np.diff(scores) != 0) + 1, len(hits)]
    shown: list[Shown] = []
    begin = 0
    for end in ends:
        if begin >= most:
            break
        addresses = [address for _, address in hits[begin:end]]
        records = moment.numbers("record", addresses)
        places = np.argsort(records) if end - begin <= EQUALS_MAX else np.arange(end - begin)
        shown += [Shown(int(records[at]), addresses[at], float(scores[begin])) for at in places]
        begin = end
    return total, shown[offset:most]


def by_date(
    moment: QuerySnapshot, query: tantivy.Query, offset: int, limit: int, *, is_newest: bool
) -> tuple[int, list[Shown]]:
    """Of captures of one second, the one that came in last is the newest."""
    from tantivy import Order

    most = max(1, offset + limit)
    order = Order.Desc if is_newest else Order.Asc
    found = moment.searcher.search(moment.seen(query), most, order_by_field="date", order=order)
    total: int = found.count  # type: ignore[attr-defined]
    hits = found.hits
    dates = [date for date, _ in hits]
    addresses = [address for _, address in hits]
    if len(hits) < total:  # others of the last second may have been left out
        last = dates[-1]
        first_of_last = dates.index(last)
        dates, addresses = dates[:first_of_last], addresses[:first_of_last]
        same = moment.gather(_at(query, last))
        dates += [last] * len(same.addresses)
        addresses += same.addresses
    records = moment.numbers("record", addresses)
    keys = (records, np.array(dates, np.uint64))
    places = np.lexsort(keys)[::-1] if is_newest else np.lexsort(keys)
    return total, _shown(records, addresses, places[offset : offset + limit])


def by_rank(moment: QuerySnapshot, query: tantivy.Query, offset: int, limit: int) -> tuple[int, list[Shown]]:
    """The highest first; of captures of one page, the one that came in last. Raises IndexNotFound without ranks."""
    ranks = moment.ranks
    found = moment.gather(query)
    ranked = ranks.of(moment.numbers("page", found.addresses)).rank
    places = np.lexsort((found.records, ranked))[::-1]
    return len(found.records), _shown(found.records, found.addresses, places[offset : offset + limit])


def _shown(records: Numbers, addresses: Any, places: Any) -> list[Shown]:
    return [Shown(int(records[place]), addresses[place], 0.0) for place in places]


def _at(query: tantivy.Query, date: int) -> tantivy.Query:
    """The matches of one second."""
    from tantivy import FieldType, Occur, Query

    second = Query.range_query(schema(), "date", FieldType.Unsigned, date, date)
    return Query.boolean_query([(Occur.Must, query), (Occur.Must, second)])
