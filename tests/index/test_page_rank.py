"""Page rank is that of networkx, on any graph."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_tables import LinkTables

from holdfast.env.files import LocalFiles
from holdfast.index.ranks.page_rank import LinkGraph, page_rank
from holdfast.index.ranks.ranks import Ranks, newest_ranks, update_ranks

PAGE_MAX = 2**64 - 1


@pytest.fixture(params=["memory", "duckdb"], autouse=True)
def sorter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What sorts the tables: small ones are sorted in memory, all others by DuckDB."""
    if request.param == "duckdb":
        monkeypatch.setattr("holdfast.index.ranks.ranks.IN_MEMORY_ROWS_MAX", -1)


def graph_of(nodes: int, links: list[tuple[int, int]]) -> LinkGraph:
    """As `build_graph` makes it, of nodes 0, 1, ..."""
    edges = np.array(sorted({(target, source) for source, target in links}), np.uint32).reshape(-1, 2)
    inlinks, outlinks = (np.bincount(edges[:, column], minlength=nodes).astype(np.uint32) for column in (0, 1))
    return LinkGraph(np.arange(nodes, dtype=np.uint64), inlinks, outlinks, edges[:, 1])


def expected(nodes: int, links: list[tuple[int, int]]) -> np.ndarray:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(links)
    rank = networkx.pagerank(graph, alpha=0.85, tol=1e-16, max_iter=1000)
    return np.array([rank[node] * nodes for node in range(nodes)])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    nodes = draw(st.integers(1, 60))
    node = st.integers(0, nodes - 1)
    return nodes, draw(st.lists(st.tuples(node, node), max_size=200))


@given(graphs())
@settings(max_examples=150)
def test_any_small_graph(case: tuple[int, list[tuple[int, int]]]) -> None:
    nodes, links = case
    np.testing.assert_allclose(page_rank(graph_of(nodes, links)), expected(nodes, links), rtol=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_pages(seed: int) -> None:
    """As on the web: few pages get most of the links, half of the pages have none of their own, parts are apart."""
    random = np.random.default_rng(seed)
    nodes = 10_000
    sources = random.integers(0, nodes // 2, 60_000)
    targets = (nodes * random.random(60_000) ** 3).astype(int)
    links = [(s, t) for s, t in zip(sources.tolist(), targets.tolist(), strict=True) if s % 3 == t % 3]
    np.testing.assert_allclose(page_rank(graph_of(nodes, links)), expected(nodes, links), rtol=1e-6)


def test_no_page_no_rank() -> None:
    assert len(page_rank(graph_of(0, []))) == 0


@pytest.mark.parametrize("links", [[], [(0, 0)]])
def test_a_single_page_has_rank_one(links: list[tuple[int, int]]) -> None:
    assert page_rank(graph_of(1, links)).tolist() == [1.0]


def test_without_links_all_are_equal() -> None:
    np.testing.assert_allclose(page_rank(graph_of(7, [])), np.ones(7), rtol=1e-12)


@pytest.mark.parametrize("edges", [1, 2, 3, 7, 100])
def test_chunks_have_every_edge_once(edges: int) -> None:
    links = [(source, target) for target in (0, 3, 4, 9) for source in range(target + 1)]
    graph = graph_of(12, links)
    chunks = list(graph.chunks(edges))
    assert np.concatenate([chunk.sources for chunk in chunks]).tolist() == graph.sources.tolist()
    assert all(one.end == other.first for one, other in pairwise(chunks))
    for chunk in chunks:
        targets = graph.inlinks[chunk.first : chunk.end]
        assert targets.sum() == len(chunk.sources)
        assert len(chunk.sources) <= edges or np.count_nonzero(targets) == 1


# -- from tables ----------------------------------------------------------------------------------------------------


def ranked(tmp_path: Path, tables: LinkTables) -> Ranks:
    update_ranks(LocalFiles(), tmp_path, tables.tables())
    ranks = newest_ranks(LocalFiles(), tmp_path)
    assert ranks is not None
    return ranks


def test_equal_links_are_one(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(5, [PAGE_MAX, PAGE_MAX, PAGE_MAX, 9])
    ranks = ranked(tmp_path, tables)
    assert ranks.pages.tolist() == [5, 9, PAGE_MAX]
    assert ranks.inlinks.tolist() == [0, 1, 1]
    assert ranks.rank[1] == ranks.rank[2]
    assert ranks.head.links == 2


def test_a_link_to_itself_counts(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(5, [5, 9])
    ranks = ranked(tmp_path, tables)
    np.testing.assert_allclose(ranks.rank, expected(2, [(0, 0), (0, 1)]), rtol=1e-6)
    assert ranks.inlinks.tolist() == [1, 1]


def test_only_the_newest_capture_of_a_page_links(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2, 3], timestamp="20260105000000")
    tables.add(1, [4], timestamp="20260101000000")
    tables.add(7, [2], timestamp="20260101000000")
    tables.add(7, [3], timestamp="20260101000000")  # came later
    tables.add(8, [2], timestamp="20260101000000")
    tables.add(8, [], timestamp="20260109000000")
    ranks = ranked(tmp_path, tables)
    assert dict(zip(ranks.pages.tolist(), ranks.inlinks.tolist(), strict=True)) == {1: 0, 2: 1, 3: 2, 7: 0, 8: 0}


def test_only_what_a_person_follows_is_an_edge(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2], kind="embed")
    tables.add(3, [4], kind="redirect")
    tables.add(5, [6], kind="form")
    ranks = ranked(tmp_path, tables)
    assert dict(zip(ranks.pages.tolist(), ranks.inlinks.tolist(), strict=True)) == {1: 0, 3: 0, 4: 1, 5: 0}


def test_records_about_a_page_are_not_its_newest_capture(tmp_path: Path) -> None:
    tables = LinkTables(tmp_path)
    tables.add(1, [2], timestamp="20260101000000")
    for kind in ("metadata", "conversion", "request"):
        tables.add(1, timestamp="20260101000009", type=kind)
        tables.add(9, type=kind)
    ranks = ranked(tmp_path, tables)
    assert dict(zip(ranks.pages.tolist(), ranks.inlinks.tolist(), strict=True)) == {1: 0, 2: 1}


@given(links=st.lists(st.tuples(st.integers(0, PAGE_MAX), st.lists(st.integers(0, 30)))))
@settings(max_examples=15)
def test_tables_and_networkx_agree(
    links: list[tuple[int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("ranks")
    tables = LinkTables(tmp_path)
    graph = networkx.DiGraph()
    for page, targets in dict(links).items():
        tables.add(page, targets)
        graph.add_node(page)
        graph.add_edges_from((page, target) for target in targets)
    ranks = ranked(tmp_path, tables)
    rank = networkx.pagerank(graph, tol=1e-16, max_iter=1000)
    assert ranks.pages.tolist() == sorted(graph)
    np.testing.assert_allclose(ranks.rank, [rank[page] * len(graph) for page in sorted(graph)], rtol=1e-6)
    assert ranks.inlinks.tolist() == [graph.in_degree(page) for page in sorted(graph)]
