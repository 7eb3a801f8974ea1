"""A node whose index lacks many records, as one that has just joined: others answer searches and SQL (H8, B12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_cluster import wait_until
from running_nodes import TIME, RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.export import ExportOptions
from holdfast.archive.ingest.exchange import page
from holdfast.records.selection import Selection

URLS = [f"http://site{number}.example/" for number in range(20)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RunningNode]]:
    """Two nodes that hold everything; the second one indexes nothing."""
    nodes = start_cluster(tmp_path, 2, copies=2)
    try:
        assert nodes[0].stop() == 0
        nodes[0].indexes = True
        nodes[0].start()
        wait_until(lambda: nodes[0].is_settled(2), "both nodes")
        yield nodes
    finally:
        end_cluster(nodes)


def test_all_is_found_while_a_node_has_no_index(cluster: list[RunningNode], tmp_path: Path) -> None:
    init(tmp_path / "source")
    with Archive(tmp_path / "source") as archive:
        archive.add([page(url, b"<p>one word", "text/html", timestamp=TIME) for url in URLS])
        archive.export(Selection(), tmp_path / "source.warc.gz", ExportOptions("warc"))
    holdfast("import", "-a", cluster[0].path, tmp_path / "source.warc.gz", "--wait-safe", "30s")

    def indexed() -> bool:
        with Archive(cluster[0].path, read_only=True) as archive:
            return archive.index.exists and not archive.index.pending()

    wait_until(indexed, "the index of the first node")
    wait_until(lambda: [each["is_indexing"] for each in _rows(cluster[1])] == [False, True], "its figures at the other")
    for node in cluster:
        lines = map(json.loads, holdfast("search", "-a", node.path, "word", "--limit", "50", "--json").splitlines())
        assert sorted(each["url"] for each in lines if "url" in each) == sorted(URLS)
        assert json.loads(holdfast("sql", "-a", node.path, "select count(*) n from captures", "--json")) == {"n": 20}


def _rows(node: RunningNode) -> list[dict[str, bool]]:
    return [json.loads(line) for line in holdfast("nodes", "-a", node.path, "--json").splitlines()]
