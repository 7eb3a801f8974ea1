"""Ranks of a real archive: from pages to the index, from the index to ranks."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest

import holdfast
from holdfast.errors import IndexNotFound
from holdfast.index.ranks.ranks import Ranks
from holdfast.index.schema import page_number
from holdfast.urls import url_key

LINKS = {
    "http://a.example/": ["http://b.example/", "/about", "http://elsewhere.example/"],
    "http://a.example/about": ["/"],
    "http://b.example/": ["http://a.example/", "http://a.example/#top"],
}


def exchange(url: str, links: list[str], timestamp: str = "20260101000000") -> holdfast.Exchange:
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return holdfast.page(url, f'<title>{url}</title><img src="/logo.png">{anchors}'.encode(), timestamp=timestamp)


def ranks_in(archive: holdfast.Archive) -> Ranks:
    ranks = archive.index.ranks()
    assert ranks is not None
    return ranks


def page(url: str) -> int:
    return page_number(url_key(url))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        archive.add([exchange(url, links) for url, links in LINKS.items()])
        archive.index.update()
    return path


def test_ranks_of_an_archive_are_those_of_its_links(path: Path) -> None:
    with holdfast.open(path, read_only=True) as archive:
        assert archive.index.ranks() is None
        report = archive.index.rank()
        assert (report.generation, report.pages, report.links, report.computed) == (1, 4, 5, True)
        assert not archive.index.rank().computed
        ranks = ranks_in(archive)
    graph = networkx.DiGraph(
        [
            ("http://a.example/", "http://b.example/"),
            ("http://a.example/", "http://a.example/about"),
            ("http://a.example/", "http://elsewhere.example/"),
            ("http://a.example/about", "http://a.example/"),
            ("http://b.example/", "http://a.example/"),
        ]
    )
    expected = networkx.pagerank(graph, tol=1e-16, max_iter=1000)
    known = ranks.of(np.array([page(url) for url in expected], np.uint64))
    np.testing.assert_allclose(known.rank, [rank * len(expected) for rank in expected.values()], rtol=1e-6)
    assert known.inlinks.tolist() == [graph.in_degree(url) for url in expected]


def test_a_newer_capture_changes_the_ranks(path: Path) -> None:
    with holdfast.open(path) as archive:
        archive.index.rank()
        archive.add([exchange("http://b.example/", [], "20260202000000")])
        archive.index.update()
        assert archive.index.rank().generation == 2
        assert ranks_in(archive).of(np.array([page("http://a.example/")], np.uint64)).inlinks.tolist() == [1]
        assert archive.index.ranks_of(1).of(np.array([page("http://a.example/")], np.uint64)).inlinks.tolist() == [2]


def test_what_was_removed_has_no_rank_after_the_next_computation(path: Path) -> None:
    with holdfast.open(path) as archive:
        archive.index.rank()
        archive.index.removed.add([archive.get("http://a.example/").capture.record])
        archive.index.rank()
        left = ranks_in(archive)
        gone = left.of(np.array([page("http://elsewhere.example/"), page("http://b.example/")], np.uint64))
    assert gone.rank[0] == 0 and gone.rank[1] > 0
    assert gone.inlinks.tolist() == [0, 0]


def test_without_an_index_there_is_nothing_to_rank(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "empty")
    with holdfast.open(tmp_path / "empty", read_only=True) as archive:
        with pytest.raises(IndexNotFound, match="index update"):
            archive.index.rank()
        assert archive.index.ranks() is None
    assert not (tmp_path / "empty" / "index").exists()
