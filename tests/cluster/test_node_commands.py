"""Commands and hand-overs that last: a node goes on meanwhile, and stops when it is told to."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from node_cluster import WAIT_S, free_address, wait_until

from holdfast.archive import Archive
from holdfast.archive.create import init
from holdfast.cluster import node as node_module
from holdfast.cluster.answers import index_service
from holdfast.cluster.answers.index_service import IndexService
from holdfast.cluster.control import send_command
from holdfast.cluster.copies.node_service import CopyService
from holdfast.cluster.copies.service import Copies
from holdfast.cluster.create import create_cluster
from holdfast.cluster.directory import NodeDirectory
from holdfast.cluster.membership.agent import DutyAgent
from holdfast.cluster.membership.duty import Lease, Swap
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.node import ClusterNode, NodeContext
from holdfast.cluster.settings import ClusterSettings
from holdfast.cluster.status import read_table
from holdfast.errors import ClusterDown, UnknownName

PARTITIONS = 64
COMMANDS = 12  # more than a small machine has threads for everything else


class SlowService:
    """Its commands last until the test ends, its hand-overs on request until it is stopped."""

    def __init__(self, _: NodeContext) -> None:
        self.stopped, self.released = threading.Event(), threading.Event()
        self.holds_drains = False
        self.begun = 0
        self.drains = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped.set()

    def in_sync(self) -> frozenset[int]:
        return frozenset(range(PARTITIONS))

    def drain(self, partition: int) -> None:
        with self._lock:
            self.drains += 1
        if self.holds_drains:
            self.stopped.wait(WAIT_S)

    def members_changed(self, members: MemberList) -> None:
        pass

    def notified(self, sender: str, data: bytes) -> None:
        pass

    def status(self) -> dict[str, Any]:
        return {}

    def command(self, command: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.begun += 1
        self.released.wait(WAIT_S)
        return {}


class Running:
    """A node in this process."""

    def __init__(self, path: Path) -> None:
        create_cluster(path, ClusterSettings("test", PARTITIONS, 1, 1, lease_s=1.0), "n1", free_address())
        self.services: list[SlowService] = []
        self.directory = NodeDirectory(path)
        self.node = ClusterNode(self.directory, [self._made])
        self.node.start()
        wait_until(lambda: self.table()["owned"] == PARTITIONS, "it owns everything")

    def _made(self, context: NodeContext) -> SlowService:
        self.services.append(SlowService(context))
        return self.services[-1]

    @property
    def service(self) -> SlowService:
        return self.services[0]

    def table(self) -> dict[str, Any]:
        return read_table(self.directory.path)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "n1")
    try:
        yield running
    finally:
        running.service.stop()
        running.service.released.set()
        running.node.stop()


def test_commands_that_last_hold_up_nothing(running: Running) -> None:
    """The table goes on, other commands respond, and a stop ends all with an error that says so."""
    with ThreadPoolExecutor(COMMANDS) as pool:
        sent = [
            pool.submit(send_command, running.directory.path, {"command": "import"}, WAIT_S) for _ in range(COMMANDS)
        ]
        wait_until(lambda: running.service.begun == COMMANDS, "all have begun")
        for _ in range(2):
            now_s = time.time()
            wait_until(lambda now_s=now_s: running.table()["time"] > now_s, "the table is written")
        send_command(running.directory.path, {"command": "weight", "node": "n1", "weight": 2.0}, WAIT_S)
        assert not any(each.done() for each in sent)
        running.node.stop()
        for each in sent:
            with pytest.raises(ClusterDown, match="was stopped meanwhile"):
                each.result(WAIT_S)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), UnknownName("a node that was forgotten")])
def test_what_fails_once_does_not_end_the_table(
    running: Running, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Else the node would count as cut off for good, and serve nothing."""
    tries = 0

    def fail(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(node_module, "write_table", fail)
        wait_until(lambda: tries, "it fails")
    now_s = time.time()
    wait_until(lambda: running.table()["time"] > now_s, "the table is written again")


def test_copies_begin_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a node that was started with a full disk would hold nothing for as long as it runs."""
    tries = 0
    start = Copies.start

    def fail_once(copies: Copies) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(errno.ENOSPC, "no space left")
        start(copies)

    monkeypatch.setattr(Copies, "start", fail_once)
    create_cluster(tmp_path / "n1", ClusterSettings("test", PARTITIONS, 1, 1, lease_s=1.0), "n1", free_address())
    directory = NodeDirectory(tmp_path / "n1")
    node = ClusterNode(directory, [CopyService])
    node.start()
    try:
        wait_until(lambda: read_table(directory.path)["nodes"][0]["behind"] == 0, "it is in sync")
    finally:
        node.stop()
    assert tries == 2


def test_an_index_is_kept_up_to_date_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    again = threading.Event()

    def fail_once(path: Path, **options: Any) -> Archive:
        opened.append(path)
        if len(opened) == 1:
            raise OSError(errno.EIO, "the disk does not respond")
        again.set()
        return Archive(path, **options)

    init(tmp_path / "n1")
    monkeypatch.setattr(index_service, "Archive", fail_once)
    monkeypatch.setattr(index_service, "_LOOK_S", 0.01)
    monkeypatch.setattr(index_service, "_PAUSE_S", 0.01)
    context: Any = SimpleNamespace(archive=tmp_path / "n1")
    service = IndexService(context)
    service.start()
    try:
        assert again.wait(WAIT_S)
    finally:
        service.stop()


def test_a_hand_over_that_lasts_does_not_keep_the_node_from_stopping(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease ends by itself then: transfers may be under way, so nobody may claim the partitions at once."""
    swaps: list[Swap] = []
    swap, stop = DutyAgent._swap, DutyAgent.stop

    async def noted(agent: DutyAgent, action: Swap) -> None:
        swaps.append(action)
        await swap(agent, action)

    monkeypatch.setattr(DutyAgent, "_swap", noted)
    monkeypatch.setattr(DutyAgent, "stop", lambda agent: stop(agent, 0.5))
    running.service.holds_drains = True
    running.node.stop()
    assert running.service.drains
    assert swaps and not any(isinstance(each.value, Lease) and each.value.revoked for each in swaps)
