"""Nodes in network namespaces, each with an address of its own: an owner that is cut off, and a clock that is off (H2).

Needs root, `ip netns` and veth; skipped with a reason otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from node_cluster import WAIT_S, NodeCluster, NodeProcess, wait_until

NAMES = ("n1", "n2", "n3")
_JOIN = """
import sys
from pathlib import Path
from holdfast.cluster.create import join_cluster
from holdfast.cluster.membership.token import JoinToken
join_cluster(Path(sys.argv[1]), JoinToken.parse(sys.argv[2]), sys.argv[3], sys.argv[4])
"""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Net:
    """A namespace with a bridge, and one for each node, joined by a pair of virtual devices."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._id = f"hf{os.getpid()}"
        self._hub = f"{self._id}-hub"
        self._add_namespace(self._hub)
        _ip("-n", self._hub, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "br0", "up")

    def _add_namespace(self, name: str) -> None:
        _ip("netns", "add", name)
        self._closing.callback(_ip, "netns", "del", name)
        _ip("-n", name, "link", "set", "lo", "up")

    def namespace(self, node: str) -> str:
        return f"{self._id}-{node}"

    def add(self, node: str) -> str:
        """The address of the node."""
        inside, device = self.namespace(node), f"{node}-hub"
        address = f"10.77.0.{10 + int(node[1:])}"
        self._add_namespace(inside)
        _ip("-n", self._hub, "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", inside)
        _ip("-n", self._hub, "link", "set", device, "master", "br0")
        _ip("-n", self._hub, "link", "set", device, "up")
        _ip("-n", inside, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", inside, "link", "set", "eth0", "up")
        return address

    def cut(self, node: str) -> None:
        _ip("-n", self._hub, "link", "set", f"{node}-hub", "down")

    def mend(self, node: str) -> None:
        _ip("-n", self._hub, "link", "set", f"{node}-hub", "up")

    def inside(self, node: str) -> tuple[str, ...]:
        return "ip", "netns", "exec", self.namespace(node)

    def close(self) -> None:
        self._closing.close()


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    if os.getuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None:
        pytest.skip("no program 'ip'")
    try:
        made = Net()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    root = tmp_path_factory.mktemp("namespaces")
    cluster = NodeCluster(root, address=f"{net.add('n1')}:7400")
    cluster["n1"].prefix = net.inside("n1")
    try:
        cluster["n1"].start()
        for name in NAMES[1:]:
            node = NodeProcess(root / name)
            node.prefix = net.inside(name)
            arguments = [str(node.path), cluster.token().text(), name, f"{net.add(name)}:7400"]
            joined = [*node.prefix, sys.executable, "-c", _JOIN, *arguments]
            done = subprocess.run(joined, capture_output=True, text=True, check=False, timeout=WAIT_S)
            assert done.returncode == 0, done.stderr
            cluster.nodes.append(node)
            node.start()
        cluster.wait_owned(*NAMES)
        yield cluster
    finally:
        cluster.stop()


def rights_written(node: NodeProcess) -> int:
    return node.log.stat().st_size


def test_an_owner_that_is_cut_off_from_the_service(net: Net, cluster: NodeCluster) -> None:
    """Others take its partitions only after its right has ended; it returns by itself, and owns some again."""
    cluster.wait_owned(*NAMES)
    net.cut("n3")
    try:
        cluster.wait_owned("n1", "n2")
        written = rights_written(cluster["n3"])
        cluster.wait_owned("n1", "n2", by="n2")
        assert rights_written(cluster["n3"]) == written, "it has no right any more"
        wait_until(lambda: not cluster["n3"].table()["connected"], "it sees that it is cut off")
        assert cluster["n3"].process is not None
        assert cluster["n3"].process.poll() is None
    finally:
        net.mend("n3")
    cluster.wait_owned(*NAMES)
    assert cluster.overlaps() == []


def test_the_only_keeper_is_cut_off(net: Net, cluster: NodeCluster) -> None:
    """The others lose their rights, and get them back: nobody needs to do anything."""
    cluster.wait_owned(*NAMES)
    net.cut("n1")
    try:
        for name in ("n2", "n3"):
            wait_until(lambda name=name: not cluster[name].table()["connected"], f"{name} sees it")
    finally:
        net.mend("n1")
    for name in NAMES:
        cluster.wait_owned(*NAMES, by=name)
    assert cluster.overlaps() == []


@pytest.mark.parametrize("hours", [-7, 7])
def test_a_clock_that_is_hours_off(net: Net, cluster: NodeCluster, hours: int) -> None:
    """Leases do not depend on it: the node takes part, dies, and others take over in time."""
    cluster.wait_owned(*NAMES)
    node = cluster["n2"]
    assert node.stop() == 0
    node.environment = {"NODE_CLOCK_SKEW_S": str(hours * 3600)}
    try:
        node.start()
        cluster.wait_owned(*NAMES)
        node.kill()
        cluster.wait_owned("n1", "n3")
    finally:
        node.environment = {}
    node.start()
    cluster.wait_owned(*NAMES)
    assert cluster.overlaps() == []
