"""Page rank: how often a reader who follows links at random, and now and then jumps to any page, comes to a page.

Power iteration over a link graph, equal to `networkx.pagerank`: with probability `ALPHA` the reader follows one of the
page's links, each as likely as the other; otherwise, and on a page without links, any page may be next. Ranks are
scaled so that their mean is 1.0: a rank says the same in archives of any size.

An iteration reads all edges once, from one end to the other, and keeps three vectors of one number per page.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.index.ranks.link_graph import Chunk, LinkGraph

Vector = NDArray[np.float64]

ALPHA = 0.85
# The largest change of any page, relative to its rank, at which ranks are final. What later iterations would still
# change is at most ALPHA / (1 - ALPHA) of it, less than six times as much.
TOLERANCE = 1e-8


def page_rank(graph: LinkGraph, tolerance: float = TOLERANCE) -> Vector:
    """The rank of each node. It always ends: each iteration leaves at most `ALPHA` of the distance to the result."""
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
    """What comes to each node, if every node gives `share` along each of its edges."""
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
