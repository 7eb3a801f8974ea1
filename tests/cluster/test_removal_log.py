"""N2: the log of removals never lives in NATS alone: a node completes the log of a new service from its file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from holdfast.cluster.copies.removal.removal_log import FILE, ServiceRemovalLog
from holdfast.cluster.membership.bus import KeyValue
from holdfast.errors import ClusterDown

T = TypeVar("T")


class KeysInMemory:
    """The keys of one incarnation: what the log needs of a bus."""

    def __init__(self, number: int) -> None:
        self.access = SimpleNamespace(service=SimpleNamespace(number=number))
        self.values: dict[str, bytes] = {}
        self.is_up = True

    async def get(self, key: str) -> KeyValue | None:
        return KeyValue(self.values[key], 1) if key in self.values else None

    async def swap(self, key: str, value: bytes, revision: int) -> int | None:
        if key in self.values:
            return None
        self.values[key] = value
        return len(self.values)

    async def entries(self, keys: str) -> dict[str, KeyValue]:
        return {key: KeyValue(value, 1) for key, value in self.values.items()}


class Service:
    """Whichever incarnation there is."""

    def __init__(self) -> None:
        self.keys = KeysInMemory(1)

    def __call__(self, call: Callable[[Any], Awaitable[T]]) -> T:
        if not self.keys.is_up:
            raise ClusterDown("no connection")
        return asyncio.run(call(self.keys))  # type: ignore[arg-type]


def entry(number: int) -> bytes:
    return b'{"kind": "removal", "id": "%d"}' % number


def test_entries_are_numbered_and_read_by_all(tmp_path: Path) -> None:
    service = Service()
    first, second = (ServiceRemovalLog(tmp_path / name, service) for name in ("a", "b"))
    numbers = [first.append(entry(1)), second.append(entry(2)), first.append(entry(3))]
    assert numbers == sorted(set(numbers))
    for log in (first, second):
        assert log.read_after(0) == list(zip(numbers, map(entry, (1, 2, 3)), strict=True))
        assert log.read_after(numbers[1]) == [(numbers[2], entry(3))]
        assert log.read_after(numbers[2]) == []


def test_a_new_service_gets_what_nodes_have_kept(tmp_path: Path) -> None:
    """`cluster rebuild`: the union of what the nodes know, under numbers that are higher than all before."""
    service = Service()
    logs = [ServiceRemovalLog(tmp_path / name, service) for name in ("a", "b")]
    last = [log.append(entry(number)) for number, log in enumerate(logs, 1)][-1]
    logs[0].read_after(0)
    logs[1].read_after(0)
    only_a = logs[0].append(entry(3))
    service.keys = KeysInMemory(2)
    found = ServiceRemovalLog(tmp_path / "b", service).read_after(last)  # a process that starts again
    assert [each for _, each in found] == [entry(1), entry(2)]
    assert min(number for number, _ in found) > only_a
    assert {each for _, each in logs[0].read_after(0)} == {entry(1), entry(2), entry(3)}
    assert {each for _, each in logs[1].read_after(0)} == {entry(1), entry(2), entry(3)}


def test_a_line_that_a_crash_cut_off_is_read_from_the_log(tmp_path: Path) -> None:
    service = Service()
    log = ServiceRemovalLog(tmp_path / FILE, service)
    log.append(entry(1))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"kind": "remo')
    again = ServiceRemovalLog(tmp_path / FILE, service)
    again.append(entry(2))
    assert [each for _, each in ServiceRemovalLog(tmp_path / FILE, service).read_after(0)] == [entry(1), entry(2)]
    lines = (tmp_path / FILE).read_bytes().split(b"\n")
    assert lines == [entry(1), b'{"kind": "remo', entry(2), b""]


def test_without_the_service_nothing_is_appended(tmp_path: Path) -> None:
    service = Service()
    log = ServiceRemovalLog(tmp_path / FILE, service)
    service.keys.is_up = False
    with pytest.raises(ClusterDown):
        log.append(entry(1))
    with pytest.raises(ClusterDown):
        log.read_after(0)
    assert not (tmp_path / FILE).exists()


def test_a_service_that_is_replaced_meanwhile_gets_no_number_of_the_old_one(tmp_path: Path) -> None:
    """Else there is a gap in its log, and nobody reads on behind it."""
    service = Service()
    log, other = (ServiceRemovalLog(tmp_path / name, service) for name in ("a", "b"))
    for number in range(3):
        log.append(entry(number))

    def rebuilt(call: Callable[[Any], Awaitable[T]]) -> T:
        """The connection is another one when the entry is to be written."""
        if call.__qualname__.startswith("ServiceRemovalLog._on_log") and service.keys.access.service.number == 1:
            service.keys = KeysInMemory(2)
        return service(call)

    log._on_bus = rebuilt
    with pytest.raises(ClusterDown, match="new NATS service"):
        log.append(entry(3))
    assert service.keys.values == {}
    log.append(entry(4))
    assert [each for _, each in other.read_after(0)] == [entry(0), entry(1), entry(2), entry(4)]


def test_a_node_goes_on_completing_the_log_of_a_new_service(tmp_path: Path) -> None:
    """The service fails in the middle of it: what only this node has kept comes all the same."""
    service = Service()
    log = ServiceRemovalLog(tmp_path / "a", service)
    for number in range(4):
        log.append(entry(number))
    service.keys = keys = KeysInMemory(2)
    swap = keys.swap

    async def failing(key: str, value: bytes, revision: int) -> int | None:
        if len(keys.values) == 2:
            raise ClusterDown("no quorum")
        return await swap(key, value, revision)

    keys.swap = failing  # type: ignore[method-assign]
    with pytest.raises(ClusterDown):
        log.read_after(0)
    keys.swap = swap  # type: ignore[method-assign]
    assert [each for _, each in log.read_after(0)] == list(map(entry, range(4)))
    assert len(keys.values) == 4
