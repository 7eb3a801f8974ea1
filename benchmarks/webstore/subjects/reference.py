"""The reference: the shortest path that a durable block server, and its client, can have in this Python.

What Holdfast's own server adds to it (counters, checksums, idempotency keys, authentication, limits) costs the
difference. Both compress and sign on the client's side.
"""

from __future__ import annotations

import hashlib
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from zstandard import ZstdCompressor, ZstdDecompressor

from benchmarks.harness.process import Unavailable
from benchmarks.webstore.processes import LOOPBACK, Processes
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.subjects.reference_server import DELETE, FETCH, HEAD, MISSING, STORE
from benchmarks.webstore.workload import Step

_SERVER = "benchmarks.webstore.subjects.reference_server"
_LEVEL = 3
Handle = tuple[int, bytes]  # of a volume, and the signature


class Reference:
    """A server process for each volume; every client keeps a connection to each."""

    facts: ClassVar[Facts] = Facts(
        name="reference",
        title="bare reference server",
        stored="everything, by fdatasync, before the reply; a duplicate is not counted",
        deleted="everything, by fdatasync, before the reply",
        packages=("rocksdict", "zstandard", "uvloop"),
        is_file_system=False,
    )

    def __init__(self) -> None:
        self._processes = Processes()

    def start(self, directory: Path, volumes: int) -> tuple[int, ...]:
        ports = []
        for number in range(volumes):
            path = directory / f"v{number}"
            path.mkdir()
            log = directory / f"v{number}.log"
            server = self._processes.start([sys.executable, "-m", _SERVER, path], log, is_heard=True)
            assert server.stdout is not None
            port = server.stdout.readline()
            if not port:
                raise Unavailable(f"the reference server ended; its log is '{log}'")
            ports.append(int(port))
        return tuple(ports)

    def pids(self) -> list[int]:
        return self._processes.pids()

    def stop(self) -> None:
        self._processes.stop()

    @staticmethod
    def machine(place: tuple[int, ...]) -> ReferenceMachine:
        return ReferenceMachine(place)


class ReferenceMachine:
    """Clients share nothing."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports

    def session(self) -> ReferenceSession:
        return ReferenceSession(self._ports)

    def close(self) -> None:
        pass


class ReferenceSession:
    """One blocking socket for each volume."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._sockets = [socket.create_connection((LOOPBACK, port)) for port in ports]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def store(self, documents: Sequence[Document], step: Step) -> list[Handle]:
        compress, handles = ZstdCompressor(_LEVEL).compress, []
        for document in documents:
            volume, signature = document.number % len(self._sockets), hashlib.sha256(document.data).digest()
            self._call(volume, STORE, signature, compress(document.data))
            handles.append((volume, signature))
        return handles

    def fetch(self, handles: Sequence[Handle]) -> Iterator[bytes]:
        decompress = ZstdDecompressor().decompress
        for volume, signature in handles:
            yield decompress(self._call(volume, FETCH, signature))

    def delete(self, handles: Sequence[Handle]) -> None:
        for volume, signature in handles:
            self._call(volume, DELETE, signature)

    def _call(self, volume: int, operation: int, signature: bytes, data: bytes = b"") -> bytes:
        connection = self._sockets[volume]
        connection.sendmsg((HEAD.pack(operation, len(signature) + len(data)), signature, data))
        status, length = HEAD.unpack(connection.recv(HEAD.size, socket.MSG_WAITALL))
        if status == MISSING and operation == FETCH:
            raise FileNotFoundError(signature.hex())
        return connection.recv(length, socket.MSG_WAITALL) if length else b""

    def close(self) -> None:
        for each in self._sockets:
            each.close()
