"""The NATS service of a cluster: three servers, the loss of one, of all, and of all their data (H2)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterator

import pytest
from node_cluster import NodeCluster, NodeProcess, running_cluster, wait_until

from holdfast.cluster.membership.bus import Bus
from holdfast.errors import ClusterDown, NotAMember, UsageError

ALL = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with running_cluster(tmp_path_factory.mktemp("keepers")) as cluster:
        yield cluster


def wait_rebuilt(cluster: NodeCluster, number: int) -> None:
    wait_until(lambda: all(cluster[name].table()["incarnation"] == number for name in ALL), "the new service")
    for name in ALL:
        cluster.wait_owned(*ALL, by=name)


def one_server_becomes_three(cluster: NodeCluster) -> None:
    before = cluster.wait_owned(*ALL)
    result = cluster["n1"].rebuild(list(ALL))
    assert result == {"number": 2, "keepers": list(ALL), "not_informed": []}
    wait_rebuilt(cluster, 2)
    assert cluster.wait_owned(*ALL) == before
    assert all(cluster[name].server_pid() for name in ALL)
    assert all(cluster["n2"].row(name)["keeper"] for name in ALL)
    assert cluster.overlaps() == []


def leader(cluster: NodeCluster) -> str:
    directory = cluster["n1"].directory

    async def ask() -> str:
        bus = Bus(directory.identity().access(directory.service()))
        await bus.open()
        try:
            return await bus.leader()
        finally:
            await bus.close()

    return asyncio.run(ask())


def the_leader_is_killed(cluster: NodeCluster) -> None:
    """First its server, which its node starts again; then the node that has the leader by then."""
    node = cluster[leader(cluster)]
    pid = node.server_pid()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: node.server_pid() not in (0, pid), "another server")
    for name in ALL:
        cluster.wait_owned(*ALL, by=name)
    node = cluster[wait_until(lambda: leader(cluster), "a leader")]
    node.kill()
    others = [name for name in ALL if name != node.name]
    cluster.wait_owned(*others, by=others[0])
    node.start()
    cluster.wait_owned(*ALL)
    assert cluster.overlaps() == []


def is_active(node: NodeProcess) -> bool:
    """Whether it writes down rights."""
    size = node.log.stat().st_size
    time.sleep(0.5)
    return node.log.stat().st_size > size


def without_a_majority_nobody_fetches(cluster: NodeCluster) -> None:
    cluster["n2"].kill()
    cluster["n3"].kill()
    wait_until(lambda: not is_active(cluster["n1"]), "no rights")
    cluster["n2"].start()
    cluster["n3"].start()
    cluster.wait_owned(*ALL)
    assert cluster.overlaps() == []


def wrong_keepers_are_refused(cluster: NodeCluster) -> None:
    for keepers in (["n1", "n2"], ["n1", "n1", "n2"], ["n1", "n2", "n9"]):
        with pytest.raises(UsageError):
            cluster["n1"].rebuild(keepers)
    with pytest.raises(ClusterDown, match=r"127\.0\.0\.1:9 .*correct its URL"):
        cluster["n1"].rebuild([], "nats://127.0.0.1:9")
    with pytest.raises(NotAMember, match="administrator"):
        cluster["n2"].rebuild(["n2"])
    with pytest.raises(UsageError, match="keeper"):
        cluster["n1"].command("forget", node="n2")
    assert cluster["n1"].table()["incarnation"] == 2
    cluster.wait_owned(*ALL)


def all_data_of_the_service_is_lost(cluster: NodeCluster) -> None:
    members = cluster["n1"].directory.members()
    for name in ALL:
        cluster[name].kill()
        shutil.rmtree(cluster[name].directory.nats_path)
    for name in ALL:
        cluster[name].start()
    with pytest.raises(ClusterDown):
        cluster["n1"].command("weight", node="n2", weight=2.0)
    assert cluster["n1"].rebuild([], old_is_gone=True)["number"] == 3
    wait_rebuilt(cluster, 3)
    assert cluster["n3"].directory.members() == members
    assert cluster.overlaps() == []


def a_node_that_was_away_finds_the_new_service(cluster: NodeCluster) -> None:
    assert cluster["n3"].stop() == 0
    assert cluster["n1"].rebuild(["n1"])["not_informed"] == ["n3"]
    cluster.wait_owned("n1", "n2")
    cluster["n3"].start()
    wait_rebuilt(cluster, 4)
    assert not cluster["n3"].server_pid()
    assert cluster.overlaps() == []


def a_node_finds_keepers_that_it_did_not_know(cluster: NodeCluster) -> None:
    """While it was away, the only server has moved to another node."""
    assert cluster["n3"].stop() == 0
    assert cluster["n1"].rebuild(["n2"])["not_informed"] == ["n3"]
    wait_until(lambda: cluster["n1"].table()["incarnation"] == 5, "the new service")
    cluster.wait_owned("n1", "n2")
    with pytest.raises(ClusterDown, match="n3 do not run"):
        cluster["n1"].rebuild(["n3"])
    assert cluster["n1"].table()["incarnation"] == 5
    cluster["n3"].start()
    wait_rebuilt(cluster, 5)
    assert cluster.overlaps() == []


def test_the_life_of_a_service(cluster: NodeCluster) -> None:
    """In this order: each step begins with what the one before has left."""
    one_server_becomes_three(cluster)
    the_leader_is_killed(cluster)
    without_a_majority_nobody_fetches(cluster)
    wrong_keepers_are_refused(cluster)
    all_data_of_the_service_is_lost(cluster)
    a_node_that_was_away_finds_the_new_service(cluster)
    a_node_finds_keepers_that_it_did_not_know(cluster)
