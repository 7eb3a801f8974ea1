"""A store with servers, as the harness sees it: servers on one side, client processes on the other.

The harness starts the servers of a subject, sends its `place` to every client process, and there opens one `Machine`
before each step. A machine hands out a session to each client. Whatever a subject keeps on the client's side, such as
a mount, lives no longer than its machine: like the paper, which mounted anew before each measurement, nothing is
answered from a client's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from benchmarks.webstore.workload import Step

Handle = Any  # opaque to the harness; belongs to the client that stored


@dataclass(frozen=True, slots=True)
class Facts:
    """What the report says about a subject."""

    name: str
    title: str
    stored: str  # what survives a power cut once a store was acknowledged
    deleted: str  # the same of a deletion
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()  # names of Debian packages
    is_file_system: bool = True
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A page and its number in the corpus, which makes its name in a file system."""

    number: int
    data: bytes

    def name(self, copy: int) -> str:
        return f"{copy}-{self.number:07d}.html"


class Session(Protocol):
    """One client. Used by one thread; sessions of a machine run at the same time.

    Each document is one request, or several if the protocol needs them; the next begins when it was answered.
    """

    def store(self, documents: Sequence[Document], step: Step) -> list[Handle]: ...

    def fetch(self, handles: Sequence[Handle]) -> Iterator[bytes]:
        """Raises OSError or HoldfastError for what is not there."""

    def delete(self, handles: Sequence[Handle]) -> None: ...

    def close(self) -> None: ...


class Machine(Protocol):
    """What the clients of one process share."""

    def session(self) -> Session: ...

    def close(self) -> None: ...


class Subject(Protocol):
    """Servers, one for each volume. `stop` is called exactly once, also if `start` failed."""

    facts: ClassVar[Facts]

    def start(self, directory: Path, volumes: int) -> Any:
        """Starts them on empty directories and returns what a client has to know. Raises Unavailable."""

    def pids(self) -> list[int]: ...

    def stop(self) -> None: ...

    @staticmethod
    def machine(place: Any) -> Machine:
        """Called in a client's process."""
