"""The NATS service under a cluster: one that others run, a full disk under a server, and older protocols (H2, I1)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from node_cluster import NodeCluster, NodeProcess, free_address, run_holdfast, wait_until

from holdfast.cluster.membership.agent import boot_time_s
from holdfast.cluster.membership.keeper import server_program
from holdfast.errors import ClusterDown

BOTH = ("n1", "n2")
LEASE_S = 2.0


class NatsServer:
    """A server that knows nothing of the cluster: users, passwords, JetStream."""

    def __init__(self, directory: Path, *, jetstream: bool = True, address: str = "", cluster: str = "") -> None:
        """`cluster` is the configuration of its routes to other servers."""
        directory.mkdir()
        self._address = address or free_address()
        self._config = directory / "nats.conf"
        self._log = directory / "log"
        streams = f'jetstream {{ store_dir: "{directory}/store", sync_interval: always }}' if jetstream else ""
        users = 'authorization { user: "cluster", password: "secret" }'
        name = f"server_name: {directory.name}"
        self._config.write_text(f"{name}\nlisten: {self._address}\n{streams}\n{users}\n{cluster}\n")
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, password: str = "secret") -> str:
        return f"nats://cluster:{password}@{self._address}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            log.truncate(0)
            self._process = subprocess.Popen([server_program(), "-c", self._config], stdout=log, stderr=log)
        wait_until(lambda: "Server is ready" in self._log.read_text(), "the server is ready")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


@contextmanager
def nats_server(directory: Path, *, jetstream: bool = True) -> Iterator[NatsServer]:
    server = NatsServer(directory, jetstream=jetstream)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def three_nats_servers(directory: Path) -> Iterator[list[NatsServer]]:
    """One service of three servers."""
    directory.mkdir()
    addresses = [free_address() for _ in range(3)]
    routes = [f"127.0.0.1:{int(each.rpartition(':')[2]) + 1}" for each in addresses]
    urls = ", ".join(f"nats://{each}" for each in routes)
    servers = [
        NatsServer(
            directory / f"s{number}",
            address=address,
            cluster=f"cluster {{ name: others, listen: {route}, routes: [{urls}] }}",
        )
        for number, (address, route) in enumerate(zip(addresses, routes, strict=True))
    ]
    try:
        for each in servers:
            each.start()
        yield servers
    finally:
        for each in servers:
            each.kill()


def last_right_s(node: NodeProcess) -> float:
    """When it had the right to fetch last: while it has one, it writes that down all the time."""
    last = node.log.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
    return float(last.split()[0])


def has_no_rights(node: NodeProcess) -> bool:
    """Whether it has had no right to fetch for two leases."""
    return boot_time_s() - last_right_s(node) > 2 * LEASE_S


def test_a_service_that_others_run(tmp_path: Path) -> None:
    """Created there; it dies and comes back; moved to a server of the node's own, and back."""
    with nats_server(tmp_path / "nats") as server:
        cluster = NodeCluster(tmp_path, nats=server.url())
        try:
            cluster["n1"].start()
            cluster.join("n2").start()
            cluster.wait_owned(*BOTH)
            assert not cluster["n1"].server_pid()
            server.kill()
            for name in BOTH:
                wait_until(lambda name=name: not cluster[name].table()["connected"], "the loss is seen")
                wait_until(lambda name=name: has_no_rights(cluster[name]), "no rights without the service")
            server.start()
            cluster.wait_owned(*BOTH)
            cluster["n1"].rebuild(["n1"])
            wait_until(lambda: cluster["n2"].table()["incarnation"] == 2, "both use the server of n1")
            cluster.wait_owned(*BOTH, by="n2")
            assert cluster["n1"].server_pid()
            cluster["n1"].rebuild([], nats=server.url())
            wait_until(lambda: cluster["n2"].table()["incarnation"] == 3, "both use the other service again")
            cluster.wait_owned(*BOTH, by="n2")
            wait_until(lambda: not cluster["n1"].server_pid(), "the server of n1 has ended")
            assert cluster.overlaps() == []
        finally:
            cluster.stop()


def test_a_service_of_three_servers_that_others_run(tmp_path: Path) -> None:
    """The streams have three copies: any one server may go, whichever it is."""
    with three_nats_servers(tmp_path / "nats") as servers:
        cluster = NodeCluster(tmp_path, nats=",".join(each.url() for each in servers))
        try:
            cluster["n1"].start()
            cluster.join("n2").start()
            cluster.wait_owned(*BOTH)
            members = cluster["n1"].directory.members()
            for number, each in enumerate(servers):
                each.kill()
                weigh = partial(cluster["n1"].command, "weight", node="n2", weight=2.0 + number)
                wait_until(lambda weigh=weigh: weigh() == {}, "the two others go on")
                cluster.wait_owned(*BOTH)
                each.start()
                for name in BOTH:
                    wait_until(lambda name=name: cluster[name].table()["connected"], f"{name} is connected")
            assert [each.name for each in cluster["n2"].directory.members()] == [each.name for each in members]
            assert cluster.overlaps() == []
        finally:
            cluster.stop()


def test_a_node_that_still_reaches_the_old_service_fetches_nothing(tmp_path: Path) -> None:
    """It hears nothing of the new one, though all others have moved. Then it does, from the old one."""
    names = ("n1", "n2", "n3")
    with nats_server(tmp_path / "old") as old, nats_server(tmp_path / "new") as new:
        cluster = NodeCluster(tmp_path, nats=old.url())
        try:
            for name in names:
                node = cluster["n1"] if name == "n1" else cluster.join(name)
                node.environment = {"NODE_STAYS": "1"} if name == "n3" else {}
                node.start()
            cluster.wait_owned(*names)
            cluster["n1"].rebuild([], nats=new.url())
            closed_s = boot_time_s()
            cluster.wait_owned("n1", "n2", by="n2")
            staying = cluster["n3"]
            wait_until(lambda: has_no_rights(staying), "n3 fetches nothing")
            assert last_right_s(staying) < closed_s + LEASE_S
            table = staying.table()
            assert (table["connected"], table["incarnation"]) == (True, 1), "it reaches the old service"
            assert staying.stop() == 0
            staying.environment = {}
            staying.start()
            cluster.wait_owned(*names)
            assert staying.table()["incarnation"] == 2
            assert cluster.overlaps() == []
        finally:
            cluster.stop()


def test_a_node_that_slept_through_a_rebuild_finds_the_next_service(tmp_path: Path) -> None:
    """The old service runs on, and says what follows it: also one that others run."""
    names = ("n1", "n2", "n3")
    with nats_server(tmp_path / "old") as old, nats_server(tmp_path / "new") as new:
        cluster = NodeCluster(tmp_path, nats=old.url())
        try:
            cluster["n1"].start()
            for name in names[1:]:
                cluster.join(name).start()
            cluster.wait_owned(*names)
            cluster["n3"].signal(signal.SIGSTOP)
            assert cluster["n1"].rebuild([], nats=new.url())["not_informed"] == ["n3"]
            cluster.wait_owned("n1", "n2", by="n2")
            cluster["n3"].signal(signal.SIGCONT)
            wait_until(lambda: cluster["n3"].table()["incarnation"] == 2, "n3 uses the new service")
            cluster.wait_owned(*names, by="n3")
            assert cluster.overlaps() == []
        finally:
            cluster.stop()


def test_services_that_cannot_be_used(tmp_path: Path) -> None:
    """A clear error each, without the password in it."""
    with nats_server(tmp_path / "nats") as server, nats_server(tmp_path / "bare", jetstream=False) as bare:
        for number, url in enumerate((server.url("wrong-password"), bare.url(), f"nats://{free_address()}")):
            path = tmp_path / f"node{number}"
            made = run_holdfast("cluster", "init", path, "--nats", url, "--json")
            assert made.returncode == 0, made.stderr
            done = run_holdfast("node", "run", path, "-p", "0")
            assert done.returncode in (8, 13), done.stderr
            assert "NATS" in done.stderr
            assert "wrong-password" not in done.stderr and "secret" not in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_under_the_server(tmp_path: Path) -> None:
    """Nobody fetches while nothing can be written; with room again, all goes on by itself, and nothing is lost."""
    cluster = NodeCluster(tmp_path)
    disk = cluster["n1"].directory.nats_path
    disk.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        cluster["n1"].start()
        cluster.join("n2").start()
        cluster.wait_owned(*BOTH)
        members = cluster["n1"].directory.members()
        with (disk / "ballast").open("wb") as ballast:
            try:
                while True:
                    ballast.write(bytes(1 << 16))
                    ballast.flush()
            except OSError:
                pass
        for name in BOTH:
            wait_until(lambda name=name: has_no_rights(cluster[name]), "no rights without the service")
        with pytest.raises(ClusterDown):
            cluster["n1"].command("weight", node="n2", weight=2.0)
        (disk / "ballast").unlink()
        wait_until(lambda: cluster["n1"].command("weight", node="n2", weight=2.0) == {}, "it can be written to again")
        for name in BOTH:
            wait_until(lambda name=name: not has_no_rights(cluster[name]), "rights again")
        cluster.wait_owned(*BOTH)
        assert [each.name for each in cluster["n1"].directory.members()] == [each.name for each in members]
        assert cluster.overlaps() == []
    finally:
        cluster.stop()
        subprocess.run(["umount", disk], check=False)


def test_half_of_the_nodes_speak_an_older_protocol(tmp_path: Path) -> None:
    """The cluster speaks the lowest common one; newer nodes come, go and take over."""
    cluster = NodeCluster(tmp_path)
    names = ("n1", "n2", "n3", "n4")
    try:
        for name in names:
            node = cluster["n1"] if name == "n1" else cluster.join(name)
            node.environment = {"NODE_PROTOCOL": "2"} if name in ("n2", "n4") else {}
            node.start()
        cluster.wait_owned(*names)
        members = wait_until(lambda: _told(cluster), "the newer ones have said what they speak")
        assert members.protocol == 1
        cluster["n2"].kill()
        cluster.wait_owned("n1", "n3", "n4")
        cluster["n2"].start()
        cluster["n3"].stop()
        cluster.wait_owned("n1", "n2", "n4", by="n4")
        assert cluster.overlaps() == []
    finally:
        cluster.stop()


def _told(cluster: NodeCluster) -> object:
    members = cluster["n3"].directory.members()
    return (
        members if {each.name: each.protocols[1] for each in members} == {"n1": 1, "n2": 2, "n3": 1, "n4": 2} else None
    )
