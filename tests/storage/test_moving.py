"""Moving while others delete: no copy outlives its content; one that a kill left alone counts as it did (W8, W13)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, ContentKey, Plan, StoreSettings
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.store.put import StoreOptions
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocations, block_key
from holdfast.storage.volume import MOVING, Adopt, Block, Operation, OperationResult, Recount, Refer

IN_V0 = StoreOptions(volume="v0")
PAUSE_S = 0.2  # in which a deletion would be done, if it did not wait


@pytest.fixture(params=["log", "tree"])
def archive(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Archive]:
    holdfast.init(tmp_path / "archive", Plan(2, request.param, 2))
    with holdfast.open(tmp_path / "archive") as archive:
        yield archive


def stored(archive: Archive) -> ContentKey:
    return archive.contents.put(b"a content", IN_V0)


def blocks(archive: Archive, name: str) -> int:
    return archive.instance.volume(name).stat().blocks


def test_a_content_is_not_deleted_while_its_copy_is_made(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    key, target = stored(archive), archive.instance.writer("v1")
    deleting = threading.Thread(target=archive.contents.delete, args=[key])
    commit = target.commit

    def slow(operations: Sequence[Operation]) -> list[OperationResult]:
        if not any(isinstance(each, Adopt) for each in operations):
            return commit(operations)
        deleting.start()
        deleting.join(PAUSE_S)
        outcomes = commit(operations)
        assert deleting.is_alive() and blocks(archive, "v0") == 1, "if this were a kill, the content would come back"
        return outcomes

    monkeypatch.setattr(target, "commit", slow, raising=False)
    archive.migrate("v0")
    deleting.join()
    assert (blocks(archive, "v0"), blocks(archive, "v1")) == (0, 0)


def test_what_was_deleted_is_not_copied(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    key, target = stored(archive), archive.instance.writer("v1")
    made: list[Operation] = []
    commit = target.commit

    def noted(operations: Sequence[Operation]) -> list[OperationResult]:
        made.extend(operations)
        return commit(operations)

    def choose(_: Block, held: BlockLocations) -> str:
        if held.counted:
            archive.contents.delete(key)
        return "v1"

    monkeypatch.setattr(target, "commit", noted, raising=False)
    mover = Mover(archive.instance, "v0")
    mover.move([block_key(key, "v0")], choose)
    assert (mover.blocks, mover.bytes) == (0, 0)
    assert made == []


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[Archive]:
    holdfast.init(tmp_path / "replicated", Plan(3, store=StoreSettings(replicas=2)))
    with holdfast.open(tmp_path / "replicated") as archive:
        yield archive


class Watched:
    """A deletion by another thread that begins as soon as a replica is about to be made."""

    def __init__(self, archive: Archive, key: ContentKey, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deleting = threading.Thread(target=archive.contents.delete, args=[key])
        self.waited: list[bool] = []  # whether the deletion had to, for each replica that was made
        for name in archive.instance.volumes:
            volume = archive.instance.writer(name)
            monkeypatch.setattr(volume, "commit", partial(self._commit, volume.commit), raising=False)

    def _commit(
        self, commit: Callable[[Sequence[Operation]], list[OperationResult]], operations: Sequence[Operation]
    ) -> list[OperationResult]:
        if any(isinstance(each, Adopt) and each.replica for each in operations):
            if not self.deleting.ident:
                self.deleting.start()
            self.deleting.join(PAUSE_S)
            self.waited.append(self.deleting.is_alive())
        return commit(operations)


def nothing_left(archive: Archive) -> bool:
    return all(blocks(archive, name) == 0 for name in archive.instance.volumes)


def test_a_content_is_not_deleted_while_its_replicas_follow_a_move(
    replicated: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = stored(replicated)
    (replica,) = replicated.contents.stat(key).copies
    watched = Watched(replicated, key, monkeypatch)
    Mover(replicated.instance, "v0").move([block_key(key, "v0")], lambda block, held: replica)
    watched.deleting.join()
    assert watched.waited == [True], "if this were a kill, a replica would be left without its block"
    assert nothing_left(replicated)


def test_a_content_is_not_deleted_while_who_deletes_too_makes_its_replicas_again(
    replicated: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = stored(replicated)
    watched = Watched(replicated, key, monkeypatch)
    withdraw = Replicator.withdraw

    def counted_again(self: Replicator, holdings: list[BlockLocations]) -> set[ContentKey]:
        changed = withdraw(self, holdings)
        if not watched.deleting.ident:
            replicated.instance.writer("v0").commit([Refer(block_key(key, "v0"))])
        return changed

    monkeypatch.setattr(Replicator, "withdraw", counted_again)
    assert replicated.contents.delete(key) == 1
    watched.deleting.join()
    assert watched.waited == [True]
    assert nothing_left(replicated)


def test_a_copy_that_is_left_alone_has_the_counter_of_its_block(archive: Archive) -> None:
    key = stored(archive)
    assert stored(archive) == key
    source, target = archive.instance.writer("v0"), archive.instance.writer("v1")
    (block,) = source.fetch([block_key(key, "v0")])
    assert block is not None
    target.commit([Adopt(block_key(key, "v1"), block.encoded, MOVING + 2, replica=False)])
    source.commit([Recount(block.key, 0, 2)])
    archive.instance.note([key.signature], "v1")
    assert archive.contents.stat(key).references == 2
    assert [stat.references for batch in archive.contents.listing() for stat in batch] == [2]
    assert archive.contents.delete(key) == 1
