"""`holdfast node leave`: others get the records of a node before it goes (N8, H2). Real node processes."""

from __future__ import annotations

import shutil
from pathlib import Path

from node_cluster import WAIT_S, wait_until
from running_nodes import TIME, RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.ingest.exchange import page
from holdfast.cluster.copies.write_socket import NodeWriter

URLS = [f"http://site{number}.example/" for number in range(24)]


def body(url: str) -> bytes:
    return f"<title>{url}</title>{url * 40}".encode()


def test_a_node_leaves_while_records_come(tmp_path: Path) -> None:
    """There are more nodes than copies, so new holders must take its place."""
    nodes = start_cluster(tmp_path, 4, copies=2)
    try:
        n1, _, _, n4 = nodes
        with NodeWriter(n4.path) as writer:  # at the node that goes, which holds half of them at most
            writer.wait_safe(
                [each.record for each in writer.add([page(url, body(url), timestamp=TIME) for url in URLS])], WAIT_S
            )
        holdfast("node", "leave", "-a", n4.path)
        assert n4.process is not None
        assert n4.process.wait(WAIT_S) == 0
        assert n4.stop() == 0
        shutil.rmtree(n4.path)
        wait_until(lambda: [row["name"] for row in n1.table()["nodes"]] == ["n1", "n2", "n3"], "it is no member")
        for url in URLS:
            assert sum(has(node, url) for node in nodes[:3]) >= 2, url
    finally:
        end_cluster(nodes)


def has(node: RunningNode, url: str) -> bool:
    """On its own disk."""
    with Archive(node.path, read_only=True) as archive:
        return any(archive.records.read(each.record).payload() == body(url) for each in archive.catalog.lookup(url))
