"""NFSv3: nfs-ganesha serves a directory per volume, libnfs is the client; nothing is mounted by a kernel."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.process import Unavailable
from benchmarks.replay.running import free_ports
from benchmarks.webstore.processes import LOOPBACK, Processes, find_program
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.subjects.libnfs import NfsContext, library
from benchmarks.webstore.workload import Step

_CONFIGURATION = """\
NFS_CORE_PARAM {{
    Protocols = 3; Bind_addr = {host}; NFS_Port = {nfs}; MNT_Port = {mount};
    Enable_UDP = false; Enable_NLM = false; Enable_RQUOTA = false;
}}
EXPORT {{
    Export_Id = 1; Path = "{path}"; Pseudo = "{path}";
    Access_Type = RW; Squash = no_root_squash; SecType = sys; Protocols = 3; Transports = TCP;
    FSAL {{ Name = VFS; }}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""
_RPCBIND_PORT = 111


@dataclass(frozen=True, slots=True)
class Export:
    """A directory that a server exports, and its ports."""

    path: str
    nfs_port: int
    mount_port: int

    def mounted(self) -> NfsContext:
        return NfsContext(LOOPBACK, self.path, self.nfs_port, self.mount_port)


class Nfs:
    """A server for each volume, each with its own process."""

    facts: ClassVar[Facts] = Facts(
        name="nfs",
        title="NFSv3",
        stored="the bytes, by COMMIT, before the reply to a close",
        deleted="nothing: REMOVE is not synced",
        programs=("nfs-ganesha", "nfs-ganesha-vfs", "libnfs13"),
    )

    def __init__(self) -> None:
        self._processes = Processes()
        self._portmapper = Processes()

    def start(self, directory: Path, volumes: int) -> tuple[Export, ...]:
        library()
        ganesha = find_program("ganesha.nfsd", "nfs-ganesha-vfs")
        if os.geteuid() != 0:
            raise Unavailable("nfs-ganesha opens files by handle, which only root may do")
        if not _answers(_RPCBIND_PORT):
            self._start_rpcbind(directory)
        ports = free_ports(2 * volumes)
        exports = [
            Export(str(directory / f"v{number}"), *ports[2 * number : 2 * number + 2]) for number in range(volumes)
        ]
        for export in exports:  # one after the other: two that register at the same time fail
            Path(export.path).mkdir()
            self._serve(ganesha, export)
            self._processes.wait_until(partial(_is_mountable, export))
        return tuple(exports)

    def pids(self) -> list[int]:
        return self._processes.pids()

    def stop(self) -> None:
        self._processes.stop()
        self._portmapper.stop()

    def _start_rpcbind(self, directory: Path) -> None:
        """The server does not start where it cannot be registered, though clients are told its ports.

        An address is named so that datagrams are not taken from elsewhere; with the usual one, Debian's rpcbind aborts.
        """
        rpcbind = find_program("rpcbind", "rpcbind")
        self._portmapper.start([rpcbind, "-f", "-h", "127.0.0.2"], directory / "rpcbind.log")
        self._portmapper.wait_until(lambda: _answers(_RPCBIND_PORT))

    def _serve(self, ganesha: str, export: Export) -> None:
        configuration = Path(f"{export.path}.conf")
        text = _CONFIGURATION.format(host=LOOPBACK, nfs=export.nfs_port, mount=export.mount_port, path=export.path)
        configuration.write_text(text, encoding="utf-8")
        command = [ganesha, "-F", "-f", str(configuration), "-L", "STDERR", "-p", f"{export.path}.pid"]
        self._processes.start(command, Path(f"{export.path}.log"))

    @staticmethod
    def machine(place: tuple[Export, ...]) -> NfsMachine:
        return NfsMachine(place)


class NfsMachine:
    """Every client has its own connections: a context of libnfs belongs to one thread."""

    def __init__(self, exports: tuple[Export, ...]) -> None:
        self._exports = exports

    def session(self) -> NfsSession:
        return NfsSession(self._exports)

    def close(self) -> None:
        pass


class NfsSession:
    """Files in one directory per volume: any other layout would cost a LOOKUP more for each document."""

    def __init__(self, exports: tuple[Export, ...]) -> None:
        self._mounts = [export.mounted() for export in exports]

    def store(self, documents: Sequence[Document], step: Step) -> list[tuple[int, bytes]]:
        mounts = self._mounts
        handles = []
        for document in documents:
            number, path = document.number % len(mounts), b"/" + document.name(step.copy).encode()
            mounts[number].store(path, document.data)
            handles.append((number, path))
        return handles

    def fetch(self, handles: Sequence[tuple[int, bytes]]) -> Iterator[bytes]:
        for number, path in handles:
            yield self._mounts[number].fetch(path)

    def delete(self, handles: Sequence[tuple[int, bytes]]) -> None:
        for number, path in handles:
            self._mounts[number].delete(path)

    def close(self) -> None:
        for mount in self._mounts:
            mount.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _is_mountable(export: Export) -> bool:
    if not _answers(export.nfs_port):
        return False
    try:
        export.mounted().close()
    except OSError:
        return False
    return True
