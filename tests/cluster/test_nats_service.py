"""The NATS service under a cluster: one that others run, a full disk under a server, and older protocols (H2, I1)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
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

    def __init__(self, directory: Path, *, jetstream: bool = True) -> None:
        directory.mkdir()
        self._address = free_address()
        self._config = directory / "nats.conf"
        self._log = directory / "log"
        streams = f'jetstream {{ store_dir: "{directory}/store", sync_interval: always }}' if jetstream else ""
        users = 'authorization { user: "cluster", password: "secret" }'
        self._config.write_text(f"listen: {self._address}\n{streams}\n{users}\n")
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


def has_no_rights(node: NodeProcess) -> bool:
    """Whether it has had no right to fetch for two leases: while it has one, it writes that down all the time."""
    last = node.log.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
    return boot_time_s() - float(last.split()[0]) > 2 * LEASE_S


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
