"""Options of a query, and its result."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.arguments import check_fields
from holdfast.errors import MalformedQuery, UnknownName
from holdfast.model import RecordId, batch_name

SORTS = ("relevance", "newest", "oldest", "rank")
FACETS = ("site", "type", "lang", "status", "year", "collection")
LIMIT = 10
LIMIT_MAX = 10_000
OFFSET_MAX = 1_000_000
FACET_VALUES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """How a query is answered. Checked when it is made."""

    sort: str = ""  # one of SORTS; empty: relevance if there are words to look for, else newest
    limit: int = LIMIT  # hits; 0 if only the number of them is wanted
    offset: int = 0
    latest: bool = False  # of the matching captures of a URL only the newest
    snippets: bool = True  # the text of each hit around the words; it is read again for that
    facets: tuple[str, ...] = ()  # some of FACETS, counted over all matches
    facet_values: int = 10  # the most frequent of each
    timeline: bool = False  # all matches counted by month
    collection: str | None = None  # only of this collection; None: all of them

    def __post_init__(self) -> None:
        check_fields(self)
        if self.sort and self.sort not in SORTS:
            raise _unknown("sort", self.sort, SORTS)
        for name in self.facets:
            if name not in FACETS:
                raise _unknown("facet", name, FACETS)
        bounds = (("limit", LIMIT_MAX), ("offset", OFFSET_MAX), ("facet_values", FACET_VALUES_MAX))
        for name, most in bounds:
            if not 0 <= getattr(self, name) <= most:
                raise MalformedQuery(f"bad {name} {getattr(self, name)}: give 0 to {most}")
        if self.collection is not None:
            batch_name(self.collection)


class Snippet(NamedTuple):
    """A piece of a page's text, and where the words that were asked for stand in it."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()  # first character, and the one behind the last; ascending, apart

    def marked(self, begin: str, end: str) -> str:
        """The text with something before and behind each of the words. Nothing is escaped."""
        parts, at = [], 0
        for first, last in self.marks:
            parts += [self.text[at:first], begin, self.text[first:last], end]
            at = last
        return "".join([*parts, self.text[at:]])


@dataclass(frozen=True, slots=True)
class Hit:
    """One capture of an answer."""

    record: RecordId
    url: str
    timestamp: str  # 14 digits
    title: str  # empty: it has none
    mime: str
    status: int  # 0: none
    lang: str  # ISO 639-1; -: unknown
    size: int  # of the payload, in bytes
    collection: str
    rank: float  # of its page; the mean is 1; 0: none was computed yet
    inlinks: int  # pages that link to it
    score: float  # relevance; 0 unless the answer is sorted by it
    snippet: Snippet | None  # None: none was asked for, or its text cannot be read, or there was too much before it


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value, and how many matches have it."""

    value: str
    count: int
    term: str  # what, added to the query, leaves these captures only


@dataclass(frozen=True, slots=True)
class Facet:
    """How often each value of a field occurs among all matches; the most frequent first, years ascending."""

    name: str
    values: tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True)
class Month:
    """A month, and how many matches were captured in it."""

    month: str  # 202611
    count: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a query, as of one moment."""

    query: str  # in canonical form
    sort: str
    total: int  # matches, shown or not
    offset: int
    hits: tuple[Hit, ...]
    facets: tuple[Facet, ...]
    timeline: tuple[Month, ...]  # ascending; months without a match are left out
    pending: int  # records that came since and are not indexed yet, so not looked at


def _unknown(what: str, name: str, known: tuple[str, ...]) -> UnknownName:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    return UnknownName(f"unknown {what} {name!r}: {hint}")
