"""A server at work: started, awaited, looked at, and stopped with all its processes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl.tree import cpu_of, family, memory_of
from benchmarks.harness.process import ChildFailed
from benchmarks.replay.servers import Place, ReplayServer

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """One that answers."""

    name: str
    server: ReplayServer
    place: Place
    pid: int

    def memory_bytes(self) -> int:
        """Of all its processes."""
        return sum(map(memory_of, family(self.pid)))

    def cpu_s(self) -> float:
        """Processor time of those of its processes that are alive."""
        return cpu_of(family(self.pid))


@contextmanager
def running(name: str, server: ReplayServer, place: Place) -> Iterator[Running]:
    """Until the block is left. Raises Unavailable if it is not here, ChildFailed if it does not start."""
    command = server.command(place)
    log = place.directory / f"{name}.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=place.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # pywb tells of every request there
            stderr=subprocess.DEVNULL if "pywb" in name else said,
            start_new_session=True,
        )
    try:
        for port in {place.port, place.replay_port if server.has_replay_port else place.port}:
            _await(process, port, log)
        yield Running(name, server, place, process.pid)
    finally:
        _stop(process)


def free_ports(count: int) -> list[int]:
    """Different ones that nobody listens on."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until it answers, whatever it says."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(_PAUSE_S)
        else:
            return
        finally:
            connection.close()
    said = log.read_text(errors="replace").strip().splitlines()
    raise ChildFailed(f"the server did not start and said: {(said or ['nothing'])[-1]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The whole session that was started here."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):  # which means that all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
