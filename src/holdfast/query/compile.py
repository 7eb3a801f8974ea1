"""Compiles an expression to a tantivy query.

Words are searched in title, main text and rest, each with its weight. A word without quotes also matches the stems of
documents, in the language of each; stems weigh less, and an exact word is a stem, too, so exact matches rank higher.
Everything else only decides whether a capture matches, and adds nothing to its score. Ranks are not indexed, because
they change without the captures: a comparison with a rank becomes a set of pages or, beside other terms, a subset of
the records that these match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from holdfast.catalog.timestamps import earliest, latest
from holdfast.index.schema import (
    STEMMERS,
    WORD_BYTES_MAX,
    analyzer,
    page_number,
    record_number,
    schema,
    separated,
    stem_of,
    stemmed_field,
    words_of,
)
from holdfast.index.tables import read_rows_of
from holdfast.index.words import records_query
from holdfast.query.language.syntax import And, Compare, Everything, Expression, Match, Not, Or, Prefix, TextTerm, Words
from holdfast.query.snapshot import Numbers, QuerySnapshot
from holdfast.urls import parse_page_id, url_key

if TYPE_CHECKING:
    import tantivy

WEIGHTS = {"title": 3.0, "main": 1.0, "rest": 0.5}  # of exact words and prefixes
STEM_WEIGHTS = {"title": 0.9, "text": 0.3}
_RANKED = ("rank", "inlinks")
_TEXTS = {"site": "host", "domain": "suffix", "lang": "lang", "collection": "collection"}
_NUMBER_MAX = 2**64 - 1
_LENGTH_ANY = 1 << 20  # longer than any query


class Leaf(NamedTuple):
    """What gives a score: words in one field, side by side, with a weight."""

    field: str
    words: tuple[str, ...]
    weight: float
    is_prefix: bool = False  # the last word is the beginning of one


class Elsewhere(Protocol):
    """The knowledge that a node of a cluster needs from other nodes to compile a query."""

    def linked_from(self, page: int) -> Numbers:
        """The pages that captures of a page link to."""

    def of_batch(self, name: str) -> Numbers:
        """The numbers of the records here of a batch, by their origin."""


class Compiler:
    """Compiles queries against one snapshot."""

    def __init__(self, snapshot: QuerySnapshot, elsewhere: Elsewhere | None = None) -> None:
        """Without `elsewhere`, all records are here."""
        import tantivy

        self._snapshot = snapshot
        self._elsewhere = elsewhere
        self._query = tantivy.Query
        self._must, self._not, self._may = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should
        self._unsigned = tantivy.FieldType.Unsigned
        self._schema = schema()

    def compile(self, expression: Expression) -> tantivy.Query:
        """The tantivy query of an expression. Raises IndexNotFound if it needs ranks and there are none."""
        if isinstance(expression, And):
            return self._all_of(expression.parts)
        if isinstance(expression, Or):
            return self._query.boolean_query([(self._may, self.compile(part)) for part in expression.parts])
        if isinstance(expression, Not):
            return self._all_of((expression,))
        if isinstance(expression, Everything):
            return self._everything()
        if isinstance(expression, TextTerm):
            return self._text(expression)
        return self._plain(self._match(expression) if isinstance(expression, Match) else self._compare(expression))

    def _plain(self, query: tantivy.Query) -> tantivy.Query:
        return self._query.const_score_query(query, 0.0)

    def _everything(self) -> tantivy.Query:
        return self._plain(self._query.all_query())

    def _all_of(self, parts: Sequence[Expression]) -> tantivy.Query:
        ranked = [part for part in parts if _is_ranked(part)]
        others = [part for part in parts if not _is_ranked(part)]
        if ranked and others:
            return self._narrowed(self._all_of(others), ranked)
        clauses = [(self._not, self.compile(part.part)) for part in parts if isinstance(part, Not)]
        wanted = [(self._must, self.compile(part)) for part in parts if not isinstance(part, Not)]
        return self._query.boolean_query([*(wanted or [(self._must, self._everything())]), *clauses])

    # -- words --------------------------------------------------------------------------------------------------

    def _text(self, asked: TextTerm) -> tantivy.Query:
        leaves = self.leaves(asked)
        if not leaves:
            return self._query.empty_query()
        return self._query.boolean_query([(self._may, self._weighted(each)) for each in leaves])

    def _weighted(self, leaf: Leaf) -> tantivy.Query:
        return self._query.boost_query(self.leaf_query(leaf), leaf.weight)

    def leaves(self, asked: TextTerm) -> list[Leaf]:
        """Where the words of a text are searched; the score of a document is the sum of the leaves that match."""
        words = tuple(words_of(asked.text))
        if not words or _has_long_word(asked.text):
            return []
        is_prefix = isinstance(asked, Prefix)
        fields = [(field, weight) for field, weight in WEIGHTS.items() if asked.field in ("", field)]
        leaves = [Leaf(field, words, weight, is_prefix) for field, weight in fields]
        return leaves + (self._stems(asked) if isinstance(asked, Words) and len(words) == 1 else [])

    def leaf_query(self, leaf: Leaf) -> tantivy.Query:
        """Without the weight."""
        field, words = leaf.field, leaf.words
        if leaf.is_prefix:
            *first, last = words  # of letters and digits alone: nothing in them means something to a pattern
            if not first:
                return self._query.regex_query(self._schema, field, f"{last}.*")
            return self._query.regex_phrase_query(self._schema, field, [*first, f"{last}.*"])
        if len(words) == 1:
            return self._query.term_query(self._schema, field, words[0], "freq")
        return self._query.phrase_query(self._schema, field, list(words))

    def _stems(self, asked: Words) -> list[Leaf]:
        """The stem of a word in each language that has documents with it."""
        found = []
        for code in STEMMERS:
            stem = stem_of(asked.text, code)
            for name, weight in STEM_WEIGHTS.items():
                field = stemmed_field(name, code)
                if asked.field in ("", name) and stem and self._snapshot.searcher.doc_freq(field, stem):
                    found.append(Leaf(field, (stem,), weight))
        return found

    # -- metadata -----------------------------------------------------------------------------------------------

    def _match(self, asked: Match) -> tantivy.Query:
        name, value = asked.field, asked.value
        if name in _TEXTS:
            return self._query.term_query(self._schema, _TEXTS[name], value, "basic")
        if name == "type":
            return self._query.term_query(self._schema, "mime" if "/" in value else "type", value, "basic")
        if name == "batch":
            return self._batch(value)
        if name == "from":
            return self._range("date", int(earliest(value)), _NUMBER_MAX)
        if name == "to":
            return self._range("date", 0, int(latest(value)))
        if name == "page-id":
            return self._query.term_query(self._schema, "page_id", parse_page_id(value), "basic")
        page = page_number(url_key(value))
        if name == "linked-from":
            found = self._elsewhere.linked_from(page) if self._elsewhere is not None else self.linked_from(page)
            return self._set("page", found)
        if name == "links-to":
            return self._set("record", self._linking_to(page))
        return self._query.term_query(self._schema, "page", page, "basic")

    def _batch(self, name: str) -> tantivy.Query:
        """Record numbers begin with the number of their batch."""
        if self._elsewhere is not None:
            return self._set("record", self._elsewhere.of_batch(name))
        number = self._snapshot.view.state.batch_number(name)
        if number is None:
            return self._query.empty_query()
        return self._range("record", record_number(number, 0), record_number(number + 1, 0) - 1)

    def _compare(self, asked: Compare) -> tantivy.Query:
        if asked.field in _RANKED:
            return self._pages_with(asked)
        number = int(asked.number)
        if asked.sign == "<":
            return self._range(asked.field, 0, number - 1) if number else self._query.empty_query()
        bounds = {"=": (number, number), ">=": (number, _NUMBER_MAX), ">": (number + 1, _NUMBER_MAX), "<=": (0, number)}
        return self._range(asked.field, *bounds[asked.sign])

    def _range(self, field: str, first: int, last: int) -> tantivy.Query:
        return self._query.range_query(self._schema, field, self._unsigned, first, last)

    def _set(self, field: str, numbers: Numbers) -> tantivy.Query:
        if not len(numbers):
            return self._query.empty_query()
        return self._query.term_set_query(self._schema, field, numbers.tolist())

    # -- links --------------------------------------------------------------------------------------------------

    def _linking_to(self, page: int) -> Numbers:
        return self._linked("backlinks", np.array([page], np.uint64), "number")

    def linked_from(self, page: int) -> Numbers:
        """Pages that visible captures of this page link to."""
        sources = self._snapshot.gather(self._query.term_query(self._schema, "page", page, "basic"))
        return self._linked("links", sources.records, "target_page")

    def _linked(self, table: str, asked: Numbers, column: str) -> Numbers:
        """Distinct values of a column, in table rows selected by their sort key."""
        files = self._snapshot.view.table_files(table) if len(asked) else []
        found = [read_rows_of(path, table, asked, [column])[column].to_numpy() for path in files]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))

    # -- ranks --------------------------------------------------------------------------------------------------

    def _pages_with(self, asked: Compare) -> tantivy.Query:
        """Pages by rank or in-links. Pages without a rank have 0 of both."""
        fits = _fits(asked)
        ranks = self._snapshot.ranks
        values = ranks.rank if asked.field == "rank" else ranks.inlinks
        matching = fits(values)
        if not fits(np.zeros(1))[0]:
            return self._set("page", ranks.pages[matching])
        others = self._set("page", ranks.pages[~matching])
        return self._query.boolean_query([(self._must, self._query.all_query()), (self._not, others)])

    def _narrowed(self, others: tantivy.Query, ranked: Sequence[Expression]) -> tantivy.Query:
        """Restricts the other terms by rank, record by record where they match fewer than there are such pages."""
        ranks = self._snapshot.ranks
        if self._snapshot.count(others) > len(ranks):
            clauses = [(self._must, self._all_of([part])) for part in ranked]
            return self._query.boolean_query([(self._must, others), *clauses])
        found = self._snapshot.gather(others)
        known = ranks.of(self._snapshot.numbers("page", found.addresses))
        kept = np.ones(len(found.records), bool)
        for part in ranked:
            asked, is_wanted = (part.part, False) if isinstance(part, Not) else (part, True)
            assert isinstance(asked, Compare)
            values = known.rank if asked.field == "rank" else known.inlinks
            kept &= _fits(asked)(values) == is_wanted
        records = found.records[kept]
        if not len(records):
            return self._query.empty_query()
        chosen = self._plain(records_query(records.tolist()))
        return self._query.boolean_query([(self._must, others), (self._must, chosen)])


def _is_ranked(part: Expression) -> bool:
    asked = part.part if isinstance(part, Not) else part
    return isinstance(asked, Compare) and asked.field in _RANKED


def _fits(asked: Compare) -> Callable[[np.ndarray], np.ndarray]:
    compare = {"<": np.less, "<=": np.less_equal, "=": np.equal, ">=": np.greater_equal, ">": np.greater}[asked.sign]
    return lambda values: compare(values, asked.number)


def _has_long_word(text: str) -> bool:
    """Whether a word is too long to be in the index, so that no page matches."""
    if len(text.encode()) <= WORD_BYTES_MAX:
        return False
    return any(
        len(word.encode()) > WORD_BYTES_MAX for word in analyzer(word_bytes_max=_LENGTH_ANY).analyze(separated(text))
    )
