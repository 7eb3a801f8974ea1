"""Real nodes and NATS servers share out the partitions, and hand them on when something fails (H1, H2)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_cluster import NodeCluster, overlaps, running_cluster, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with running_cluster(tmp_path_factory.mktemp("duty")) as cluster:
        yield cluster


def test_three_nodes_share_all_partitions(cluster: NodeCluster) -> None:
    views = [cluster.wait_owned("n1", "n2", "n3", by=name) for name in ("n1", "n2", "n3")]
    assert views[0] == views[1] == views[2]
    assert sum(views[0].values()) == 16
    assert all(each["state"] == "idle" and each["behind"] == 0 for each in cluster["n2"].table()["nodes"])


def test_a_killed_node_loses_its_partitions_and_gets_them_back(cluster: NodeCluster) -> None:
    before = cluster.wait_owned("n1", "n2", "n3")
    cluster["n2"].kill()
    cluster.wait_owned("n1", "n3")
    assert cluster["n1"].row("n2")["state"] == "down"
    cluster["n2"].start()
    assert cluster.wait_owned("n1", "n2", "n3") == before


def test_a_stopped_process_loses_its_right(cluster: NodeCluster) -> None:
    """It wakes up with an old belief: the deadline of its right has passed by then."""
    cluster["n3"].signal(signal.SIGSTOP)
    cluster.wait_owned("n1", "n2")
    cluster["n3"].signal(signal.SIGCONT)
    cluster.wait_owned("n1", "n2", "n3")
    assert cluster.overlaps() == []


def test_a_killed_server_comes_back_with_all_it_had(cluster: NodeCluster) -> None:
    pid = cluster["n1"].server_pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cluster["n1"].server_pid() not in (0, pid), "another server")
    cluster.wait_owned("n1", "n2", "n3")
    assert cluster.overlaps() == []


def test_the_server_dies_with_its_node(cluster: NodeCluster) -> None:
    pid = cluster["n1"].server_pid()
    cluster["n1"].kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the server")
    cluster["n1"].start()
    cluster.wait_owned("n1", "n2", "n3")
    assert cluster.overlaps() == []


def test_a_changed_weight_changes_shares(cluster: NodeCluster) -> None:
    before = cluster.wait_owned("n1", "n2", "n3")
    cluster["n1"].command("weight", node="n2", weight=50.0)
    wait_until(lambda: cluster["n3"].row("n2")["owned"] > before["n2"], f"a larger share than {before}")
    cluster["n1"].command("weight", node="n2", weight=1.0)
    wait_until(lambda: cluster["n3"].row("n2")["owned"] == before["n2"], "the old share")


def test_random_trouble_never_gives_two_nodes_one_partition(cluster: NodeCluster) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(6):
        node = cluster[chance.choice(("n2", "n3"))]
        match chance.choice(("kill", "stop", "pause")):
            case "kill":
                node.kill()
                time.sleep(chance.uniform(0, 1.5))
            case "stop":
                assert node.stop() == 0
                node.process = None
            case "pause":
                node.signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0, 2.5))
                node.signal(signal.SIGCONT)
        if node.process is None or node.process.poll() is not None:
            node.start()
    cluster.wait_owned("n1", "n2", "n3")
    assert cluster.overlaps() == []


def test_an_overlap_would_be_noticed() -> None:
    assert overlaps({"a": "1.000 3\n1.005 3\n", "b": "1.010 3\n"}) == []
    assert overlaps({"a": "1.000 3\n1.005 3\n", "b": "1.003 3,4\n"}) != []


def test_a_clean_stop_hands_over_at_once(tmp_path: Path) -> None:
    """The lease is longer than this test waits: only a hand-over gives the partitions to others."""
    with running_cluster(tmp_path, 2, lease_s=300.0, copies=2, lost_after_s=3600.0) as cluster:
        assert cluster["n2"].stop() == 0
        cluster.wait_owned("n1")
        cluster["n2"].start()
        cluster.wait_owned("n1", "n2")
