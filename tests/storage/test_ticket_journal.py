"""The journal of a tree volume: every commit is durable there first, and applied again after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment, paths
from holdfast.errors import DamagedBlock, HoldfastError, VolumeDown, VolumeFull
from holdfast.storage import block
from holdfast.storage.volume import BlockKey, IdempotencyKey, Operation, Recount, Refer, Release, Store
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry, walk
from holdfast.storage.volumes.organizations import create_volume, find_organization, open_volume, volume_spec
from holdfast.storage.volumes.tree import volume as tree_volume
from holdfast.storage.volumes.tree.volume import TreeVolume
from holdfast.testing.forgetful_files import ForgetfulFiles
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign

pytest_plugins = ["crash_fixtures"]

ONE = b"client-1"
KEY = BlockKey(sign(1))
STORE = Store(sign(1), plain(b"abc"))
SETTINGS = StoreSettings()


class Tree:
    """A tree volume whose process may die at any moment: its directory is copied as it stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        create_volume(path, VolumeSettings("v0", "tree", depth=2), SETTINGS, REAL)
        self.volume = self._open()

    def _open(self) -> TreeVolume:
        volume = open_volume("v0", self.path, SETTINGS, REAL)
        assert isinstance(volume, TreeVolume)
        return volume

    def die(self) -> TreeVolume:
        self.path = self.path.with_name(self.path.name + "x")
        shutil.copytree(self.volume.directory, self.path)
        self.volume.close()
        self.volume = self._open()
        return self.volume

    @property
    def journal(self) -> Path:
        return self.path / paths.REDO

    def faults(self) -> list[object]:
        return list(find_organization("tree").check(volume_spec("v0", self.path, SETTINGS, REAL), CheckProgress()))

    def kinds(self) -> list[str]:
        """Of the entries in the journal."""
        file = REAL.files.open(self.journal)
        steps = list(walk(file, self.volume.identity.uid, SEGMENT_HEADER_BYTES, file.size()))
        return [step.header.kind.decode() for step in steps if isinstance(step, SegmentEntry)]


@pytest.fixture
def tree(quick: Path) -> Iterator[Tree]:
    tree = Tree(quick)
    yield tree
    tree.volume.close()


def test_the_journal_has_what_a_commit_changes_and_its_ticket(tree: Tree) -> None:
    tree.volume.commit(
        [STORE, Refer(KEY), Store(sign(2), plain(b"x")), Release(BlockKey(sign(2)))], IdempotencyKey(ONE, 1)
    )
    raw = tree.journal.read_bytes()
    assert raw.startswith(b"HOLDFAST-SEGMENT/1 " + tree.volume.identity.uid + b"\nsegment 00000001 generation 000000 ")
    assert tree.kinds() == ["state", "state", "block", "count", "block", "count", "ticket"]
    states = [block.parse(raw[at:]) for at in (SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + 320)]
    facts = [(header.serial, header.after, header.references) for header in states if header is not None]
    assert [facts[0][2], facts[1][2], facts[1][0] - facts[0][0], facts[1][1]] == [0, 5, 1, facts[0][0]]
    tree.volume.void(IdempotencyKey(ONE, 2))
    last = block.parse(tree.journal.read_bytes()[-329:])
    assert last is not None
    assert (last.kind, last.signature) == (b"ticket", b"client-1" + bytes(7) + b"\2")


def test_a_closed_volume_has_only_the_tickets_in_its_journal(tree: Tree) -> None:
    tree.volume.commit([STORE], IdempotencyKey(ONE, 1))
    tree.volume.commit([Refer(KEY)])
    assert tree.kinds() == ["state", "state", "block", "ticket", "state", "count"]
    tree.volume.close()
    assert tree.kinds() == ["state", "ticket"]
    tree.volume = tree._open()


def test_what_was_promised_is_done_at_the_next_opening(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure in the middle closes the volume, since nobody could tell what the files say now."""
    perform(tree.volume, STORE)
    operations: list[Operation] = [Refer(KEY), Store(sign(2), plain(b"two")), Refer(KEY), Refer(BlockKey(sign(2)))]
    publish = tree.volume._publish

    def full(path: Path, change: object) -> None:
        raise VolumeFull("no space left")

    monkeypatch.setattr(tree.volume, "_publish", full)
    with pytest.raises(VolumeFull):
        tree.volume.commit(operations, IdempotencyKey(ONE, 1))
    monkeypatch.setattr(tree.volume, "_publish", publish)
    for operation in (Refer(KEY), Store(sign(3), plain(b"x"))):
        with pytest.raises(VolumeDown, match="open the archive again"):
            perform(tree.volume, operation)
    with pytest.raises(VolumeDown, match="open the archive again"):
        tree.volume.void(IdempotencyKey(ONE, 1))
    for _ in range(3):
        tree.die()
        assert (fetched(tree.volume, KEY), fetched(tree.volume, BlockKey(sign(2)))) == ((b"abc", 3), (b"two", 2))
    assert [outcome.references for outcome in tree.volume.commit([], IdempotencyKey(ONE, 1))] == [2, 1, 3, 2]
    assert tree.faults() == []


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([Refer(KEY)], (b"abc", 3)),
        ([Release(KEY)], (b"abc", 1)),
        ([Recount(KEY, 0)], None),
        ([Recount(KEY, 0), Store(sign(1), plain(b"new"), references=7)], (b"new", 7)),
    ],
)
def test_what_came_after_a_promise_is_not_undone(
    tree: Tree, between: list[Operation], expected: tuple[bytes, int] | None
) -> None:
    for compact in (False, True):
        idempotency_key = IdempotencyKey(ONE, 1 + compact)
        tree.volume.commit([Recount(KEY, 0), STORE, Refer(KEY)], idempotency_key)
        if compact:
            tree.volume.compact(None)
        tree.volume.commit(between)
        tree.die()
        assert fetched(tree.volume, KEY) == expected
        tree.die()
        assert fetched(tree.volume, KEY) == expected
        tree.volume.commit([], idempotency_key)
        assert fetched(tree.volume, KEY) == expected


def test_folding_does_not_make_the_journal_wrong(tree: Tree) -> None:
    tree.volume.commit([STORE, Refer(KEY)], IdempotencyKey(ONE, 1))
    tree.volume.compact(None)
    tree.die()
    assert fetched(tree.volume, KEY) == (b"abc", 2)


def test_a_long_journal_is_written_anew(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_volume.TreeVolume, "journal_bytes_max", 20_000)
    for number in range(1, 120):
        tree.volume.commit([STORE], IdempotencyKey(ONE, number, max(0, number - 3)))
        assert tree.journal.stat().st_size < 23_000
    assert fetched(tree.volume, KEY) == (b"abc", 119)
    tree.die()
    assert fetched(tree.volume, KEY) == (b"abc", 119)
    assert [tree.volume.commit([STORE], IdempotencyKey(ONE, number))[0].references for number in (117, 118, 119)] == [
        117,
        118,
        119,
    ]
    assert fetched(tree.volume, KEY) == (b"abc", 119)


def test_what_is_torn_was_never_promised(tree: Tree) -> None:
    tree.volume.commit([STORE], IdempotencyKey(ONE, 1))
    before = tree.journal.stat().st_size
    untouched = tree.path.with_name("untouched")
    shutil.copytree(tree.path, untouched)
    tree.volume.commit([Refer(KEY), Store(sign(2), plain(b"two"))], IdempotencyKey(ONE, 2))
    whole = tree.journal.read_bytes()
    for length in range(before, len(whole), 97):
        path = tree.path.with_name(f"torn{length}")
        shutil.copytree(untouched, path)
        (path / paths.REDO).write_bytes(whole[:length])
        volume = open_volume("v0", path, SETTINGS, REAL)
        assert scanned(volume) == [(KEY, b"abc", 1)]
        assert volume.commit([Refer(KEY)], IdempotencyKey(ONE, 2))[0].references == 2
        volume.close()


def test_a_damaged_journal_is_reported_and_repaired(tree: Tree) -> None:
    for number in range(1, 7):
        tree.volume.commit([STORE], IdempotencyKey(ONE, number))
    tree.volume.close()
    raw = bytearray(tree.journal.read_bytes())
    raw[raw.index(b"HOLDFAST/1 ticket", 2000) + 300] ^= 1
    tree.journal.write_bytes(raw)
    with pytest.raises(DamagedBlock, match="run 'holdfast check --repair'"):
        open_volume("v0", tree.path, SETTINGS, REAL)
    assert len(tree.faults()) == 1
    find_organization("tree").repair(volume_spec("v0", tree.path, SETTINGS, REAL))
    assert tree.faults() == []
    tree.volume = tree._open()
    known = [number for number in range(1, 7) if tree.volume.commit([], IdempotencyKey(ONE, number))]
    assert len(known) == 5
    assert fetched(tree.volume, KEY) == (b"abc", 6)


def test_without_space_nothing_happens(quick: Path) -> None:
    """New blocks need some space to spare; counters do not, so that blocks can be removed."""
    files = ForgetfulFiles()
    env = Environment(files=files)
    create_volume(quick, VolumeSettings("v0", "tree"), SETTINGS, env)
    volume = open_volume("v0", quick, SETTINGS, env)
    volume.commit([STORE], IdempotencyKey(ONE, 1))
    other = Store(sign(2), plain(b"two"))
    files.capacity = 60_000
    results = volume.commit_all([([other, Refer(KEY)], IdempotencyKey(ONE, 2)), ([STORE], IdempotencyKey(ONE, 1))])
    assert all(isinstance(result, VolumeFull) for result in results)
    assert perform(volume, Refer(KEY)).references == 2
    files.capacity = None
    assert [each.references for each in volume.commit([other, Refer(KEY)], IdempotencyKey(ONE, 2))] == [1, 3]
    assert volume.commit([STORE], IdempotencyKey(ONE, 1))[0].references == 1
    volume.close()


@pytest.mark.parametrize("failing", range(1, 7))
def test_after_a_failed_sync_a_ticket_may_be_handed_in_again(quick: Path, failing: int) -> None:
    """Of the journal: the commit has not happened. Of a block file: it will have, at the next opening."""
    files = ForgetfulFiles()
    env = Environment(files=files)
    create_volume(quick, VolumeSettings("v0", "tree"), SETTINGS, env)
    volume = open_volume("v0", quick, SETTINGS, env)
    volume.commit([STORE], IdempotencyKey(ONE, 1))
    files.fail_sync_at = files.syncs + failing
    commits = [([Refer(KEY)], IdempotencyKey(ONE, number)) for number in (2, 3, 4)]
    answers = [volume.commit_all([commit])[0] for commit in commits]
    assert any(isinstance(answer, HoldfastError) for answer in answers)
    files.fail_sync_at = None
    volume.close()
    volume = open_volume("v0", quick, SETTINGS, env)
    again = [volume.commit(*commit) for commit in commits]
    for first, second in zip(answers, again, strict=True):
        assert isinstance(first, HoldfastError) or first == second
    assert sorted(outcome.references for (outcome,) in again) == [2, 3, 4]
    assert fetched(volume, KEY) == (b"abc", 4)
    volume.close()
