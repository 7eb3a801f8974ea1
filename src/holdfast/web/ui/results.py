"""What a search found, as its page shows it: ways to narrow it, to widen it again, to order it and to turn its pages.

Whatever can be clicked leads to another query, in the canonical form of the language: the address of a page tells all
there is to know about it, and can be kept or sent to somebody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from holdfast.query import results
from holdfast.query.parser import parse
from holdfast.query.syntax import And, Everything, Expression, Match, Words, canonical, conjunction
from holdfast.web.ui.display import in_words, language_name

SORTS = {"relevance": "Relevance", "newest": "Newest", "oldest": "Oldest", "rank": "Page rank"}
_TITLES = {
    "site": "Sites",
    "type": "Types",
    "lang": "Languages",
    "status": "Status",
    "year": "Years",
    "collection": "Collections",
}
BAR = 20  # height of the highest
YEARS_SHOWN = 40


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What the address of a page of results says."""

    expression: Expression
    sort: str = ""  # empty: as fits the query
    page: int = 1

    @property
    def text(self) -> str:
        """The query in its canonical form."""
        return canonical(self.expression)

    def link(self, *, text: str | None = None, sort: str | None = None, page: int = 1) -> str:
        """The address of a page that differs in this; what is usual is left out."""
        values = {"q": self.text if text is None else text, "as": "words", "sort": sort or self.sort, "page": str(page)}
        usual = {"sort": "", "page": "1"}
        told = {name: value for name, value in values.items() if value != usual.get(name)}
        return f"/search?{urlencode(told, errors='surrogateescape')}"

    def narrowed(self, *terms: Expression) -> str:
        """The address of what also fits these terms."""
        return self.link(text=canonical(conjunction([self.expression, *terms])))

    def parts(self) -> list[tuple[str, str]]:
        """The terms that narrow the query, each with the address of the query without it. Words are no such terms."""
        whole = self.expression.parts if isinstance(self.expression, And) else (self.expression,)
        found = []
        for number, part in enumerate(whole):
            if not isinstance(part, Words | Everything):
                rest = conjunction([*whole[:number], *whole[number + 1 :]])
                found.append((canonical(part), self.link(text=canonical(rest))))
        return found


class ShownFacetValue(NamedTuple):
    """A value that some of the hits have."""

    label: str
    captures: int
    address: str  # of the hits that have it


class ShownFacet(NamedTuple):
    """A field, with the values that are most frequent among the hits."""

    name: str
    title: str
    values: list[ShownFacetValue]


def facets(wanted: SearchRequest, found: Sequence[results.Facet]) -> list[ShownFacet]:
    """Those that would narrow the search: a field of which all hits have one value is left out."""
    shown = []
    for facet in found:
        values = [
            ShownFacetValue(_label(facet.name, each.value), each.count, wanted.narrowed(parse(each.term)))
            for each in facet.values
        ]
        if len(values) > 1:
            shown.append(ShownFacet(facet.name, _TITLES[facet.name], values))
    return shown


def _label(name: str, value: str) -> str:
    return language_name(value) if name == "lang" else value


def pieces(snippet: results.Snippet) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is one of the words that were asked for."""
    found, at = [], 0
    for first, last in snippet.marks:
        found += [(snippet.text[at:first], False), (snippet.text[first:last], True)]
        at = last
    return [each for each in (*found, (snippet.text[at:], False)) if each[0]]


# -- the timeline ----------------------------------------------------------------------------------------------------


class ShownBar(NamedTuple):
    """A month on the timeline of years."""

    month: int  # 0 to 11
    height: int


class Period(NamedTuple):
    """A year on the timeline, or a month if all is in one year."""

    label: str
    name: str  # in words
    captures: int
    bars: list[ShownBar]
    address: str


def timeline(wanted: SearchRequest, months: Mapping[str, int]) -> list[Period]:
    """Years with a bar for each month, the last ones if there are many; the months of a year if there is only one.

    Of a single month there is nothing to choose, and no timeline.
    """
    if len(months) < 2:
        return []
    most = max(months.values())
    years = sorted({month[:4] for month in months})
    if len(years) == 1:
        return [_month(wanted, f"{years[0]}{month:02}", months, most) for month in range(1, 13)]
    if int(years[-1]) - int(years[0]) < YEARS_SHOWN:
        years = [f"{year:04}" for year in range(int(years[0]), int(years[-1]) + 1)]
    return [_year(wanted, year, months, most) for year in years[-YEARS_SHOWN:]]


def _year(wanted: SearchRequest, year: str, months: Mapping[str, int], most: int) -> Period:
    counts = {month: months.get(f"{year}{month + 1:02}", 0) for month in range(12)}
    bars = [ShownBar(month, _height(count, most)) for month, count in counts.items() if count]
    return Period(year, year, sum(counts.values()), bars, wanted.narrowed(Match("from", year), Match("to", year)))


def _month(wanted: SearchRequest, month: str, months: Mapping[str, int], most: int) -> Period:
    count = months.get(month, 0)
    name = in_words(month)
    bars = [ShownBar(0, _height(count, most))] if count else []
    return Period(name[:3], name, count, bars, wanted.narrowed(Match("from", month), Match("to", month)))


def _height(count: int, most: int) -> int:
    return max(2, round(BAR * count / most))


# -- pages -----------------------------------------------------------------------------------------------------------


class PageTurn(NamedTuple):
    """A page of the results that can be gone to."""

    number: int
    address: str


def turns(wanted: SearchRequest, last: int, around: int = 2) -> list[PageTurn]:
    """The first page, those around this one, and the last."""
    near = range(max(1, wanted.page - around), min(last, wanted.page + around) + 1)
    return [PageTurn(number, wanted.link(page=number)) for number in sorted({1, *near, last}) if 1 <= number <= last]
