"""No loss (H6): node processes under load are killed, and disks deleted, at random moments.

Every record that was reported safe is read byte for byte; killed nodes go on exactly where they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from random import Random

import copy_child
import pytest
from copy_cluster import Cluster, bytes_of
from copy_world import seeded
from waiting import wait_until

import holdfast
from holdfast.errors import HoldfastError
from holdfast.model import RecordId
from holdfast.storage.maintenance.check import CheckOptions


class Processes:
    """The nodes of a cluster, each a process, and what they said."""

    def __init__(self, root: Path, names: list[str], random: Random, ack_copies: int) -> None:
        self.cluster = Cluster(root, copies=3, ack_copies=ack_copies)
        self._random = random
        self.ports = {name: _free_port() for name in names}
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.added: dict[RecordId, str] = {}
        self.safe: dict[str, int] = {}
        self.lines = 0
        self._hearing: list[threading.Thread] = []
        for name in names:
            self.cluster.prepare(name, f"127.0.0.1:{self.ports[name]}")
        (root / "settings.json").write_text(json.dumps(asdict(self.cluster.settings)))
        self.alive = set(names)
        self.write()
        for name in names:
            self.start(name)

    def write(self) -> None:
        state = {"members": json.loads(self.cluster.members.to_json()), "alive": sorted(self.alive)}
        path = self.cluster.root / "cluster.json"
        path.with_suffix(".new").write_text(json.dumps(state))
        path.with_suffix(".new").replace(path)

    def start(self, name: str) -> None:
        command = [sys.executable, copy_child.__file__, str(self.cluster.root), name, str(self.ports[name])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.Popen(
            [*command, str(self._random.randrange(10**9))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.children[name] = child
        thread = threading.Thread(target=self._hear, args=(child,), daemon=True)
        thread.start()
        self._hearing.append(thread)

    def _hear(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            match line.split():
                case ["added", record, digest]:
                    self.added[RecordId.parse(record)] = digest
                case ["safe", batch, serial]:
                    self.safe[batch] = max(self.safe.get(batch, 0), int(serial))
            self.lines += 1
        child.stdout.close()

    def hear(self, count: int) -> None:
        """Waits for so many lines more."""
        wanted = self.lines + count
        wait_until(lambda: self.lines >= wanted, f"{count} lines of the nodes")

    def kill(self, name: str) -> None:
        child = self.children.pop(name)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert child.stdin is not None
        child.stdin.close()

    def end(self) -> None:
        for name in list(self.children):
            self.kill(name)
        for thread in self._hearing:
            thread.join()

    def known_safe(self) -> dict[RecordId, str]:
        return {
            record: digest
            for record, digest in list(self.added.items())
            if record.serial <= self.safe.get(record.batch, 0)
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def readable(archives: list[holdfast.Archive], record: RecordId, digest: str) -> bool:
    for archive in archives:
        try:
            if hashlib.sha256(bytes_of(archive, record)).hexdigest() == digest:
                return True
        except HoldfastError:
            continue
    return False


@pytest.mark.parametrize("run", [*range(3), *(pytest.param(run, marks=pytest.mark.soak) for run in range(3, 50))])
def test_two_disks_are_deleted_under_load(tmp_path: Path, run: int) -> None:
    """With three copies and all of them acknowledged, no two disks take a safe record along."""
    random = seeded()
    names = ["n1", "n2", "n3", "n4"]
    nodes = Processes(tmp_path, names, random, ack_copies=3)
    try:
        nodes.hear(random.randrange(80, 200))
        wait_until(lambda: len(nodes.known_safe()) > 20, "some records are safe")
        gone = random.sample(names, 2)
        for name in gone:
            nodes.kill(name)
            shutil.rmtree(tmp_path / name)
            nodes.alive.discard(name)
            nodes.write()
            if random.random() < 0.5:
                nodes.hear(random.randrange(1, 60))
        nodes.hear(20)
        safe = nodes.known_safe()
        if random.random() < 0.5:
            for name in gone:
                nodes.cluster.members = nodes.cluster.members.without(name)
            nodes.write()
            nodes.hear(50)
    finally:
        nodes.end()
    left = [holdfast.open(tmp_path / name) for name in names if name not in gone]
    try:
        lost = [str(record) for record, digest in safe.items() if not readable(left, record, digest)]
        assert lost == [], f"of {len(safe)} safe records"
    finally:
        for archive in left:
            archive.close()


def test_killed_nodes_go_on_where_they_were(tmp_path: Path) -> None:
    """Both ends of a pull are killed again and again; in the end all holders agree, and the archives are exact."""
    random = seeded()
    names = ["n1", "n2", "n3", "n4"]
    nodes = Processes(tmp_path, names, random, ack_copies=2)
    try:
        for _ in range(8):
            nodes.hear(random.randrange(10, 60))
            name = random.choice(names)
            nodes.kill(name)
            if random.random() < 0.3:
                shutil.rmtree(tmp_path / name / "cluster", ignore_errors=True)
            nodes.start(name)
        nodes.hear(40)
    finally:
        nodes.end()
    cluster = nodes.cluster
    try:
        for name in names:
            cluster.start(name)
        cluster.settle()
        cluster.check_digests()
        assert nodes.added
        one = cluster.nodes["n1"].copies
        for record, digest in nodes.added.items():
            row = next(row for node in cluster.live() if (row := node.copies.origins.find(record)) is not None)
            for name in one.holders.of(row.partition):
                assert hashlib.sha256(bytes_of(cluster.nodes[name].archive, record)).hexdigest() == digest
    finally:
        cluster.close()
    for name in names:
        assert [str(fault) for fault in holdfast.check(tmp_path / name, CheckOptions(deep=True)).faults] == []
