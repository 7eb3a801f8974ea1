"""How a volume server makes commits durable together (W11)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from waiting import wait_until

from holdfast.errors import VolumeDown
from holdfast.storage.server.committer import Commit, Committer
from holdfast.storage.volume import BlockKey, Effect, IdempotencyKey, OperationResult, Release

RESULT = OperationResult(Effect.COUNTED, BlockKey(b"s" * 32), 1, 100)


class Volume:
    """Remembers which commits came together, and on which thread. Also the service that offers it."""

    def __init__(self) -> None:
        self.volume = self
        self.groups: list[list[int]] = []
        self.threads: set[threading.Thread] = set()
        self.gate = threading.Event()
        self.gate.set()

    def commit_all(self, commits: list[tuple[Any, IdempotencyKey]]) -> list[Any]:
        self.groups.append([key.sequence for _, key in commits])
        self.threads.add(threading.current_thread())
        assert self.gate.wait(60)
        return [[RESULT] for _ in commits]

    def void(self, idempotency_key: IdempotencyKey) -> None:
        raise VolumeDown("it refuses")

    def note(self, results: Any) -> None:
        pass


class Connection:
    """Remembers the responses."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def finish(self, frame: bytes, size: int) -> None:
        self.frames.append(frame)


def commit(connection: Connection, sequence: int, *, void: bool = False) -> Commit:
    key = IdempotencyKey(b"a client", sequence, 0)
    operations = None if void else [Release(RESULT.key)]
    return Commit(connection, sequence, 10, key, operations)  # type: ignore[arg-type]


def run(play: Callable[[Volume, Committer], Any], *, may_hold_loop: Callable[[], bool]) -> Volume:
    """Lets `play` submit commits on an event loop, and closes the committer after it."""
    volume = Volume()

    async def playing() -> None:
        loop = asyncio.get_running_loop()
        committer = Committer(volume, loop, may_hold_loop)  # type: ignore[arg-type]
        try:
            await play(volume, committer)
        finally:
            volume.gate.set()
            await loop.run_in_executor(None, committer.close)

    asyncio.run(playing())
    return volume


def test_commits_of_one_turn_are_made_durable_together_on_the_event_loop() -> None:
    some, other = Connection(), Connection()

    async def play(volume: Volume, committer: Committer) -> None:
        committer.submit(commit(some, 1))
        committer.submit(commit(other, 2))
        committer.submit(commit(some, 3, void=True))
        assert volume.groups == []  # other connections may have more
        await asyncio.sleep(0)
        assert (len(some.frames), len(other.frames)) == (2, 1)
        committer.submit(commit(other, 4))
        committer.flush()  # a connection that is about to be closed does not wait
        assert len(other.frames) == 2
        await asyncio.sleep(0)

    volume = run(play, may_hold_loop=lambda: True)
    assert volume.groups == [[1, 2], [4]]
    assert volume.threads == {threading.main_thread()}


@pytest.mark.parametrize("is_free_again", [True, False])
def test_while_others_read_a_thread_commits_and_later_commits_wait_for_it(is_free_again: bool) -> None:
    connection = Connection()
    is_free = False

    async def play(volume: Volume, committer: Committer) -> None:
        nonlocal is_free
        volume.gate.clear()
        committer.submit(commit(connection, 1))
        await asyncio.sleep(0)  # the event loop goes on
        await asyncio.to_thread(wait_until, lambda: volume.groups, "the thread commits")
        is_free = is_free_again
        for sequence in (2, 3):
            committer.submit(commit(connection, sequence))
            await asyncio.sleep(0)
        assert (volume.groups, connection.frames) == ([[1]], [])
        volume.gate.set()
        while len(connection.frames) < 3:
            await asyncio.sleep(0)

    volume = run(play, may_hold_loop=lambda: is_free)
    assert [number for group in volume.groups for number in group] == [1, 2, 3]
    assert [thread.name for thread in volume.threads] == ["committer"]
