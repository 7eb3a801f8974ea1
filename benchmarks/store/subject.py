"""A store under test, as the harness sees it.

A subject opens a directory and hands out one session per caller. A session works through its caller's share of the
documents in the way that is natural for the store: one by one, in groups, or in batches. What a subject can do it
declares in `Facts.workloads`; the abilities beyond storing are the small protocols below.

Documents are numbered by the harness; the handle that `store` returns is all a subject may use to find one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from benchmarks.store.workload import Workload

Handle = Any  # opaque to the harness: a key, an offset, a path


@dataclass(frozen=True, slots=True)
class Facts:
    """What the report says about a subject."""

    name: str
    title: str
    durable: str  # what survives a power cut once `store` has returned
    workloads: frozenset[Workload]
    packages: tuple[str, ...] = ()  # distributions whose versions the report names
    writers_max: int = 1_000
    callers_max: int = 1_000
    suffix: str = ""  # of the workload's label, for bulk forms


class Session(Protocol):
    """One caller at work. Used by one thread; sessions of one subject run at the same time."""

    def store(self, documents: Sequence[bytes]) -> list[Handle]:
        """Stores new documents. All that the subject promises to keep is kept when this returns."""

    def close(self) -> None: ...


@runtime_checkable
class StoresAgain(Protocol):
    """A session that can be given documents which the store holds already."""

    def store_again(self, documents: Sequence[bytes], handles: Sequence[Handle]) -> None: ...


@runtime_checkable
class Fetches(Protocol):
    """A session that finds documents by handle."""

    def fetch(self, handles: Sequence[Handle]) -> Iterator[bytes]: ...


@runtime_checkable
class Deletes(Protocol):
    """A session that removes documents by handle."""

    def delete(self, handles: Sequence[Handle]) -> None: ...


class Subject(Protocol):
    """A store. `open` and `close` alternate; a directory may be opened again by the same object."""

    facts: ClassVar[Facts]

    def open(self, directory: Path) -> None:
        """Opens the store in `directory`, creating it if the directory is empty."""

    def session(self) -> Session: ...

    def close(self) -> None:
        """Closes cleanly; afterwards the directory's size is what the documents cost."""


@runtime_checkable
class Scans(Protocol):
    """A subject that hands out all documents in its own order."""

    def scan(self) -> Iterator[bytes]: ...


@runtime_checkable
class Served(Protocol):
    """A subject whose work is done by other processes, which are charged to it."""

    def server_pids(self) -> list[int]: ...
