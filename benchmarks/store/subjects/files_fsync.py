"""One file per content, named by its SHA-256: draft, fsync, rename. Contents are kept as they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload


class FilesFsync:
    """256 directories by the first byte of the signature, made in advance."""

    facts: ClassVar[Facts] = Facts(
        name="files",
        title="file each, fsync",
        durable="the bytes of each document; its name only with the next journal commit",
        workloads=frozenset(Workload),
    )

    def open(self, directory: Path) -> None:
        self._directory = directory
        for number in range(256):
            (directory / f"{number:02x}").mkdir(exist_ok=True)

    def session(self) -> Session:
        return _Files(self._directory)

    def scan(self) -> Iterator[bytes]:
        for shard in sorted(os.scandir(self._directory), key=lambda entry: entry.name):
            for entry in sorted(os.scandir(shard.path), key=lambda entry: entry.name):
                with open(entry.path, "rb", buffering=0) as file:
                    yield file.read()

    def close(self) -> None:
        pass


class _Files:
    def __init__(self, directory: Path) -> None:
        self._root = str(directory)

    def store(self, documents: Sequence[bytes]) -> list[str]:
        return [self._store(document) for document in documents]

    def store_again(self, documents: Sequence[bytes], handles: Sequence[str]) -> None:
        for document in documents:
            self._store(document)

    def fetch(self, handles: Sequence[str]) -> Iterator[bytes]:
        for path in handles:
            with open(path, "rb", buffering=0) as file:
                yield file.read()

    def delete(self, handles: Sequence[str]) -> None:
        for path in handles:
            os.unlink(path)

    def close(self) -> None:
        pass

    def _store(self, document: bytes) -> str:
        signature = hashlib.sha256(document).hexdigest()
        path = f"{self._root}/{signature[:2]}/{signature[2:]}"
        if os.path.exists(path):
            return path
        draft = f"{path}.open"
        with open(draft, "wb", buffering=0) as file:
            file.write(document)
            os.fsync(file.fileno())
        os.rename(draft, path)
        return path
