"""Holdfast itself: one archive with one volume of organization `log`, every call durable when it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.store.subject import Facts, Session
from benchmarks.store.workload import Workload

BATCH = 256


class HoldfastStore:
    """Every caller is a thread that calls the single forms: `put`, `get`, `delete`."""

    facts: ClassVar[Facts] = Facts(
        name="holdfast",
        title="Holdfast",
        durable="each document",
        workloads=frozenset(Workload),
        packages=("rocksdict", "zstandard"),
    )

    def open(self, directory: Path) -> None:
        from holdfast import Plan, init
        from holdfast import open as open_archive

        path = directory / "archive"
        if not path.exists():
            init(path, Plan(volumes=1, organization="log"))
        self._archive: Any = open_archive(path)
        self._archive.__enter__()

    def session(self) -> Session:
        return _Singles(self._archive.contents)

    def scan(self) -> Iterator[bytes]:
        for batch in self._archive.contents.scan():
            for _, data in batch:
                yield data

    def close(self) -> None:
        self._archive.__exit__(None, None, None)


class HoldfastBatches(HoldfastStore):
    """One caller that uses the bulk forms: `store_batch`, `get_batch`, `delete_batch`."""

    facts: ClassVar[Facts] = Facts(
        name="holdfast-batches",
        title=f"Holdfast, batches of {BATCH}",
        durable=f"batches of {BATCH} documents",
        workloads=frozenset(Workload) - {Workload.SCAN, Workload.OPEN},
        callers_max=1,
        suffix=f" (batches of {BATCH})",
    )

    def session(self) -> Session:
        return _Batches(self._archive.contents)


class _Singles:
    def __init__(self, contents: Any) -> None:
        self._contents = contents

    def store(self, documents: Sequence[bytes]) -> list[Any]:
        put = self._contents.put
        return [put(document) for document in documents]

    def store_again(self, documents: Sequence[bytes], handles: Sequence[Any]) -> None:
        self.store(documents)

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


class _Batches:
    def __init__(self, contents: Any) -> None:
        self._contents = contents

    def store(self, documents: Sequence[bytes]) -> list[Any]:
        keys: list[Any] = []
        for batch in _slices(documents):
            keys.extend(stored.key for stored in self._contents.store_batch(batch))
        return keys

    def store_again(self, documents: Sequence[bytes], handles: Sequence[Any]) -> None:
        self.store(documents)

    def fetch(self, handles: Sequence[Any]) -> Iterator[bytes]:
        for batch in _slices(handles):
            yield from self._contents.get_batch(batch)

    def delete(self, handles: Sequence[Any]) -> None:
        for batch in _slices(handles):
            self._contents.delete_batch(batch)

    def close(self) -> None:
        pass


def _slices(items: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])
