"""Clusters of real node processes and real NATS servers on this machine, for tests."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.cluster.control import send_command
from holdfast.cluster.create import create_cluster, join_cluster
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.token import JoinToken
from holdfast.cluster.settings import ClusterSettings
from holdfast.cluster.status import read_table
from holdfast.errors import ClusterDown

WAIT_S = 180.0  # after which something is wrong, on any machine
TURN_S = 0.03  # a node writes down its rights several times in it
_NODE = Path(__file__).with_name("recorded_node.py")


def free_address() -> str:
    """Four free ports in a row, outside of the range that the kernel hands out."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000, 10)
        if all(_is_free(port + number) for number in range(4)):
            return f"127.0.0.1:{port}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until(is_true: Callable[[], Any], what: str) -> Any:
    """The first value that is true. Tests wait for as long as a busy machine needs."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        try:
            if value := is_true():
                return value
        except ClusterDown:
            pass
        time.sleep(0.05)
    raise AssertionError(f"in vain: {what}")


class NodeProcess:
    """A node's directory, and its process if it runs."""

    def __init__(self, path: Path, program: Path = _NODE) -> None:
        self.path = path
        self._program = program
        self.name = path.name
        self.log = path.with_suffix(".log")
        self.said = path.with_suffix(".out")
        self.process: subprocess.Popen[bytes] | None = None
        self.prefix: tuple[str, ...] = ()  # of its command, as `ip netns exec NAME`
        self.environment: dict[str, str] = {}

    @property
    def directory(self) -> NodeDirectory:
        return NodeDirectory(self.path)

    def start(self, *, wait: bool = True) -> None:
        with self.said.open("ab") as said:
            said.truncate(0)
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, self._program, self.path, self.log],
                stdout=said,
                stderr=said,
                env=os.environ | self.environment,
            )
        if wait:
            wait_until(lambda: "ready" in self.said.read_text() or self.process.poll() is not None, f"{self.name} runs")
            assert self.process.poll() is None, self.said.read_text()

    def run_until_refused(self) -> tuple[int, str]:
        """Starts a node that cannot run: its exit code and what it says."""
        self.start(wait=False)
        assert self.process is not None
        return self.process.wait(WAIT_S), self.said.read_text()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(WAIT_S)

    def stop(self) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        return self.process.wait(WAIT_S)

    def server_pid(self) -> int:
        """Of its NATS server."""
        assert self.process is not None
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and b"nats-server" in (path / "cmdline").read_bytes().split(b"\0")[0]:
                    return int(path.name)
            except (OSError, ValueError, IndexError):
                continue
        return 0

    def table(self) -> dict[str, Any]:
        return read_table(self.directory.path)

    def row(self, name: str) -> dict[str, Any]:
        return next(each for each in self.table()["nodes"] if each["name"] == name)

    def command(self, command: str, **values: Any) -> dict[str, Any]:
        return send_command(self.directory.path, {"command": command, **values}, WAIT_S)

    def rebuild(self, keepers: list[str], nats: str = "", *, old_is_gone: bool = False) -> dict[str, Any]:
        return self.command("rebuild", keepers=keepers, nats=nats, old_is_gone=old_is_gone)


class NodeCluster:
    """Nodes n1, n2, ...; n1 is the administrator and the first keeper."""

    def __init__(self, root: Path, program: Path = _NODE, nats: str = "", address: str = "", **settings: Any) -> None:
        self.root = root
        self._program = program
        self.settings = ClusterSettings("test", **{"partitions": 16, "lease_s": 2.0, **settings})
        self.nodes: list[NodeProcess] = []
        first = NodeProcess(root / "n1", program)
        create_cluster(first.path, self.settings, "n1", address or free_address(), nats)
        self.nodes.append(first)

    def __getitem__(self, name: str) -> NodeProcess:
        return next(each for each in self.nodes if each.name == name)

    def token(self, *, hours: float = 24.0, administrator: bool = False) -> JoinToken:
        directory = self["n1"].directory
        return JoinToken.issue(
            directory.authority(), directory.trust(), directory.service(), hours=hours, administrator=administrator
        )

    def join(self, name: str, *, administrator: bool = False) -> NodeProcess:
        node = NodeProcess(self.root / name, self._program)
        token, address = self.token(administrator=administrator), free_address()

        def is_joined() -> bool:
            join_cluster(node.path, token, name, address)
            return True

        wait_until(is_joined, f"{name} joins")
        self.nodes.append(node)
        return node

    def wait_owned(self, *names: str, by: str = "n1") -> dict[str, int]:
        """Until these nodes, and no others, own all partitions; how many each owns."""

        def owned() -> dict[str, int] | None:
            table = self[by].table()
            counts = {each["name"]: each["owned"] for each in table["nodes"] if each["owned"]}
            is_whole = table["connected"] and sum(counts.values()) == self.settings.partitions
            return counts if is_whole and set(counts) == set(names) else None

        found: dict[str, int] = wait_until(owned, f"all partitions owned by {names}: {self._tables()}")
        return found

    def _tables(self) -> str:
        return json.dumps([each.said.read_text()[-500:] for each in self.nodes if each.said.exists()])

    def overlaps(self) -> list[str]:
        """Where a node had the right to a partition while another had it."""
        return overlaps({each.name: each.log.read_text() for each in self.nodes if each.log.exists()})

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.stop()


def overlaps(logs: dict[str, str]) -> list[str]:
    """Where a node had the right to a partition while another had it. Two hand-overs take longer than `TURN_S`."""
    moments: dict[int, list[tuple[float, str]]] = {}
    for name, text in logs.items():
        for line in text.splitlines():
            time_s, _, partitions = line.partition(" ")
            for partition in partitions.split(","):
                moments.setdefault(int(partition), []).append((float(time_s), name))
    found = []
    for partition, times in moments.items():
        times.sort()
        for before, between, after in zip(times, times[1:], times[2:], strict=False):
            if before[1] == after[1] != between[1] and after[0] - before[0] < TURN_S:
                found.append(f"partition {partition}: {before}, {between}, {after}")
    return found


@contextmanager
def running_cluster(root: Path, count: int = 3, program: Path = _NODE, **settings: Any) -> Iterator[NodeCluster]:
    """A cluster whose nodes own all partitions."""
    cluster = NodeCluster(root, program, **settings)
    try:
        cluster["n1"].start()
        for number in range(2, count + 1):
            cluster.join(f"n{number}").start()
        cluster.wait_owned(*(f"n{number + 1}" for number in range(count)))
        yield cluster
    finally:
        cluster.stop()


def run_holdfast(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * WAIT_S, **options)


def skewed_holdfast(seconds: float, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command on a machine whose clock is off."""
    code = (
        "import time; right = time.time; "
        f"time.time = lambda: right() + {seconds}; from holdfast.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S, env=os.environ)
