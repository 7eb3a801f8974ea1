"""One node's part of a query that all nodes of a cluster answer, and how the parts become one result (B12, H8).

    candidates   the first matches of this node, and how often each word is in them  ──▶ scores, the first of all nodes
                 documents, mean lengths of fields, in how many documents each word is ──▲ (sums of all nodes)
    hits         the fields shown of the chosen ones

Relevance is BM25 with the frequencies of the whole cluster, so a node's hits rank as they would in one index. Nodes
choose their candidates by their own scores, and return more than are shown (`SPARE`), because the order may change when
they are scored again. Orders by date are exact. Only hits grouped by text need two questions: each node groups all its
matches by their scores, so it must know the statistics of all nodes before.

The mean length of a field is that of all documents that a node has, copies included: each document is on as many nodes,
so the mean over all nodes is that of the archive; with a node missing, it is that of a large sample.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from holdfast.index.index import IndexView
from holdfast.index.words import records_query
from holdfast.model import RecordId
from holdfast.query.access_filter import AccessFilter
from holdfast.query.compile import Compiler, Elsewhere, Leaf
from holdfast.query.engine import QueryEngine, compiled, hits_of, ordered_by, sort_of
from holdfast.query.facets import count_facets, facet_of
from holdfast.query.groups import (
    HitGroup,
    Ordered,
    TextGroup,
    captures_of,
    every_match,
    first_of_pages,
    require_comparable,
    text_groups,
    text_pages,
)
from holdfast.query.language.parser import parse
from holdfast.query.language.syntax import Expression, TextTerm, terms
from holdfast.query.order import EQUALS_MAX, Shown
from holdfast.query.results import FACET_VALUES_MAX, Facet, Hit, Month, QueryOptions, Snippet
from holdfast.query.snapshot import Numbers, QuerySnapshot
from holdfast.query.snippets import Snippets

if TYPE_CHECKING:
    import tantivy

SPARE = 20  # candidates beyond those that are shown, at least
SCORED_MAX = 5000  # matches that are scored again to be grouped by text
_FACT = re.compile(r'"value": ?([^,]+),\s*"description": ?"([^",]+)')  # of an explained score
_MEAN_LENGTHS: WeakKeyDictionary[IndexView, dict[str, float]] = WeakKeyDictionary()  # by field
_K1, _B = 1.2, 0.75  # of BM25, as tantivy has them


@dataclass(slots=True)
class TermStatistics:
    """What scores depend on. Those of several nodes are added."""

    documents: int = 0
    frequencies: Counter[tuple[str, str]] = field(default_factory=Counter)  # documents by field and word
    indexed: Counter[str] = field(default_factory=Counter)  # documents by field, copies included
    lengths: Counter[str] = field(default_factory=Counter)  # words of these, by field

    def add(self, other: TermStatistics) -> None:
        self.documents += other.documents
        self.frequencies.update(other.frequencies)
        self.indexed.update(other.indexed)
        self.lengths.update(other.lengths)

    def to_json(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "frequencies": [[*key, count] for key, count in self.frequencies.items()],
            "fields": [[name, count, self.lengths[name]] for name, count in self.indexed.items()],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            int(values["documents"]),
            Counter({(str(name), str(word)): int(count) for name, word, count in values["frequencies"]}),
            Counter({str(name): int(count) for name, count, _ in values["fields"]}),
            Counter({str(name): float(length) for name, _, length in values["fields"]}),
        )

    def scores(self, leaves: Sequence[Leaf], seen: Iterable[Sequence[Occurrences]]) -> list[float]:
        """The relevance of documents."""
        factors = [leaf.weight * (_K1 + 1) * sum(self._idf(leaf.field, word) for word in leaf.words) for leaf in leaves]
        means = [self.lengths[leaf.field] / max(1, self.indexed[leaf.field]) or 1.0 for leaf in leaves]

        def part(place: int, value: float, frequency: float, length: float) -> float:
            if leaves[place].is_prefix:
                return leaves[place].weight * value
            return factors[place] * frequency / (frequency + _K1 * (1 - _B + _B * length / means[place]))

        return [sum([part(*each) for each in parts]) for parts in seen]

    def _idf(self, name: str, word: str) -> float:
        count = self.frequencies[name, word]
        return math.log(1 + (self.documents - count + 0.5) / (count + 0.5))


class Occurrences(NamedTuple):
    """A leaf in a document, as tantivy explains its score."""

    leaf: int  # its place among the leaves of the query
    value: float
    frequency: float
    length: float  # of the field


class Candidate(NamedTuple):
    """A match, its sort value (relevance or date), and the key of its group."""

    key: float
    record: RecordId
    page: int
    seen: Sequence[Occurrences] = ()  # if its relevance is still to be computed


class PageTexts(NamedTuple):
    """All pages that match, in order: first those of the candidates."""

    sketches: Numbers
    captures: NDArray[np.int64]  # matches of each


@dataclass(frozen=True, slots=True)
class Candidates:
    """The matches of one node: their number, the first of them, and counts by their values."""

    total: int  # hits: pages, or captures
    captures: int
    is_exact: bool  # of the total
    first: Sequence[Candidate]
    facets: Mapping[str, Mapping[str, int]]
    months: Mapping[str, int]
    pending: int
    texts: PageTexts | None = None  # if hits are grouped by text
    leaves: Sequence[Leaf] = ()  # what adds to relevance, if it is still to be computed
    statistics: TermStatistics = field(default_factory=TermStatistics)  # then those of this node


class _First(NamedTuple):
    total: int
    captures: int
    is_exact: bool
    shown: list[Shown]
    pages: list[int]


@dataclass(frozen=True, slots=True)
class ShardQuery:
    """A query at one node. Any thread may call."""

    engine: QueryEngine
    text: str
    options: QueryOptions
    within: Callable[[IndexView], tantivy.Query]  # what this node answers for
    screen: AccessFilter | None
    elsewhere: Elsewhere

    def statistics(self) -> TermStatistics:
        """Raises MalformedQuery, IndexNotFound."""
        return self.engine.tried(self._statistics)

    def _statistics(self) -> TermStatistics:
        snapshot, expression, compiler = self._opened()
        return _counted(snapshot, compiler, list(_leaves(compiler, expression)))

    def candidates(self, statistics: TermStatistics | None = None) -> Candidates:
        """With the statistics of all nodes if hits are grouped by text; else `rescored` computes relevance."""
        return self.engine.tried(lambda: self._candidates(statistics))

    def _candidates(self, statistics: TermStatistics | None) -> Candidates:
        snapshot, expression, compiler = self._opened()
        options, sort = self.options, sort_of(expression, self.options)
        query = compiled(compiler, snapshot, expression, options)
        leaves = list(_leaves(compiler, expression)) if sort == "relevance" else []

        def keys_of(shown: Sequence[Shown]) -> list[float]:
            if statistics is not None:
                return statistics.scores(leaves, _occurrences(snapshot, compiler, leaves, shown))
            return [float(date) for date in snapshot.numbers("date", [each.address for each in shown])]

        texts = None
        if options.group == "text":
            found, keys, texts = self._first_texts(snapshot, ordered_by(snapshot, query, sort), sort, keys_of)
        else:
            found = self._first(snapshot, query, sort)
            keys = keys_of(found.shown)
        is_scored = texts is not None or not leaves
        seen = [[]] * len(keys) if is_scored else _occurrences(snapshot, compiler, leaves, found.shown)
        facets = {}
        for name in options.facets:  # a host is on one node; of other fields, all values are counted
            values = options.facet_values if name == "site" else FACET_VALUES_MAX
            (facet,), _ = count_facets(snapshot, query, [name], values, timeline=False)
            facets[name] = {each.value: each.count for each in facet.values}
        _, months = count_facets(snapshot, query, (), 0, timeline=options.timeline)
        return Candidates(
            found.total,
            found.captures,
            found.is_exact,
            [
                Candidate(key, snapshot.view.record_of(each.record), page, parts)
                for key, each, page, parts in zip(keys, found.shown, found.pages, seen, strict=True)
            ],
            facets,
            {each.month: each.count for each in months},
            self.engine.index.pending(),
            texts,
            [] if is_scored else leaves,
            TermStatistics() if is_scored else _counted(snapshot, compiler, leaves),
        )

    def _first_texts(
        self, snapshot: QuerySnapshot, ordered: Ordered, sort: str, keys_of: Callable[[Sequence[Shown]], list[float]]
    ) -> tuple[_First, list[float], PageTexts]:
        """The first matches, of each page one, that have as many texts as may be shown; and the texts of all pages."""
        every = every_match(ordered)
        wanted = self.options.offset + self.options.limit
        wanted += max(SPARE, wanted // 4)
        pages = text_pages(snapshot, every)
        _, some = text_groups(pages.sketches, pages.captures, 0, wanted)
        most = int(pages.firsts[some[-1].at]) + 1 if len(some) == wanted else len(every)
        shown = every[: min(most, SCORED_MAX)]
        keys = keys_of(shown)
        order = sorted(range(len(shown)), key=lambda at: keys[at], reverse=sort != "oldest")
        every[: len(shown)] = [shown[at] for at in order]
        keys = [keys[at] for at in order]
        pages = text_pages(snapshot, every)
        count = int(np.searchsorted(pages.firsts, len(shown)))
        firsts = pages.firsts[:count].tolist()
        first = _First(0, len(every), True, [every[at] for at in firsts], firsts)
        return first, [keys[at] for at in firsts], PageTexts(pages.sketches, pages.captures)

    def _first(self, snapshot: QuerySnapshot, query: tantivy.Query, sort: str) -> _First:
        """The first matches by this node's own order. All captures of a page are here: one node has its domain."""
        options, ordered = self.options, ordered_by(snapshot, query, sort)
        wanted = options.offset + options.limit
        equals = EQUALS_MAX if sort == "relevance" else 0  # of which none may be left out
        wanted += max(SPARE, wanted // 4) if equals else 0
        if options.group == "page":
            found = first_of_pages(snapshot, query, ordered, wanted + equals)
            total, captures, is_exact = found.total, found.captures, found.is_exact
            shown, firsts = found.shown, found.firsts.tolist()
        else:
            captures, shown = ordered(wanted + equals)
            total, is_exact = captures, True
            firsts = list(range(len(shown)))
        end = firsts[wanted] if wanted < len(firsts) else len(shown)
        last = firsts[wanted + equals] if wanted + equals < len(firsts) else len(shown)
        while 0 < end < last and shown[end].score == shown[end - 1].score:
            end += 1
        shown = shown[:end] if options.limit else []
        pages = snapshot.numbers("page", [each.address for each in shown])
        return _First(total, captures, is_exact, shown, [int(page) for page in pages])

    def hits(self, records: Sequence[RecordId]) -> list[Hit]:
        """What is shown of these matches, in their order; without those removed meanwhile."""
        return self.engine.tried(lambda: self._hits(records))

    def _hits(self, records: Sequence[RecordId]) -> list[Hit]:
        snapshot, expression, compiler = self._opened()
        numbers = [number for record in records if (number := snapshot.view.number_of(record)) is not None]
        matches = snapshot.gather(records_query(numbers)) if numbers else None
        places = dict(zip(matches.records.tolist(), matches.addresses, strict=True)) if matches is not None else {}
        shown = [Shown(number, places[number], 0.0) for number in numbers if number in places]
        snippets: list[Snippet | None] = [None] * len(shown)
        if self.options.snippets and shown:
            maker = Snippets(snapshot.searcher, expression)
            snippets = maker.of(self.engine.records, [snapshot.view.record_of(each.record) for each in shown])
        counts = [1] * len(shown)
        if self.options.group == "page" and shown:
            query = compiled(compiler, snapshot, expression, self.options)
            counts = captures_of(snapshot, query, snapshot.numbers("page", [each.address for each in shown]))
        return list(hits_of(snapshot, list(map(HitGroup, shown, counts)), snippets))

    def matching(self) -> Numbers:
        """The numbers of the records of all matches, ascending."""

        def numbers() -> Numbers:
            snapshot, expression, compiler = self._opened()
            return snapshot.records(compiled(compiler, snapshot, expression, self.options))

        return self.engine.tried(numbers)

    def linked_from(self, page: int) -> list[int]:
        """The pages that captures of a page link to; for the node that answers for the page."""
        return self.engine.tried(lambda: [int(each) for each in Compiler(self._snapshot()).linked_from(page)])

    def _opened(self) -> tuple[QuerySnapshot, Expression, Compiler]:
        snapshot = self._snapshot()
        return snapshot, parse(self.text), Compiler(snapshot, self.elsewhere)

    def _snapshot(self) -> QuerySnapshot:
        view = self.engine.index.view()
        hidden = self.screen.hidden(view) if self.screen is not None else None
        return QuerySnapshot(view, None, hidden, None, self.within(view))


def _leaves(compiler: Compiler, expression: Expression) -> Iterator[Leaf]:
    """What adds to scores."""
    for term, is_wanted in terms(expression):
        if is_wanted and isinstance(term, TextTerm):
            yield from compiler.leaves(term)


def _counted(snapshot: QuerySnapshot, compiler: Compiler, leaves: Sequence[Leaf]) -> TermStatistics:
    """Of this node, what the scores of some leaves depend on."""
    from tantivy import Query

    found = TermStatistics()
    if not leaves:
        return found
    found.documents = snapshot.count(Query.all_query())
    for leaf in leaves:
        for word in leaf.words if not leaf.is_prefix else ():
            if (leaf.field, word) not in found.frequencies:
                found.frequencies[leaf.field, word] = snapshot.count(
                    compiler.leaf_query(Leaf(leaf.field, (word,), 1.0))
                )
    for name in {leaf.field for leaf in leaves}:
        found.indexed[name] = snapshot.searcher.num_docs
        found.lengths[name] = _mean_length(snapshot, compiler, name) * snapshot.searcher.num_docs  # type: ignore[assignment]
    return found


def _occurrences(
    snapshot: QuerySnapshot, compiler: Compiler, leaves: Sequence[Leaf], shown: Sequence[Shown]
) -> list[list[Occurrences]]:
    """How often and in how long a field each leaf is in each of some documents."""
    from tantivy import Occur, Query

    numbers = [each.record for each in shown]
    found: dict[int, list[Occurrences]] = {number: [] for number in numbers}
    chosen = Query.const_score_query(records_query(numbers), 0.0)
    for place, leaf in enumerate(leaves if numbers else ()):
        query = compiler.leaf_query(leaf)
        both = Query.boolean_query([(Occur.Must, query), (Occur.Must, chosen)])
        addresses = [address for _, address in snapshot.searcher.search(both, len(numbers), count=False).hits]
        for number, address in zip(snapshot.numbers("record", addresses), addresses, strict=True):
            value, facts = _explained(query, snapshot.searcher, address)
            found[int(number)].append(Occurrences(place, value, facts.get("freq", 0.0), facts.get("dl", 0.0)))
    return [found[number] for number in numbers]


def _explained(query: tantivy.Query, searcher: tantivy.Searcher, address: Any) -> tuple[float, dict[str, float]]:
    """The score of a document, and the facts that it is made of."""
    facts = _FACT.findall(query.explain(searcher, address).to_json())
    return float(facts[0][0]), {name: float(value) for value, name in facts}


def _mean_length(snapshot: QuerySnapshot, compiler: Compiler, name: str) -> float:
    """The mean length of a field, which tantivy tells only where it explains a score."""
    known = _MEAN_LENGTHS.setdefault(snapshot.view, {})
    if name not in known:
        some = snapshot.searcher.terms_with_prefix(name, "", limit=1)
        query = compiler.leaf_query(Leaf(name, (some[0][0],), 1.0)) if some else None
        hits = snapshot.searcher.search(query, 1, count=False).hits if query is not None else []
        known[name] = _explained(query, snapshot.searcher, hits[0][1])[1].get("avgdl", 0.0) if query and hits else 0.0
    return known[name]


# -- all nodes together -----------------------------------------------------------------------------------------------


def rescored(parts: Sequence[Candidates]) -> list[Candidates]:
    """The candidates of all nodes, with their relevance by the frequencies of the whole cluster."""
    every = TermStatistics()
    for part in parts:
        every.add(part.statistics)
    found = []
    for part in parts:
        scores = every.scores(part.leaves, [each.seen for each in part.first])
        first = [each._replace(key=score, seen=()) for each, score in zip(part.first, scores, strict=True)]
        found.append(replace(part, first=first))
    return found


def chosen(parts: Iterable[Candidates], options: QueryOptions, sort: str) -> list[RecordId]:
    """The records that are shown, of the candidates of all nodes. Of equal ones, the last one added comes first."""
    every = [each for part in parts for each in part.first]
    every.sort(key=lambda each: each.record, reverse=sort != "oldest")
    every.sort(key=lambda each: each.key, reverse=sort != "oldest")
    if options.group == "page":
        of_page: dict[int, Candidate] = {}
        for each in every:
            of_page.setdefault(each.page, each)
        every = list(of_page.values())
    return [each.record for each in every[options.offset : options.offset + options.limit]]


def chosen_texts(
    parts: Sequence[Candidates], options: QueryOptions, sort: str
) -> tuple[int, dict[RecordId, TextGroup]]:
    """The number of texts of all nodes, and those that are shown, by the records that stand for them.

    Raises TooLarge.
    """
    require_comparable(sum(part.captures for part in parts))
    known = [(each, part.texts, at) for part in parts if part.texts for at, each in enumerate(part.first)]
    known.sort(key=lambda each: each[0].record, reverse=sort != "oldest")
    known.sort(key=lambda each: each[0].key, reverse=sort != "oldest")
    columns = []
    for column in (0, 1):  # sketches, captures
        first = np.array([texts[column][at] for _, texts, at in known])
        rest = [part.texts[column][len(part.first) :] for part in parts if part.texts]
        columns.append(np.concatenate([first.astype(np.uint64 if column == 0 else np.int64), *rest]))
    total, groups = text_groups(columns[0], columns[1], options.offset, options.limit)
    return total, {known[each.at][0].record: each for each in groups if each.at < len(known)}


def joined_facets(parts: Sequence[Candidates], options: QueryOptions) -> tuple[tuple[Facet, ...], tuple[Month, ...]]:
    facets = []
    for name in options.facets:
        values: Counter[str] = Counter()
        for part in parts:
            values.update(part.facets.get(name, {}))
        facets.append(facet_of(name, values, options.facet_values))
    months: Counter[str] = Counter()
    for part in parts:
        months.update(part.months)
    return tuple(facets), tuple(Month(month, count) for month, count in sorted(months.items()))
