"""Queries (B12): by words, metadata and links; and in SQL.

    text ──language──► expression ──language──► the same text in canonical form
                                │
                   compile ◄────┴──── snapshot: a view of the index, ranks, what an access filter hides
                      │
                      ├─► order ──► hits, with cards and snippets
                      ├─► facets, timeline, total
                      └─► numbers of all matching records, for streams

    SQL ──statement: one SELECT, of our tables──► database: DuckDB over tables, ranks and keydirs ──► Arrow

Command line, Python, HTTP and the search page share one language, and show how a query was understood
everywhere: `canonical(parse(text))` means the same as `text`, and is its own canonical form. A malformed query
raises MalformedQuery before anything is read; the message names the place and the fix.

Guarantees. A result is exact and consistent: hits, total, facets and timeline count the same captures. Removed records
are in no result once the removal is acknowledged, and neither are hidden captures. Queries write nothing. Thread-safe.
"""
