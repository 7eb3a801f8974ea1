"""Node processes with NATS servers of their own, and one NATS server alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.figure import ClusterFigure
from benchmarks.harness.process import Unavailable
from holdfast.cluster.membership.keeper import server_program
from holdfast.cluster.status import read_table

_LEASE_S = 2.0
PARTITIONS = 64
_NAMES = ("n1", "n2", "n3", "n4")
_KEEPERS = _NAMES[:3]
_PATIENCE_S = 300.0
_LOOK_S = 0.02
_SUBJECTS = 1024
_MESSAGE = bytes(100)
_UNDER_WAY = 20_000  # messages published before the server is asked how far it is


def take_over(directory: Path) -> list[ClusterFigure]:
    """From kill -9 of a node to the claim of its last partition by others, less the lease."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    nodes = {name: NodeProcess(directory / name) for name in _NAMES}
    try:
        form(nodes, "--copies", "3", keepers=_KEEPERS)
        plain = _killed(nodes, "n4", "n1")
        keepers = [_killed(nodes, name, "n4") for name in _KEEPERS]
    finally:
        for node in nodes.values():
            node.kill()
    return [
        ClusterFigure("take-over", "a node that keeps no NATS server", plain, "s beyond the lease"),
        ClusterFigure(
            "take-over", "the slowest of three keepers, one of which leads", max(keepers), "s beyond the lease"
        ),
    ]


def form(nodes: dict[str, NodeProcess], *settings: str, keepers: Sequence[str] = ("n1",)) -> None:
    """Starts the nodes as a cluster; the first makes it."""
    first, *others = nodes.values()
    settings = ("--partitions", str(PARTITIONS), "--lease", f"{_LEASE_S:g}s", *settings)
    made = holdfast_command("cluster", "init", str(first.path), *settings, "--address", free_address(), "--json")
    token = json.loads(made)["token"]
    first.start()
    for node in others:
        node.start("--join", token, "--address", free_address())
        token = holdfast_command("cluster", "token", "-a", str(first.path)).strip()
    wait(lambda: _owners(first, set(nodes)), "all nodes own partitions")
    if len(keepers) > 1:
        holdfast_command("cluster", "rebuild", "-a", str(first.path), "--keepers", ",".join(keepers))
        wait(lambda: _owners(first, set(nodes)), "all nodes own partitions of the new service")


def _killed(nodes: dict[str, NodeProcess], name: str, witness: str) -> float:
    """Seconds beyond the lease until the others own everything; then the node is back."""
    seen = nodes[witness]
    wait(lambda: _owners(seen, set(_NAMES)), "all nodes own partitions")
    begun = time.monotonic()
    nodes[name].kill()
    wait(lambda: _owners(seen, set(_NAMES) - {name}), f"others own the partitions of {name}")
    seconds = time.monotonic() - begun - _LEASE_S
    nodes[name].start()
    return seconds


def _owners(witness: NodeProcess, names: set[str]) -> bool:
    """Whether just these nodes own all partitions, as one of them sees it."""
    try:
        table: dict[str, Any] = read_table(witness.path / "cluster")
    except Exception:  # it is being written, or not there yet
        return False
    owners = {row["name"] for row in table["nodes"] if row["owned"]}
    return bool(table["connected"]) and table["owned"] == table["partitions"] and owners == names


class NodeProcess:
    """`holdfast node run`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "node",
            "run",
            str(self.path),
            *options,
            "-p",
            "0",
            "--workers",
            "1",
        ]
        with self.path.with_suffix(".err").open("ab") as errors:
            self._process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(self.path.with_suffix(".err").read_text())

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)  # its NATS server dies with it
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def holdfast_command(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], capture_output=True, text=True, check=True
    ).stdout


def free_address() -> str:
    """An address with four free ports in a row."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = first.getsockname()[1]
        try:
            for more in range(4):
                socket.create_server(("127.0.0.1", port + more)).close()
        except OSError:
            continue
        return f"127.0.0.1:{port}"


def wait(is_so: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > end_s:
            raise TimeoutError(f"in vain: {what}")
        time.sleep(_LOOK_S)


# -- one NATS server ---------------------------------------------------------------------------------------------------


def service_memory(directory: Path, messages: int) -> list[ClusterFigure]:
    """Resident memory of a NATS server that keeps so many messages of 100 bytes under 1024 subjects."""
    try:
        program = server_program()
    except Exception as error:
        raise Unavailable(str(error)) from error
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    port = int(free_address().rpartition(":")[2])
    config = directory / "nats.conf"
    config.write_text(f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{directory}/store" }}\n')
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen([program, "-c", str(config)], stdout=log, stderr=log)
    try:
        wait(lambda: _listens(port), "the server listens")
        asyncio.run(_fill(port, messages))
        status = Path(f"/proc/{server.pid}/status").read_text()
    finally:
        server.terminate()
        server.wait()
    resident = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))
    return [ClusterFigure("nats", f"resident with {messages:,} messages", resident / 1e6, "MB")]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def _fill(port: int, messages: int) -> None:
    import nats

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    stream = client.jetstream(timeout=60)
    await stream.add_stream(name="log", subjects=["log.*"])
    for sent in range(1, messages + 1):
        await client.publish(f"log.{sent % _SUBJECTS}", _MESSAGE)
        if sent % _UNDER_WAY == 0 or sent == messages:
            await client.flush(60)
            while (await stream.stream_info("log")).state.messages < sent:
                await asyncio.sleep(_LOOK_S)
    await client.close()
