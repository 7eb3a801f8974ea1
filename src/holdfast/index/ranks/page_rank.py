"""The link graph of the newest captures, and the page rank computed from it.

    tables/captures ─► newest capture of each page ─┐
    tables/links ───────────────────────────────────┴─► distinct edges, by target ─► sources, a file of u32

Nodes are pages: all URLs that were captured, and all that are linked to. Edges are the distinct links of the newest
capture of each URL that a person follows, including redirects. Links of older captures do not count. Resources that a
browser loads by itself do not count either: the logo of a site would outrank its pages. A page that links to itself has
an edge to itself, and five links from one page to another are one edge, as in a networkx `DiGraph` of the same links.

The tables are sorted by DuckDB, within a limit of memory and in a scratch directory beyond it. Memory holds vectors
with one number per page; the edges stay in a file of 4 bytes each. Small tables are sorted in memory, with the same
result: at the end of a small crawl, importing DuckDB alone takes longer.

Page rank is how often a reader who follows random links, and sometimes jumps to a random page, visits a page. Power
iteration, equal to `networkx.pagerank`: with probability `ALPHA` the reader follows one of the page's links, all
equally likely; otherwise, and on a page without links, any page is next. Ranks are scaled to a mean of 1.0, so that a
rank means the same in archives of any size. An iteration reads all edges once, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.index.tables import numbers_of

if TYPE_CHECKING:
    import pyarrow
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
    """The edges to nodes `first` up to `end`: their sources, target by target."""

    first: int
    end: int
    sources: Counts


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """Nodes are numbered in the order of their page numbers, which are in `pages`."""

    pages: Pages
    inlinks: Counts  # of each node: the number of pages that link to it
    outlinks: Counts  # of each node: the number of pages it links to
    sources: Counts  # of each edge, in the order of their targets: a file

    @property
    def edges(self) -> int:
        return len(self.sources)

    def chunks(self, edges: int = EDGES_PER_READ) -> Iterator[Chunk]:
        """All edges, at most this many at a time, unless one page has more."""
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


def graph_in_memory(captures: pyarrow.Table, links: pyarrow.Table) -> LinkGraph:
    """The same graph, of tables that are in memory."""
    pages, newest = _newest(_only(captures, "type", ("response", "revisit", "resource")))
    links = _only(links, "kind", ("link", "redirect"))
    current = np.isin(numbers_of(links["number"]), newest)  # numbers name captures, so pages need not be compared
    source, target = (numbers_of(links[name])[current] for name in ("page", "target_page"))
    order = np.lexsort((source, target))
    source, target = source[order], target[order]
    distinct = _is_last(target) | _is_last(source)
    source, target = source[distinct], target[distinct]
    pages = np.union1d(pages, target)
    sources, targets = np.searchsorted(pages, source), np.searchsorted(pages, target)
    outlinks, inlinks = (np.bincount(each, minlength=len(pages)).astype(np.uint32) for each in (sources, targets))
    return LinkGraph(pages, inlinks, outlinks, sources.astype(np.uint32))


def _newest(captures: pyarrow.Table) -> tuple[Pages, Pages]:
    """The pages, ascending, and the number of the newest capture of each."""
    page, number = numbers_of(captures["page"]), numbers_of(captures["number"])
    order = np.lexsort((number, np.array(captures["timestamp"].to_pylist(), np.bytes_), page))
    order = order[_is_last(page[order])]
    return page[order], number[order]


def _only(rows: pyarrow.Table, column: str, values: tuple[str, ...]) -> pyarrow.Table:
    import pyarrow
    from pyarrow import compute

    return rows.filter(compute.is_in(rows[column], value_set=pyarrow.array(values)))


def _is_last(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the next value differs, of each."""
    return np.append(values[1:] != values[:-1], [True] * bool(len(values))).astype(bool)


def _columns(connection: DuckDBPyConnection, query: str) -> Iterator[list[NDArray[Any]]]:
    """The result, some rows at a time, each column as an array."""
    for batch in connection.sql(query).arrow(_ROWS_PER_FETCH):
        if batch.num_rows:
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]


def _count(counts: Counts, nodes: NDArray[Any]) -> None:
    found, times = np.unique(nodes, return_counts=True)
    counts[found] += times.astype(np.uint32)


Vector = NDArray[np.float64]

ALPHA = 0.85
# The largest change of any page, relative to its rank, at which ranks are final. What later iterations would still
# change is at most ALPHA / (1 - ALPHA) of it, less than six times as much.
TOLERANCE = 1e-8


def page_rank(graph: LinkGraph, tolerance: float = TOLERANCE) -> Vector:
    """The rank of each node. Converges: each iteration leaves at most `ALPHA` of the distance to the result."""
    nodes = len(graph.pages)
    rank = np.ones(nodes)
    if not nodes:
        return rank
    dangling = np.flatnonzero(graph.outlinks == 0)
    links_of = np.maximum(graph.outlinks, 1)
    while True:
        after = _received(graph, rank / links_of)
        after += rank[dangling].sum() / nodes
        after *= ALPHA
        after += 1 - ALPHA
        np.subtract(after, rank, out=rank)
        np.divide(rank, after, out=rank)
        change = max(-rank.min(), rank.max())
        rank = after
        if change <= tolerance:
            rank *= nodes / rank.sum()
            return rank


def _received(graph: LinkGraph, share: Vector) -> Vector:
    """What each node receives if every node gives `share` along each of its edges."""
    received = np.zeros(len(share))
    for chunk in graph.chunks():
        received[chunk.first : chunk.end] = _sums(graph, chunk, share)
    return received


def _sums(graph: LinkGraph, chunk: Chunk, share: Vector) -> Vector:
    counts = graph.inlinks[chunk.first : chunk.end]
    sums = np.zeros(len(counts))
    linked = np.flatnonzero(counts)
    starts = np.cumsum(counts[linked], dtype=np.int64) - counts[linked]
    sums[linked] = np.add.reduceat(share[chunk.sources], starts)
    return sums
