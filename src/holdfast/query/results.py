"""Options of a query, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.arguments import check_fields, nearest, read_text_field
from holdfast.errors import MalformedQuery, UnknownName
from holdfast.model import Coverage, RecordId, batch_name

SORTS = ("relevance", "newest", "oldest", "rank")
GROUPS = ("page", "text", "capture")
FACETS = ("site", "type", "lang", "status", "year", "collection")
LIMIT = 10
LIMIT_MAX = 10_000
OFFSET_MAX = 1_000_000
FACET_VALUES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Options of a query. Checked on creation."""

    sort: str = ""  # one of SORTS; empty: relevance if the query has words, else newest
    limit: int = LIMIT  # hits; 0 to count only
    offset: int = 0
    group: str = "page"  # one of GROUPS: what is one hit; a text is that of all pages where it is nearly the same
    latest: bool = False  # only the newest matching capture of each URL
    snippets: bool = True  # text around the words; needs to read each hit
    facets: tuple[str, ...] = ()  # names from FACETS, counted over all matches
    facet_values: int = 10  # the most frequent of each
    timeline: bool = False  # all matches counted by month
    collection: str | None = None  # None: all collections

    def __post_init__(self) -> None:
        read_text_field(self, "facets", lambda name: (name,))
        check_fields(self)
        if self.sort and self.sort not in SORTS:
            raise UnknownName(f"unknown sort {self.sort!r}{nearest(self.sort, SORTS)}")
        if self.group not in GROUPS:
            raise UnknownName(f"unknown group {self.group!r}{nearest(self.group, GROUPS)}")
        for name in self.facets:
            if name not in FACETS:
                raise UnknownName(f"unknown facet {name!r}{nearest(name, FACETS)}")
        bounds = (("limit", LIMIT_MAX), ("offset", OFFSET_MAX), ("facet_values", FACET_VALUES_MAX))
        for name, most in bounds:
            if not 0 <= getattr(self, name) <= most:
                raise MalformedQuery(f"bad {name} {getattr(self, name)}: give 0 to {most}")
        if self.collection is not None:
            batch_name(self.collection)


class Snippet(NamedTuple):
    """A piece of a page's text, and where the query's words are in it."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()  # [start, end) in characters; ascending, disjoint

    def marked(self, begin: str, end: str) -> str:
        """The text with marks before and after each word. Nothing is escaped."""
        parts, at = [], 0
        for first, last in self.marks:
            parts += [self.text[at:first], begin, self.text[first:last], end]
            at = last
        return "".join([*parts, self.text[at:]])


@dataclass(frozen=True, slots=True)
class Hit:
    """One capture of a result; of a group, the first in order."""

    record: RecordId
    url: str
    timestamp: str  # 14 digits
    title: str  # may be empty
    mime: str
    status: int  # 0: none
    lang: str  # ISO 639-1; -: unknown
    size: int  # of the payload, in bytes
    collection: str
    rank: float  # of its page; the mean is 1; 0: not computed yet
    inlinks: int  # pages that link to it
    score: float  # relevance; 0 unless sorted by it
    snippet: Snippet | None  # None: not requested, unreadable, or over the limit
    captures: int = 1  # matches in its group
    pages: int = 1  # pages in its group


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value and its number of matches."""

    value: str
    count: int
    term: str  # added to the query, it selects these captures


@dataclass(frozen=True, slots=True)
class Facet:
    """Counts of a field's values among all matches; most frequent first, years ascending."""

    name: str
    values: tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True)
class Month:
    """A month and its number of matches."""

    month: str  # 202611
    count: int


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a query on one snapshot of the index. Iterates over its hits."""

    query: str  # in canonical form
    sort: str
    group: str
    total: int  # hits, shown or not
    captures: int  # matches: what facets and timeline count
    is_exact: bool  # False: the total is an estimate, because more than 500,000 captures match
    offset: int
    hits: tuple[Hit, ...]
    facets: tuple[Facet, ...]
    timeline: tuple[Month, ...]  # ascending; months without a match are left out
    pending: int  # records not indexed yet
    coverage: Coverage | None = None  # of a cluster

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)
