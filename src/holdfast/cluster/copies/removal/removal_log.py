"""The log of removals in the NATS service, and a copy of it on every node: it never lives in NATS alone (N2).

    key removal.<number>        one entry; created once, never changed
    cluster/removals.log        the same entries, one line each, as this node has read them

Numbers count from 1 in each incarnation of the service, and are reported as `incarnation << 32 | number`, so that they
ascend for good. When a node meets another incarnation, it appends what its file has and the log lacks. Two nodes may
append the same entry then: applying it again changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from holdfast.cluster.membership.bus import Bus
from holdfast.env import REAL, Environment
from holdfast.env.files import read_file
from holdfast.errors import ClusterDown

FILE = "removals.log"
_SHIFT = 32
T = TypeVar("T")


class OnBus(Protocol):
    """Runs a coroutine function with the connection to the service. Raises ClusterDown without one."""

    def __call__(self, call: Callable[[Bus], Awaitable[T]]) -> T: ...


class ServiceRemovalLog:
    """A `RemovalLog` in the service. Any thread may call."""

    def __init__(self, path: Path, on_bus: OnBus, env: Environment = REAL) -> None:
        self._path = path
        self._on_bus = on_bus
        self._env = env
        self._lock = threading.Lock()
        self._incarnation = 0  # of the service that the next two are about
        self._entries: list[bytes] = []  # of the log, in order
        self._kept = self._read_file()

    def append(self, entry: bytes) -> int:
        with self._lock:
            self._catch_up()
            return self._append(entry)

    def read_after(self, number: int) -> Sequence[tuple[int, bytes]]:
        with self._lock:
            self._catch_up()
            base = self._incarnation << _SHIFT
            first = max(number - base, 0)
            return [(base | at, entry) for at, entry in enumerate(self._entries[first:], first + 1)]

    def _append(self, entry: bytes) -> int:
        while self._on_log(lambda bus: bus.swap(_key(len(self._entries) + 1), entry, 0)) is None:
            self._read_next()  # another node has this number
        self._take([entry])
        return self._incarnation << _SHIFT | len(self._entries)

    def _catch_up(self) -> None:
        """Reads what is new. Raises ClusterDown."""
        incarnation = self._on_bus(_incarnation)
        if incarnation != self._incarnation:
            self._begin(incarnation)
        while self._read_next():
            pass

    def _read_next(self) -> bool:
        found = self._on_log(lambda bus: bus.get(_key(len(self._entries) + 1)))
        if found is not None:
            self._take([found.value])
        return found is not None

    def _on_log(self, call: Callable[[Bus], Awaitable[T]]) -> T:
        """As `_on_bus`; ClusterDown if it is not any more the service whose entries are counted here."""

        async def run(bus: Bus) -> T:
            if bus.access.service.number != self._incarnation:
                raise ClusterDown("the cluster has a new NATS service: give the command again")
            return await call(bus)

        return self._on_bus(run)

    def _begin(self, incarnation: int) -> None:
        """Reads the log of a service from its start, and completes it from the file."""
        self._entries, self._incarnation = [], incarnation
        try:
            found = self._on_log(lambda bus: bus.entries("removal.*"))
            self._take([found[key].value for key in sorted(found)])
            while self._read_next():
                pass
            known = set(self._entries)
            for entry in [each for each in self._kept if each not in known]:
                self._append(entry)
        except BaseException:
            self._incarnation = 0  # begins again: what only this node has kept may still be lacking
            raise

    # -- the file -----------------------------------------------------------------------------------------------

    def _take(self, entries: Sequence[bytes]) -> None:
        """Entries of the log become known here: durable in the file first."""
        new = [each for each in dict.fromkeys(entries) if each not in self._kept]
        if new:
            files = self._env.files
            is_new = not files.exists(self._path)
            file = files.open(self._path, writable=True, create=is_new)
            try:
                end = file.size()
                torn = end and file.read(end - 1, 1) != b"\n"
                file.append([b"\n"] * bool(torn) + [each + b"\n" for each in new])
                file.sync()
            finally:
                file.close()
            if is_new:
                files.sync_directory(self._path.parent)
            self._kept.update(dict.fromkeys(new))
        self._entries += entries

    def _read_file(self) -> dict[bytes, None]:
        """The entries of the file, in order. A line that a crash has cut off is in the log."""
        try:
            lines = read_file(self._env.files, self._path).split(b"\n")
        except FileNotFoundError:
            return {}
        return dict.fromkeys(line for line in lines if line.endswith(b"}"))


def _key(number: int) -> str:
    return f"removal.{number:010d}"


async def _incarnation(bus: Bus) -> int:
    return bus.access.service.number
