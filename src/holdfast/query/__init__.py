"""Questions to the archive (B12): by words, by what is known of a capture, by links; and in SQL.

    text ──scanning, parser──► expression ──printing──► the same text in canonical form
                                   │
                    compiling ◄────┴──── moment: a view of the index, ranks, what a screen hides
                        │
                        ├─► ordering ──► hits, with cards and snippets
                        ├─► facets, timeline, total
                        └─► numbers of all records that match, for streams

    SQL ──statement: one SELECT, of our tables──► database: DuckDB over tables, ranks and keydirs ──► Arrow

The language is one for the command line, Python, HTTP and the search page, and what was understood is printed back
everywhere: `canonical(parse(text))` means the same as `text`, and is its own canonical form. What is wrong with a query
raises MalformedQuery before anything is read, with its place and its repair.

Guarantees. An answer is exact and of one moment: hits, total, facets and timeline count the same captures. A record
that was removed is in no answer once the removal is acknowledged. What a screen hides is in none of them either.
Nothing here writes. Any thread may ask.
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
