"""The link graph: who links to whom, as it is now.

Nodes are pages: all URLs that were captured, and all that are linked to. Edges are the distinct links of the newest
capture of each URL that a person follows, redirects among them; what an older capture linked to does not count, and
neither does what a browser loads by itself, for then the logo of a site would outrank its pages. A page that links to
itself has an edge to itself, and five links from one page to another are one edge, as in a networkx `DiGraph` of the
same links.

    tables/captures ─► newest capture of each page ─┐
    tables/links ───────────────────────────────────┴─► distinct edges, by target ─► sources, a file of u32

The tables are sorted by DuckDB, within a limit of memory and in a scratch directory beyond it. In memory are only
vectors with one number for each page; the edges stay in a file of 4 bytes each, read from one end to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Pages = NDArray[np.uint64]
Counts = NDArray[np.uint32]

EDGES_PER_READ = 1 << 20
_ROWS_PER_FETCH = 1 << 18
_SOURCES = "sources"

# Of two captures with one timestamp, the one that was indexed later is the newer. Metadata and conversions of a page
# are captures of its URL, but no pages.
_NEWEST = """
    CREATE TEMP TABLE newest AS
    SELECT page, arg_max(number, (timestamp, number)) AS number
    FROM captures WHERE type IN ('response', 'revisit', 'resource') GROUP BY page
"""
_EDGES = """
    CREATE TEMP TABLE edges AS
    SELECT DISTINCT links.page AS source, links.target_page AS target
    FROM links JOIN newest USING (page, number) WHERE kind IN ('link', 'redirect')
"""
_PAGES = "SELECT page FROM (SELECT page FROM newest UNION SELECT target FROM edges) ORDER BY page"
_BY_TARGET = "SELECT source, target FROM edges ORDER BY target, source"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The edges to nodes `first` up to `end`: their sources, those of one target after those of another."""

    first: int
    end: int
    sources: Counts


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """Nodes are numbered by the order of their page numbers, which are in `pages`."""

    pages: Pages
    inlinks: Counts  # of each node, from how many pages
    outlinks: Counts  # of each node, to how many pages
    sources: Counts  # of each edge, in the order of their targets: a file

    @property
    def edges(self) -> int:
        return len(self.sources)

    def chunks(self, edges: int = EDGES_PER_READ) -> Iterator[Chunk]:
        """All edges, at most so many at a time, or those of one page that has more."""
        ends = np.cumsum(self.inlinks, dtype=np.int64)
        first = start = 0
        while start < self.edges:
            end = int(np.searchsorted(ends, start + edges, side="right"))
            if not end or ends[end - 1] == start:  # the next page alone has more
                end += 1
            stop = int(ends[end - 1])
            yield Chunk(first, end, np.asarray(self.sources[start:stop]))
            first, start = end, stop


def build_graph(connection: DuckDBPyConnection, scratch: Path) -> LinkGraph:
    """The graph of the views `captures` and `links` of the connection. Its edges stay in a file in `scratch`."""
    connection.execute(_NEWEST)
    connection.execute(_EDGES)
    pages = np.concatenate([np.empty(0, np.uint64), *(batch[0] for batch in _columns(connection, _PAGES))])
    inlinks = np.zeros(len(pages), np.uint32)
    outlinks = np.zeros(len(pages), np.uint32)
    path = scratch / _SOURCES
    with path.open("wb") as file:
        for source, target in _columns(connection, _BY_TARGET):
            sources = np.searchsorted(pages, source).astype(np.uint32)
            _count(outlinks, sources)
            _count(inlinks, np.searchsorted(pages, target))
            file.write(sources.data)
    edges = path.stat().st_size
    mapped = np.memmap(path, np.uint32, "r") if edges else np.empty(0, np.uint32)
    return LinkGraph(pages, inlinks, outlinks, mapped)


def _columns(connection: DuckDBPyConnection, query: str) -> Iterator[list[NDArray[Any]]]:
    """The answer, some rows at a time, each column as an array."""
    for batch in connection.sql(query).arrow(_ROWS_PER_FETCH):
        if batch.num_rows:
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]


def _count(counts: Counts, nodes: NDArray[Any]) -> None:
    found, times = np.unique(nodes, return_counts=True)
    counts[found] += times.astype(np.uint32)
