"""Two of the three NATS servers of a cluster hang for a while: nobody fetches, and nothing is lost (H2, N10)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from node_cluster import wait_until
from running_nodes import TIME, RunningNode, end_cluster, holdfast, start_cluster

from holdfast.archive.archive import Archive
from holdfast.archive.ingest.exchange import page
from holdfast.cluster.answers.routes import CUT_OFF_S
from holdfast.cluster.copies.write_socket import NodeWriter
from holdfast.errors import CaptureNotFound
from holdfast.model import RecordId

BEFORE = [f"http://before{number}.example/" for number in range(12)]
MEANWHILE = [f"http://meanwhile{number}.example/" for number in range(12)]


def body(url: str) -> bytes:
    return f"<title>{url}</title>{url * 40}".encode()


def put(node: RunningNode, urls: list[str]) -> list[RecordId | None]:
    with NodeWriter(node.path) as writer:
        return [each.record for each in writer.add([page(url, body(url), timestamp=TIME) for url in urls])]


def servers(node: RunningNode) -> list[int]:
    """The NATS servers of a node's process."""
    assert node.process is not None
    found = Path(f"/proc/{node.process.pid}/task").glob("*/children")
    children = [int(pid) for path in found for pid in path.read_text().split()]
    return [pid for pid in children if b"nats-server" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]


@contextmanager
def hanging(nodes: list[RunningNode]) -> Iterator[None]:
    pids = [pid for node in nodes for pid in servers(node)]
    assert len(pids) == len(nodes)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("seconds", [6.0, pytest.param(CUT_OFF_S + 10, marks=pytest.mark.soak)])
def test_the_quorum_is_lost_for_a_while(tmp_path: Path, seconds: float) -> None:
    """For six leases, as a minute has. All goes on by itself, also what a node took meanwhile."""
    nodes = start_cluster(tmp_path, 3, copies=3)
    try:
        n1 = nodes[0]
        holdfast("cluster", "rebuild", "-a", n1.path, "--keepers", "n1,n2,n3")
        wait_until(lambda: n1.is_settled(3) and n1.table()["incarnation"] == 2, "three keepers")
        taken = put(n1, BEFORE)
        with NodeWriter(n1.path) as writer:
            writer.wait_safe(taken, 180)
        with hanging(nodes[1:]):
            end_s = time.monotonic() + seconds
            assert "NATS" in holdfast("node", "weight", "n2", "2", "-a", n1.path, code=13)
            taken = put(n1, MEANWHILE)
            time.sleep(max(0.0, end_s - time.monotonic()))
            if seconds > CUT_OFF_S:
                assert n1.replayed(BEFORE[0])[0] == 503, "it may lack removals"
        wait_until(lambda: all(node.is_settled(3) for node in nodes), "all is as it was")
        with NodeWriter(n1.path) as writer:
            writer.wait_safe(taken, 180)
        for node in nodes:
            for url in BEFORE + MEANWHILE:
                assert wait_until(lambda node=node, url=url: found(node, url), f"{url} at {node.path.name}") == body(
                    url
                )
        holdfast("node", "weight", "n2", "2", "-a", n1.path)
        holdfast("rm", BEFORE[0], "-a", n1.path, "--reason", "asked", "-y")
    finally:
        end_cluster(nodes)


def found(node: RunningNode, url: str) -> bytes | None:
    """What the node has on its own disk."""
    with Archive(node.path, read_only=True) as archive:
        try:
            return archive.get(url).payload()
        except CaptureNotFound:
            return None
