"""Queries (B12): by words, by what is known of a capture, by links; and in SQL.

    text ──lexer, parser──► expression ──syntax──► the same text in canonical form
                                │
                   compile ◄────┴──── snapshot: a view of the index, ranks, what an access filter hides
                      │
                      ├─► order ──► hits, with cards and snippets
                      ├─► facets, timeline, total
                      └─► numbers of all records that match, for streams

    SQL ──statement: one SELECT, of our tables──► database: DuckDB over tables, ranks and keydirs ──► Arrow

The language is one for the command line, Python, HTTP and the search page, and what was understood is printed back
everywhere: `canonical(parse(text))` means the same as `text`, and is its own canonical form. What is wrong with a query
raises MalformedQuery before anything is read, with its place and its repair.

Guarantees. A result is exact and of one moment: hits, total, facets and timeline count the same captures. A record that
was removed is in no result once the removal is acknowledged, and neither is what an access filter hides. Nothing here
writes. Any thread may query.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.query.access_filter import AccessFilter, RuleFilter
    from holdfast.query.engine import QueryEngine
    from holdfast.query.parser import parse
    from holdfast.query.results import Facet, FacetValue, Hit, Month, QueryOptions, QueryResult, Snippet
    from holdfast.query.syntax import Expression, canonical

_HOMES = {
    "RuleFilter": "access_filter",
    "Expression": "syntax",
    "Facet": "results",
    "FacetValue": "results",
    "Hit": "results",
    "Month": "results",
    "QueryResult": "results",
    "QueryEngine": "engine",
    "QueryOptions": "results",
    "AccessFilter": "access_filter",
    "Snippet": "results",
    "canonical": "syntax",
    "parse": "parser",
}

__all__ = [
    "AccessFilter",
    "Expression",
    "Facet",
    "FacetValue",
    "Hit",
    "Month",
    "QueryEngine",
    "QueryOptions",
    "QueryResult",
    "RuleFilter",
    "Snippet",
    "canonical",
    "parse",
]


def __getattr__(name: str) -> Any:
    """Names are loaded when first used: a process that runs one statement of SQL needs little of this."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
