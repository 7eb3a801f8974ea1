"""The query engine: from a query to hits, counts, facets and snippets, or to the numbers of all matching records.

    text ──parse──► expression ──compile──► a query of tantivy ──► total, hits in order ──► cards, ranks, snippets
                                    ▲                         └──► facets, timeline
                          a snapshot: view, ranks, what is hidden

A result is of one snapshot of the index. Removed records, and
captures that an access filter hides, are in no hit, count or facet. Relevance is BM25 over title, main text and rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from holdfast.arguments import checked
from holdfast.errors import DamagedIndex
from holdfast.index.index import Index
from holdfast.index.ranks.ranks import Ranks
from holdfast.index.schema import Card
from holdfast.index.words import records_query
from holdfast.model import RecordId
from holdfast.query.access_filter import AccessFilter
from holdfast.query.compile import Compiler
from holdfast.query.facets import count_facets
from holdfast.query.groups import Groups, HitGroup, Ordered, by_capture, by_page, by_text
from holdfast.query.language.parser import parse
from holdfast.query.language.syntax import Compare, Expression, Match, TextTerm, canonical, conjunction, terms
from holdfast.query.order import Shown, by_date, by_rank, by_relevance
from holdfast.query.results import Hit, QueryOptions, QueryResult, Snippet
from holdfast.query.snapshot import Numbers, QuerySnapshot
from holdfast.query.snippets import Snippets
from holdfast.records.records import Records

if TYPE_CHECKING:
    import tantivy

_TRIES = 5
_RANKED = ("rank", "inlinks")
T = TypeVar("T")


class QueryEngine:
    """Answers the queries of one archive. Thread-safe, in any number of processes."""

    def __init__(self, index: Index, records: Callable[[], Records]) -> None:
        self.index = index
        self._records = records
        self._ranks: Ranks | None = None

    @checked
    def ask(self, text: str, options: QueryOptions | None = None, screen: AccessFilter | None = None) -> QueryResult:
        """The result of a query. `screen` hides captures from the caller.

        Raises MalformedQuery, or IndexNotFound if the index, or ranks that the query needs, do not exist.
        """
        expression = parse(text)
        return self.tried(lambda: self._answer(expression, options or QueryOptions(), screen))

    @checked
    def records_matching(self, text: str, ends: Mapping[str, int] | None = None, ranks: int | None = None) -> Numbers:
        """The numbers of all matching records, ascending.

        With `ends` (for each batch, the first serial that does not count) and `ranks` (a generation),
        the result is always the same, except for records removed since. Raises NotFound if the ranks of that
        generation are gone.
        """
        expression = parse(text)

        def matching() -> Numbers:
            snapshot = self._snapshot(expression, None, dict(ends) if ends is not None else None, ranks)
            return snapshot.records(Compiler(snapshot).compile(expression))

        return self.tried(matching)

    def titles(self, records: Collection[RecordId]) -> dict[RecordId, str]:
        """The titles of indexed records that have one; none without an index."""
        if not self.index.exists:
            return {}

        def titled() -> dict[RecordId, str]:
            view = self.index.view()
            numbers = [number for each in records if (number := view.number_of(each)) is not None]
            if not numbers:
                return {}
            found = QuerySnapshot(view, None).gather(records_query(numbers))
            cards = (_card(view.searcher, address) for address in found.addresses)
            pairs = zip(found.records.tolist(), cards, strict=True)
            return {view.record_of(number): card.title for number, card in pairs if card.title}

        return self.tried(titled)

    def is_ranked(self, text: str) -> bool:
        """Whether the matches of a query depend on ranks. Raises MalformedQuery."""
        return is_ranked(parse(text))

    def tried(self, work: Callable[[], T]) -> T:
        """Retries if table files were replaced meanwhile."""
        for _ in range(_TRIES):
            try:
                return work()
            except FileNotFoundError as error:
                missing = error.filename
        raise DamagedIndex(f"'{missing}' is missing; run 'holdfast index build'")

    def _snapshot(
        self, expression: Expression, screen: AccessFilter | None, ends: dict[str, int] | None, generation: int | None
    ) -> QuerySnapshot:
        view = self.index.view()
        if generation is not None and is_ranked(expression):
            ranks: Ranks | None = self.index.ranks_of(generation)
        else:
            ranks = self._newest_ranks()
        return QuerySnapshot(view, ranks, screen.hidden(view) if screen is not None else None, ends)

    def _newest_ranks(self) -> Ranks | None:
        found = self.index.ranks()
        if found is not None and self._ranks is not None and found.head == self._ranks.head:
            return self._ranks
        self._ranks = found
        return found

    @property
    def records(self) -> Records:
        return self._records()

    # -- a result ----------------------------------------------------------------------------------------------

    def _answer(self, expression: Expression, options: QueryOptions, screen: AccessFilter | None) -> QueryResult:
        snapshot = self._snapshot(expression, screen, None, None)
        query = compiled(Compiler(snapshot), snapshot, expression, options)
        sort = sort_of(expression, options)
        found = _grouped(snapshot, query, sort, options)
        shown = [each.shown for each in found.groups]
        facets, timeline = count_facets(
            snapshot, query, options.facets, options.facet_values, timeline=options.timeline
        )
        snippets: list[Snippet | None] = [None] * len(shown)
        if options.snippets and shown:
            maker = Snippets(snapshot.searcher, expression)
            snippets = maker.of(self._records(), [snapshot.view.record_of(each.record) for each in shown])
        return QueryResult(
            query=canonical(expression),
            sort=sort,
            group=options.group,
            total=found.total,
            captures=found.captures,
            is_exact=found.is_exact,
            offset=options.offset,
            hits=hits_of(snapshot, found.groups, snippets),
            facets=facets,
            timeline=timeline,
            pending=self.index.pending(),
        )


def compiled(
    compiler: Compiler, snapshot: QuerySnapshot, expression: Expression, options: QueryOptions
) -> tantivy.Query:
    """The query of an expression, with what the options add to it."""
    within = [expression, *([Match("collection", options.collection)] if options.collection else [])]
    query = compiler.compile(conjunction(within))
    return _newest_of_each(snapshot, query) if options.latest else query


def sort_of(expression: Expression, options: QueryOptions) -> str:
    return options.sort or ("relevance" if _has_words(expression) else "newest")


def is_ranked(expression: Expression) -> bool:
    return any(isinstance(term, Compare) and term.field in _RANKED for term, _ in terms(expression))


def _has_words(expression: Expression) -> bool:
    return any(is_wanted and isinstance(term, TextTerm) for term, is_wanted in terms(expression))


def ordered_by(snapshot: QuerySnapshot, query: tantivy.Query, sort: str) -> Ordered:
    """From a limit to the number of matches and the first of them."""

    def ordered(limit: int) -> tuple[int, list[Shown]]:
        if sort == "rank":
            return by_rank(snapshot, query, limit)
        if sort == "relevance":
            return by_relevance(snapshot, query, limit)
        return by_date(snapshot, query, limit, is_newest=sort == "newest")

    return ordered


def _grouped(snapshot: QuerySnapshot, query: tantivy.Query, sort: str, options: QueryOptions) -> Groups:
    ordered = ordered_by(snapshot, query, sort)
    if options.group == "page":
        return by_page(snapshot, query, ordered, options.offset, options.limit)
    if options.group == "text":
        return by_text(snapshot, ordered, options.offset, options.limit)
    return by_capture(ordered, options.offset, options.limit)


def _newest_of_each(snapshot: QuerySnapshot, query: tantivy.Query) -> tantivy.Query:
    """The newest match of each page; of several in one second, the last one added."""
    from tantivy import Occur, Query

    found = snapshot.gather(query)
    if not len(found.records):
        return Query.empty_query()
    pages, dates = snapshot.numbers("page", found.addresses), snapshot.numbers("date", found.addresses)
    order = np.lexsort((found.records, dates, pages))
    is_last = np.append(pages[order][1:] != pages[order][:-1], True)
    newest = found.records[order][is_last]
    chosen = Query.const_score_query(records_query(newest.tolist()), 0.0)
    return Query.boolean_query([(Occur.Must, query), (Occur.Must, chosen)])


def hits_of(snapshot: QuerySnapshot, groups: Sequence[HitGroup], snippets: list[Snippet | None]) -> tuple[Hit, ...]:
    addresses = [each.shown.address for each in groups]
    dates, statuses, sizes, pages = (snapshot.numbers(field, addresses) for field in ("date", "status", "size", "page"))
    ranks = snapshot.known_ranks
    ranked = ranks.of(pages) if ranks is not None else None
    hits = []
    for at, (group, snippet) in enumerate(zip(groups, snippets, strict=True)):
        each = group.shown
        card = _card(snapshot.searcher, each.address)
        hits.append(
            Hit(
                record=snapshot.view.record_of(each.record),
                url=card.url,
                timestamp=f"{int(dates[at]):014d}",
                title=card.title,
                mime=card.mime,
                status=int(statuses[at]),
                lang=card.lang,
                size=int(sizes[at]),
                collection=card.collection,
                rank=float(ranked.rank[at]) if ranked is not None else 0.0,
                inlinks=int(ranked.inlinks[at]) if ranked is not None else 0,
                score=each.score,
                snippet=snippet,
                captures=group.captures,
                pages=group.pages,
            )
        )
    return tuple(hits)


def _card(searcher: tantivy.Searcher, address: Any) -> Card:
    packed = searcher.doc(address).get_first("card")
    assert isinstance(packed, bytes), "every document has a card"
    return Card.unpack(packed)
