"""Queries of the catalog: parsed and checked (`query`), run (`search`), printed (`render`).

Rows are filtered by their fields (`fields`, `filters`) and collapsed (`collapse`) as they are read, in this order: keys
and times, revisits resolved, filters, duplicates counted, collapses, order, offset, limit.
"""
