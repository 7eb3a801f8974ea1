"""The query engine: from a text to hits, counts, facets and snippets; or to the numbers of all records that match.

    text ──parse──► expression ──compile──► a query of tantivy ──► total, hits in order ──► cards, ranks, snippets
                                    ▲                         └──► facets, timeline
                          a snapshot: view, ranks, what is hidden

A result is of one moment: what is committed to the index meanwhile is in the next one. Records that were removed, and
captures that an access filter hides, are in no hit, count or facet. Relevance is BM25 over title and text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from holdfast.arguments import checked
from holdfast.errors import DamagedIndex
from holdfast.index.index import Index
from holdfast.index.ranks.ranks import Ranks
from holdfast.index.schema import Card
from holdfast.index.words import records_query
from holdfast.query.access_filter import AccessFilter
from holdfast.query.compile import Compiler
from holdfast.query.facets import count_facets
from holdfast.query.order import Shown, by_date, by_rank, by_relevance
from holdfast.query.parser import parse
from holdfast.query.results import Hit, QueryOptions, QueryResult, Snippet
from holdfast.query.snapshot import Numbers, QuerySnapshot
from holdfast.query.snippets import Snippets
from holdfast.query.syntax import Compare, Expression, Match, Words, canonical, conjunction, terms
from holdfast.records.records import Records

if TYPE_CHECKING:
    import tantivy

_TRIES = 5
_RANKED = ("rank", "inlinks")
T = TypeVar("T")


class _HitNumbers(NamedTuple):
    """The numeric fields of the documents that are shown."""

    dates: Numbers
    statuses: Numbers
    sizes: Numbers
    pages: Numbers


class QueryEngine:
    """Answers the queries of one archive. Any thread may call any method, in any number of processes."""

    def __init__(self, index: Index, records: Callable[[], Records]) -> None:
        self._index = index
        self._records = records
        self._ranks: Ranks | None = None

    @checked
    def ask(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        """The result of a query. `screen` hides captures from the caller.

        Raises MalformedQuery, or IndexNotFound if there is no index, or no ranks where they are asked for.
        """
        expression = parse(text)
        return self._tried(lambda: self._answer(expression, options or QueryOptions(), screen))

    @checked
    def records_matching(self, text: str, ends: Mapping[str, int] | None = None, ranks: int | None = None) -> Numbers:
        """The numbers of all records that match, ascending.

        With `ends`, which has for each batch the first serial that does not count, and `ranks`, a generation of them,
        the result is always the same, but for records that were removed since. Raises NotFound if the ranks of that
        generation are gone.
        """
        expression = parse(text)

        def matching() -> Numbers:
            moment = self._moment(expression, None, dict(ends) if ends is not None else None, ranks)
            return moment.gather(Compiler(moment).compile(expression)).records

        return self._tried(matching)

    def is_ranked(self, text: str) -> bool:
        """Whether it depends on ranks what a query finds. Raises MalformedQuery."""
        return _is_ranked(parse(text))

    def ranks_generation(self) -> int | None:
        """That of the newest ranks; None if there are none."""
        ranks = self._newest_ranks()
        return ranks.head.generation if ranks is not None else None

    def _tried(self, work: Callable[[], T]) -> T:
        """Again, if files of tables were replaced while it was under way."""
        for _ in range(_TRIES):
            try:
                return work()
            except FileNotFoundError as error:
                missing = error.filename
        raise DamagedIndex(f"'{missing}' is missing; run 'holdfast index build'")

    def _moment(
        self, expression: Expression, screen: AccessFilter | None, ends: dict[str, int] | None, generation: int | None
    ) -> QuerySnapshot:
        view = self._index.view()
        if generation is not None and _is_ranked(expression):
            ranks: Ranks | None = self._index.ranks_of(generation)
        else:
            ranks = self._newest_ranks()
        return QuerySnapshot(view, ranks, screen.hidden(view) if screen is not None else None, ends)

    def _newest_ranks(self) -> Ranks | None:
        found = self._index.ranks()
        if found is not None and self._ranks is not None and found.head == self._ranks.head:
            return self._ranks
        self._ranks = found
        return found

    # -- a result ----------------------------------------------------------------------------------------------

    def _answer(self, expression: Expression, options: QueryOptions, screen: AccessFilter | None) -> QueryResult:
        moment = self._moment(expression, screen, None, None)
        within = [expression, *([Match("collection", options.collection)] if options.collection else [])]
        query = Compiler(moment).compile(conjunction(within))
        if options.latest:
            query = _newest_of_each(moment, query)
        sort = options.sort or ("relevance" if _has_words(expression) else "newest")
        total, shown = _ordered(moment, query, sort, options)
        facets, timeline = count_facets(moment, query, options.facets, options.facet_values, timeline=options.timeline)
        snippets: list[Snippet | None] = [None] * len(shown)
        if options.snippets and shown:
            maker = Snippets(moment.searcher, expression)
            snippets = maker.of(self._records(), [moment.view.record_of(each.record) for each in shown])
        hits = _hits(moment, shown, snippets)
        pending = self._index.pending()
        return QueryResult(canonical(expression), sort, total, options.offset, hits, facets, timeline, pending)


def _is_ranked(expression: Expression) -> bool:
    return any(isinstance(term, Compare) and term.field in _RANKED for term, _ in terms(expression))


def _has_words(expression: Expression) -> bool:
    return any(is_wanted and isinstance(term, Words) for term, is_wanted in terms(expression))


def _ordered(moment: QuerySnapshot, query: tantivy.Query, sort: str, options: QueryOptions) -> tuple[int, list[Shown]]:
    if sort == "rank":
        return by_rank(moment, query, options.offset, options.limit)
    if sort == "relevance":
        return by_relevance(moment, query, options.offset, options.limit)
    return by_date(moment, query, options.offset, options.limit, is_newest=sort == "newest")


def _newest_of_each(moment: QuerySnapshot, query: tantivy.Query) -> tantivy.Query:
    """Of the matches of each page only the newest; of several of one second, that which came in last."""
    from tantivy import Occur, Query

    found = moment.gather(query)
    if not len(found.records):
        return Query.empty_query()
    pages, dates = moment.numbers("page", found.addresses), moment.numbers("date", found.addresses)
    order = np.lexsort((found.records, dates, pages))
    is_last = np.append(pages[order][1:] != pages[order][:-1], True)
    newest = found.records[order][is_last]
    chosen = Query.const_score_query(records_query(newest.tolist()), 0.0)
    return Query.boolean_query([(Occur.Must, query), (Occur.Must, chosen)])


def _hits(moment: QuerySnapshot, shown: list[Shown], snippets: list[Snippet | None]) -> tuple[Hit, ...]:
    addresses = [each.address for each in shown]
    numbers = _HitNumbers(*(moment.numbers(field, addresses) for field in ("date", "status", "size", "page")))
    ranks = moment.known_ranks
    ranked = ranks.of(numbers.pages) if ranks is not None else None
    hits = []
    for at, (each, snippet) in enumerate(zip(shown, snippets, strict=True)):
        card = _card(moment.searcher, each.address)
        hits.append(
            Hit(
                record=moment.view.record_of(each.record),
                url=card.url,
                timestamp=f"{int(numbers.dates[at]):014d}",
                title=card.title,
                mime=card.mime,
                status=int(numbers.statuses[at]),
                lang=card.lang,
                size=int(numbers.sizes[at]),
                collection=card.collection,
                rank=float(ranked.rank[at]) if ranked is not None else 0.0,
                inlinks=int(ranked.inlinks[at]) if ranked is not None else 0,
                score=each.score,
                snippet=snippet,
            )
        )
    return tuple(hits)


def _card(searcher: tantivy.Searcher, address: Any) -> Card:
    packed = searcher.doc(address).get_first("card")
    assert isinstance(packed, bytes), "every document has a card"
    return Card.unpack(packed)
