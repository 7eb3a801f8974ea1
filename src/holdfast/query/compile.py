"""From an expression to a query of tantivy.

Words are looked for in the title and in the text, and weigh more in the title; everything else only decides whether a
capture matches, and adds nothing to its score. Ranks are not among the words, for they change without the captures: a
comparison with a rank becomes a set of pages, or, beside other terms, a set of the records that these leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from holdfast.catalog.timestamps import earliest, latest
from holdfast.index.schema import WORD_BYTES_MAX, page_number, record_number, schema, separated, words_of
from holdfast.index.tables import read_rows_of
from holdfast.index.words import records_query
from holdfast.query.snapshot import Numbers, QuerySnapshot
from holdfast.query.syntax import And, Compare, Everything, Expression, Match, Not, Or, Words
from holdfast.urls import parse_page_id, url_key

if TYPE_CHECKING:
    import tantivy
    from tantivy import TextAnalyzer

TITLE_WEIGHT = 3.0  # of a word in the title, against one in the text
_RANKED = ("rank", "inlinks")
_TEXTS = {"site": "host", "domain": "suffix", "lang": "lang", "collection": "collection"}
_NUMBER_MAX = 2**64 - 1


class Compiler:
    """Compiles the queries of one moment."""

    def __init__(self, moment: QuerySnapshot) -> None:
        import tantivy

        self._moment = moment
        self._query = tantivy.Query
        self._must, self._not, self._may = tantivy.Occur.Must, tantivy.Occur.MustNot, tantivy.Occur.Should
        self._unsigned = tantivy.FieldType.Unsigned
        self._schema = schema()

    def compile(self, expression: Expression) -> tantivy.Query:
        """The query that finds what the expression means. Raises IndexNotFound if it needs ranks that are not there."""
        if isinstance(expression, And):
            return self._all_of(expression.parts)
        if isinstance(expression, Or):
            return self._query.boolean_query([(self._may, self.compile(part)) for part in expression.parts])
        if isinstance(expression, Not):
            return self._all_of((expression,))
        if isinstance(expression, Everything):
            return self._everything()
        if isinstance(expression, Words):
            return self._words(expression)
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

    def _words(self, asked: Words) -> tantivy.Query:
        words = words_of(asked.text)
        if not words or _has_long_word(asked.text):
            return self._query.empty_query()
        title = self._query.boost_query(self._phrase("title", words), TITLE_WEIGHT)
        if asked.field:
            return title
        return self._query.boolean_query([(self._may, title), (self._may, self._phrase("text", words))])

    def _phrase(self, field: str, words: list[str]) -> tantivy.Query:
        if len(words) == 1:
            return self._query.term_query(self._schema, field, words[0], "freq")
        return self._query.phrase_query(self._schema, field, list(words))

    # -- what is known of a capture -----------------------------------------------------------------------------

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
            return self._set("page", self._linked_from(page))
        if name == "links-to":
            return self._set("record", self._linking_to(page))
        return self._query.term_query(self._schema, "page", page, "basic")

    def _batch(self, name: str) -> tantivy.Query:
        """The numbers of records begin with that of their batch."""
        number = self._moment.view.state.batch_number(name)
        if number is None:
            return self._query.empty_query()
        return self._range("record", record_number(number, 0), record_number(number + 1, 0) - 1)

    def _compare(self, asked: Compare) -> tantivy.Query:
        if asked.field in _RANKED:
            return self._pages_with(asked)
        number = int(asked.number)
        if asked.sign == "<":
            return self._range(asked.field, 0, number - 1) if number else self._query.empty_query()
        bounds = {
            "=": (number, number),
            ">=": (number, _NUMBER_MAX),
            ">": (number + 1, _NUMBER_MAX),
            "<=": (0, number),
        }
        return self._range(asked.field, *bounds[asked.sign])

    def _range(self, field: str, first: int, last: int) -> tantivy.Query:
        return self._query.range_query(self._schema, field, self._unsigned, first, last)

    def _set(self, field: str, numbers: Numbers) -> tantivy.Query:
        if not len(numbers):
            return self._query.empty_query()
        return self._query.term_set_query(self._schema, field, numbers.tolist())

    # -- links --------------------------------------------------------------------------------------------------

    def _linking_to(self, page: int) -> Numbers:
        """Records that link to a page."""
        return self._linked("backlinks", np.array([page], np.uint64), "number")

    def _linked_from(self, page: int) -> Numbers:
        """Pages that captures of this one link to, of those captures that may be seen."""
        sources = self._moment.gather(self._query.term_query(self._schema, "page", page, "basic"))
        return self._linked("links", sources.records, "target_page")

    def _linked(self, table: str, asked: Numbers, column: str) -> Numbers:
        """Distinct values of a column in the rows of a table that are asked for by what orders it."""
        files = self._moment.view.table_files(table) if len(asked) else []
        found = [read_rows_of(path, table, asked, [column])[column].to_numpy() for path in files]
        return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))

    # -- ranks --------------------------------------------------------------------------------------------------

    def _pages_with(self, asked: Compare) -> tantivy.Query:
        """Pages by their rank or in-links. Those that are not in the ranks have 0 of both."""
        fits = _fits(asked)
        ranks = self._moment.ranks
        values = ranks.rank if asked.field == "rank" else ranks.inlinks
        matching = fits(values)
        if not fits(np.zeros(1))[0]:
            return self._set("page", ranks.pages[matching])
        others = self._set("page", ranks.pages[~matching])
        return self._query.boolean_query([(self._must, self._query.all_query()), (self._not, others)])

    def _narrowed(self, others: tantivy.Query, ranked: Sequence[Expression]) -> tantivy.Query:
        """What the other terms leave, weighed one by one where that is less than all pages of such ranks."""
        ranks = self._moment.ranks
        if self._moment.count(others) > len(ranks):
            clauses = [(self._must, self._all_of([part])) for part in ranked]
            return self._query.boolean_query([(self._must, others), *clauses])
        found = self._moment.gather(others)
        known = ranks.of(self._moment.numbers("page", found.addresses))
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
    compare = {
        "<": np.less,
        "<=": np.less_equal,
        "=": np.equal,
        ">=": np.greater_equal,
        ">": np.greater,
    }[asked.sign]
    return lambda values: compare(values, asked.number)


def _has_long_word(text: str) -> bool:
    """Whether a word of the text is too long to be in the index, so that no page can have all of them."""
    if len(text.encode()) <= WORD_BYTES_MAX:
        return False
    return any(len(word.encode()) > WORD_BYTES_MAX for word in _whole_words().analyze(separated(text)))


@cache
def _whole_words() -> TextAnalyzer:
    """As the index cuts words, but for their length."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    return TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase()).filter(Filter.ascii_fold()).build()
