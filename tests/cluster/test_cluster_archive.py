"""Three nodes as one archive: import and PUT at any node, the same pages from each, loss of a node, removal everywhere.

Real node processes, real NATS servers, real web workers (H1, H6, H8, N2, N8).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from node_cluster import WAIT_S, wait_until
from running_nodes import TIME, TOKEN, RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.export import ExportOptions
from holdfast.archive.ingest.exchange import page
from holdfast.cluster.answers.routes import RouteTable
from holdfast.cluster.copies.write_socket import NodeWriter
from holdfast.errors import CaptureNotFound, ClusterDown
from holdfast.model import RecordId
from holdfast.records.selection import Selection

URLS = [f"http://site{number}.example/page" for number in range(12)]
MORE = [f"http://late{number}.example/page" for number in range(12)]
PUT = [f"http://put{number}.example/" for number in range(4)]


def body(url: str) -> bytes:
    return f"<!doctype html><title>{url}</title><p>{url * 60}".encode()


def write_warc(directory: Path, urls: list[str]) -> Path:
    """A file with a capture of each URL."""
    init(directory / "source")
    target = directory / "source.warc.gz"
    with Archive(directory / "source") as archive:
        archive.add([page(url, body(url), timestamp=TIME) for url in urls])
        archive.export(Selection(), target, ExportOptions("warc"))
    return target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningNode]]:
    """Three nodes, two copies of everything. The last test of the module loses one of them."""
    nodes = start_cluster(tmp_path_factory.mktemp("cluster"), 3, copies=2)
    try:
        yield nodes
    finally:
        end_cluster(nodes)


def permit_writing(node: RunningNode) -> None:
    """Each test that writes over HTTP does it, so that it also runs alone."""
    if (node.path / "tokens").exists():
        return
    assert node.stop() == 0
    (node.path / "tokens").write_text(f"{TOKEN}\n")
    (node.path / "tokens").chmod(0o600)
    settings = node.path / "holdfast.toml"
    changed = settings.read_text().replace("[records]\n", '[records]\nkeep = "latest"\n')
    settings.write_text(changed + '\n[serve]\nwrite_token_file = "tokens"\n')
    node.start()


def test_captures_put_over_http_reach_the_holders(cluster: list[RunningNode]) -> None:
    """The web worker hands them to the node's process, the archive's one writer."""
    n1 = cluster[0]
    permit_writing(n1)
    for url in PUT:
        assert n1.put(url, body(url)) in (200, 201)
    for node in cluster:
        for url in PUT:
            assert wait_until(lambda node=node, url=url: _found(node, url), f"{url} at {node.path.name}")[1] == body(
                url
            )
    wait_until(lambda: all(_copies(cluster, url) >= 2 for url in PUT), "two copies of each")


def test_a_put_may_wait_until_enough_nodes_have_it(cluster: list[RunningNode]) -> None:
    """H6: over HTTP and in Python; also for a capture that this node knows as another one's."""
    permit_writing(cluster[0])
    n1 = cluster[0]
    for number in range(6):
        url = f"http://safe{number}.example/"
        status, found = n1.put_and_wait(url, body(url), wait_s=600)
        assert (status, found["outcome"], found["safe"]) == (201, "added", True)
        assert _copies(cluster, url) >= 2
        status, found = n1.put_and_wait(url, body(url), wait_s=600)
        assert (status, found["outcome"], found["safe"]) == (200, "known", True)
    for url in PUT:
        assert n1.put_and_wait(url, body(url))[1]["safe"] is None
    assert n1.put_and_wait(PUT[0], b"", wait_s=0)[0] == 400

    # Recorded at n1, and put at its other holder as what that one has already.
    url = next(url for url in _urls_of(n1, {"n1", "n2"}))
    with NodeWriter(n1.path) as node:
        (added,) = node.add(page(url, body(url), timestamp=TIME))
        node.wait_safe([added.record], 600)
        assert node.add([]) == []
        with pytest.raises(CaptureNotFound, match="is not here"):
            node.wait_safe([RecordId("202401.n1", 9999)], 600)
        with Archive(cluster[1].path, read_only=True) as archive:
            (copy,) = [each.record for each in archive.catalog.lookup(url)]
        assert copy != added.record
    with NodeWriter(cluster[1].path) as node:
        node.wait_safe([copy], 600)


def _urls_of(node: RunningNode, holders: set[str]) -> Iterator[str]:
    """URLs that these nodes hold."""
    table = RouteTable.read(node.path / "cluster")
    for number in count():
        url = f"http://of{number}.example/"
        partition = table.rule.of_url(url)
        assert partition is not None
        if set(table.members.holders(partition, 2)) == holders:
            yield url


def test_a_file_may_be_sent_to_any_node(cluster: list[RunningNode], tmp_path: Path) -> None:
    """POST /api/warc: its process imports it, under the name that was given."""
    n1 = cluster[0]
    urls = [f"http://sent{number}.example/" for number in range(4)]
    content = write_warc(tmp_path, urls).read_bytes()
    done = n1.post_bytes("/api/warc?name=sent.warc.gz", content)
    assert (done["added"], done["findings"]) == (5, [])
    assert n1.post_bytes("/api/warc?name=sent.warc.gz", content)["known"] == 5
    assert n1.post_bytes("/api/warc", content[:-900], code=400)["type"] == "urn:holdfast:MalformedInput"
    for node in cluster:
        for url in urls:
            assert wait_until(lambda node=node, url=url: _found(node, url), f"{url} at {node.path.name}")[1] == body(
                url
            )
    with Archive(n1.path, read_only=True) as archive:
        assert {each.filename for url in urls for each in archive.catalog.lookup(url)} == {"sent.warc.gz"}


class Site(BaseHTTPRequestHandler):
    """Two pages and no rules."""

    def do_GET(self) -> None:
        found = {"/": b"<a href=/other>other</a>", "/other": b"the other page"}.get(self.path)
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *_: Any) -> None:
        pass


def test_a_crawl_is_started_by_the_api_of_one_node_and_shown_by_all(cluster: list[RunningNode]) -> None:
    """H8: POST /api/crawls, as on one machine."""
    permit_writing(cluster[0])
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        seed = f"http://127.0.0.1:{site.server_port}/"
        started = cluster[0].post("/api/crawls", {"seeds": [seed], "name": "asked"})
        assert (started["name"], started["running"]) == ("asked", True)

        def shown(node: RunningNode) -> dict[str, Any] | None:
            status, content = node.get("/api/crawls/asked")
            found: dict[str, Any] = json.loads(content)
            return found if status == 200 and found["state"] == "finished" else None

        for node in cluster:
            found = wait_until(lambda node=node: shown(node), f"its end at {node.path.name}")
            assert found["tally"]["fetched"] == 2
            assert found["shared"]
            assert wait_until(lambda node=node: _found(node, f"{seed}other"), "its page")[1] == b"the other page"
        site.shutdown()


def test_an_update_at_one_node_removes_superseded_captures_from_all(cluster: list[RunningNode]) -> None:
    """B15, N2: by the node's process; the other holders do not give them back."""
    permit_writing(cluster[0])
    n1 = cluster[0]
    later = "20250102030405"
    for url in PUT:
        assert n1.put(url, body(url + "later"), later) in (200, 201)
    wait_until(lambda: all(_copies(cluster, url, later) >= 2 for url in PUT), "two copies of each")
    wait_until(lambda: n1.is_settled(3), "no holder is behind")
    removed = json.loads(holdfast("update", "run", "-a", n1.path, "--json"))["captures"]
    assert removed, "n1 holds some of these partitions"
    wait_until(lambda: sum(not _copies(cluster, url, TIME) for url in PUT) == removed, "removed from all nodes")
    assert all(_copies(cluster, url, later) >= 2 for url in PUT)
    assert "no crawl" in holdfast("crawl", "expire", "nothing", "-a", n1.path, code=2)


def test_the_table_of_nodes(cluster: list[RunningNode]) -> None:
    """B5: the page, the API and the metrics of any node."""
    for node in cluster:
        found = json.loads(node.get("/api/nodes")[1])
        assert [each["name"] for each in found["nodes"]] == ["n1", "n2", "n3"]
        assert found["current"]
        assert found["connected"]
        assert sum(each["owned"] for each in found["nodes"]) <= found["partitions"] == 32
        assert node.get("/nodes")[0] == 200
        wait_until(lambda node=node: _lists_all(node), "all nodes have said where their pages are")
        metrics = node.get("/metrics")[1].decode()
        assert 'holdfast_node_up{node="n3"} 1' in metrics
        assert 'holdfast_node_held{node="n1"}' in metrics


def test_a_domain_is_split(cluster: list[RunningNode]) -> None:
    """H1, N8: all its captures stay readable at every node."""
    permit_writing(cluster[0])
    n1, n2, _ = cluster
    urls = [f"http://huge.example/{section}/a/page" for section in range(6)]
    for url in urls:
        assert n1.put(url, body(url)) in (200, 201)
    wait_until(lambda: all(_copies(cluster, url) >= 2 for url in urls), "two copies of each")
    made = json.loads(holdfast("cluster", "split", "huge.example", "4", "-a", n1.path, "--json"))
    assert made["parts"] == 4
    assert len(made["partitions"]) > 1
    wait_until(lambda: all(node.table()["epoch"] >= made["epoch"] for node in cluster), "all know of it")
    for node in cluster:
        for url in urls:
            assert wait_until(lambda node=node, url=url: _found(node, url), url)[1] == body(url)
    assert "whole" in holdfast("cluster", "split", "www.huge.example", "4", "-a", n1.path, code=2)
    assert "bad domain" in holdfast("cluster", "split", "http://huge.example/", "4", "-a", n1.path, code=2)
    assert "administrator" in holdfast("cluster", "split", "huge.example", "2", "-a", n2.path, code=8)
    assert "partitions" in holdfast("cluster", "split", "huge.example", "1", "-a", n1.path)


def test_what_a_cluster_refuses(cluster: list[RunningNode], tmp_path: Path) -> None:
    n1 = cluster[0]
    assert "standard input" in holdfast("import", "-a", n1.path, "-", code=2)
    assert "no such file" in holdfast("import", "-a", n1.path, tmp_path / "nothing.warc", code=3)
    assert "reason" in holdfast("rm", URLS[0], "-a", n1.path, "-y", code=2)


def test_an_archive_of_three_nodes(cluster: list[RunningNode], tmp_path: Path) -> None:
    """Imported at one node, read at all; still there when a node's disk is gone; removed everywhere."""
    n1, n2, n3 = cluster
    permit_writing(n1)
    warc = write_warc(tmp_path, URLS)
    printed = holdfast("import", "-a", n2.path, warc, "--wait-safe", "180s")
    assert "13 added" in printed  # with the record about the file
    assert all(_copies(cluster, url) >= 2 for url in URLS), "they are safe"
    for node in cluster:
        for url in URLS:
            status, found = wait_until(lambda node=node, url=url: _found(node, url), f"{url} at {node.path.name}")
            assert (status, found) == (200, body(url))
    assert n3.replayed("http://site1.example/missing")[0] == 404

    # What would go, and a question before it does: nothing changes.
    rm = ("rm", URLS[0], "-a", n2.path, "--reason", "asked by the owner")
    assert "would remove 1 capture" in holdfast(*rm, "--dry-run")
    assert "Remove 1 capture" in answered("n", *rm)
    assert n1.replayed(URLS[0])[0] == 200

    # A node dies and its disk is lost: every capture is still served, and copied again once the node is forgotten.
    wait_until(lambda: all(_copies(cluster, url) >= 2 for url in URLS), "two copies of everything")
    n3.kill()
    shutil.rmtree(n3.path)
    for url in URLS:
        wait_until(lambda url=url: _found(n1, url), f"{url} without n3")
    assert "not yet on as many nodes" in holdfast(
        "import", "-a", n2.path, write_warc(tmp_path / "more", MORE), "--wait-safe", "0s", code=13
    )
    (url,) = islice(_urls_of(n1, {"n1", "n3"}), 1)
    status, found = n1.put_and_wait(url, body(url), wait_s=1)
    assert (status, found["type"]) == (503, "urn:holdfast:ClusterDown")
    assert "stored here as '20" in found["detail"] and f"timestamp={TIME} waits again" in found["detail"]
    with NodeWriter(n1.path) as node, pytest.raises(ClusterDown, match="not yet on as many nodes"):
        node.wait_safe([each.record for each in node.add(page(url, body(url + "later"), timestamp=TIME))], 0)
    wait_until(lambda: n1.is_settled(2), "two nodes")
    holdfast("node", "forget", "n3", "-a", n1.path)
    wait_until(lambda: all(_copies([n1, n2], url) == 2 for url in URLS), "two copies on two nodes")
    assert n1.put_and_wait(url, body(url), wait_s=600)[0] == 200, "n2 holds it now"

    # Removal at one node reaches the other, also one that is away: it removes before it serves.
    n2.kill()
    alone = holdfast("rm", URLS[0], "-a", n2.path, "--reason", "asked", "-y", code=13)
    assert "does not run" in alone, "a removal concerns all nodes: it is not made on one of them"
    printed = holdfast("rm", URLS[0], "-a", n1.path, "--reason", "asked by the owner", "--refuse", "-y")
    assert ", copies included, on 1 of 2 nodes; n2 will remove them before serving again" in printed
    n2.start()
    for node in (n1, n2):
        wait_until(lambda node=node: node.replayed(URLS[0])[0] == 404, f"removed at {node.path.name}")
    assert _copies([n1, n2], URLS[0]) == 0
    assert (n1.stop(), n2.stop()) == (0, 0)
    for node in (n1, n2):
        assert "asked by the owner" in (node.path / "audit.log").read_text()
        holdfast("check", "--deep", "-a", node.path)


def _found(node: RunningNode, url: str) -> tuple[int, bytes] | None:
    """The answer, unless the cluster is still settling: then it is 503, or the holder has not pulled it yet."""
    status, found = node.replayed(url)
    return (status, found) if status == 200 else None


def answered(answer: str, *arguments: str | Path) -> str:
    """What a command prints that asks at a terminal, and is given up after this answer."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=WAIT_S)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 130, done.stderr
    return done.stdout + done.stderr


def _lists_all(node: RunningNode) -> bool:
    shown = node.get("/nodes")[1].decode()
    return all(f">{name}</a>" in shown for name in ("n1", "n2", "n3"))


def _copies(nodes: list[RunningNode], url: str, timestamp: str = "") -> int:
    """How many of the nodes have a capture, or the one of that time, on their own disk."""
    count = 0
    for node in nodes:
        with Archive(node.path, read_only=True) as archive:
            count += any(each.timestamp.startswith(timestamp) for each in archive.catalog.lookup(url))
    return count
