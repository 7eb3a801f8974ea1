"""Holdfast itself: one `holdfast volume serve` for all volumes, clients over a connector file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.harness.process import ChildFailed
from benchmarks.webstore.processes import LOOPBACK, Processes
from benchmarks.webstore.subject import Document, Facts
from benchmarks.webstore.workload import BATCH, Step


@dataclass(frozen=True, slots=True)
class Connector:
    """The file that clients are given, and the names of its volumes."""

    path: Path
    volumes: tuple[str, ...]


class Volumes:
    """Servers as on one machine: their volumes share a process for each core. Single forms: `put`, `get`, `delete`."""

    facts: ClassVar[Facts] = Facts(
        name="holdfast",
        title="Holdfast",
        stored="everything, by fdatasync, before the reply",
        deleted="everything, by fdatasync, before the reply",
        packages=("rocksdict", "zstandard", "uvloop"),
        is_file_system=False,
        is_ours=True,
    )

    def __init__(self) -> None:
        self._processes = Processes()

    def start(self, directory: Path, volumes: int) -> Connector:
        secret = directory / "secret"
        paths = [directory / f"v{number}" for number in range(volumes)]
        _run([("secret", secret), *(("init", path) for path in paths)])
        command: list[str | Path] = [
            *_program(),
            "serve",
            "--listen",
            f"{LOOPBACK}:0",
            "--secret-file",
            secret,
            "--json",
            *paths,
        ]
        server = self._processes.start(command, directory / "server.log", is_heard=True)
        connector = directory / "connector.toml"
        connector.write_text(_connector(_addresses(server, paths), secret), encoding="utf-8")
        return Connector(connector, tuple(path.name for path in paths))

    def pids(self) -> list[int]:
        return self._processes.pids()

    def stop(self) -> None:
        self._processes.stop()

    @staticmethod
    def machine(place: Connector) -> VolumesMachine:
        return VolumesMachine(place)


class BatchedVolumes(Volumes):
    """The same servers; each client uses the bulk forms: `store_batch`, `get_batch`, `delete_batch`."""

    facts: ClassVar[Facts] = Facts(
        name="holdfast-batches",
        title=f"Holdfast, batches of {BATCH}",
        stored="everything, by fdatasync, before the reply",
        deleted="everything, by fdatasync, before the reply",
        is_file_system=False,
        is_ours=True,
    )

    @staticmethod
    def machine(place: Connector) -> VolumesMachine:
        return VolumesMachine(place, BATCH)


class VolumesMachine:
    """One connection to the instance, which the clients of the process share."""

    def __init__(self, connector: Connector, batch: int = 1) -> None:
        import holdfast

        self._connection = holdfast.connect(connector.path)
        self._contents = self._connection.contents
        self._volumes = connector.volumes
        self._batch = batch

    def session(self) -> VolumesSession | BatchedSession:
        if self._batch == 1:
            return VolumesSession(self._contents, self._volumes)
        return BatchedSession(self._contents, self._volumes, self._batch)

    def close(self) -> None:
        self._connection.close()


class VolumesSession:
    """One document per call."""

    def __init__(self, contents: Any, volumes: tuple[str, ...]) -> None:
        self._contents = contents
        self._volumes = volumes

    def store(self, documents: Sequence[Document], step: Step) -> list[Any]:
        put, options = self._contents.put, _options(step, self._volumes)
        return [put(document.data, options[document.number % len(options)]) for document in documents]

    def fetch(self, handles: Sequence[Any]) -> Iterator[bytes]:
        get = self._contents.get
        for key in handles:
            yield get(key)

    def delete(self, handles: Sequence[Any]) -> None:
        delete = self._contents.delete
        for key in handles:
            delete(key)

    def close(self) -> None:
        pass


class BatchedSession:
    """Many documents per call. To chosen volumes, each call goes to one of them."""

    def __init__(self, contents: Any, volumes: tuple[str, ...], batch: int) -> None:
        self._contents = contents
        self._volumes = volumes
        self._batch = batch

    def store(self, documents: Sequence[Document], step: Step) -> list[Any]:
        keys: list[Any] = []
        options = _options(step, self._volumes)
        for number, batch in enumerate(_slices(documents, self._batch)):
            stored = self._contents.store_batch([each.data for each in batch], options[number % len(options)])
            keys.extend(each.key for each in stored)
        return keys

    def fetch(self, handles: Sequence[Any]) -> Iterator[bytes]:
        for batch in _slices(handles, self._batch):
            yield from self._contents.get_batch(batch)

    def delete(self, handles: Sequence[Any]) -> None:
        for batch in _slices(handles, self._batch):
            self._contents.delete_batch(batch)

    def close(self) -> None:
        pass


def _options(step: Step, volumes: tuple[str, ...]) -> list[Any]:
    """How documents are stored: one way for all, or one for each volume in turn."""
    from holdfast.model import StoreMode
    from holdfast.storage.store.put import StoreOptions

    chosen = volumes if step.is_chosen else (None,)
    return [StoreOptions(mode=StoreMode(step.mode), volume=name) for name in chosen]


def _program() -> list[str]:
    return [sys.executable, "-m", "holdfast", "volume"]


def _run(commands: Sequence[tuple[str, Path]]) -> None:
    """All at once: much of the time is the interpreter's start."""
    started = [subprocess.Popen([*_program(), *map(str, each)], stdout=subprocess.DEVNULL) for each in commands]
    codes = [process.wait() for process in started]
    if any(codes):
        raise ChildFailed(f"'holdfast volume' ended with {max(codes)} before there was a server")


def _addresses(server: subprocess.Popen[bytes], paths: Sequence[Path]) -> list[str]:
    """What the server says of each volume as soon as it is ready, in the order of the paths."""
    assert server.stdout is not None
    found: dict[str, str] = {}
    while len(found) < len(paths):
        line = server.stdout.readline()
        if not line:
            raise ChildFailed(f"'holdfast volume serve' gave out {len(found)} of {len(paths)} volumes and ended")
        told = json.loads(line)
        found[told["directory"]] = f"{told['host']}:{told['port']}"
    return [found[str(path)] for path in paths]


def _connector(addresses: Sequence[str], secret: Path) -> str:
    lines = ["format = 1", "[remote]", f'secret_file = "{secret}"']
    for number, address in enumerate(addresses):
        lines += ["[[volume]]", f'name = "v{number}"', f'address = "{address}"']
    return "\n".join(lines) + "\n"


def _slices(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
