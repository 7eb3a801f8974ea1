"""Replicas: copies in k distinct volumes, with one counter, gone together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import holdfast
from holdfast import Archive, ContentKey, StoreMode, StoreOptions, VolumeState
from holdfast.errors import ContentNotFound
from holdfast.storage.volume import BlockFacts

MakeArchive = Callable[..., Archive]
PAGES = [b"<html>page %d</html>" % number for number in range(12)]


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def archive(request: pytest.FixtureRequest, make_archive: MakeArchive) -> Archive:
    return make_archive(4, organization=request.param)


def copies(archive: Archive, key: ContentKey) -> dict[str, BlockFacts]:
    """All blocks with the key's signature, by volume: asked of each volume, not of the instance."""
    found = {}
    for name, volume in archive.instance.volumes.items():
        for facts in volume.probe([key.signature])[0]:
            if (facts.key.home.decode() or name) == key.volume and facts.key.overflow == key.overflow:
                found[name] = facts
    return found


def counters(archive: Archive, key: ContentKey) -> list[int]:
    return [facts.references for facts in copies(archive, key).values()]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_copies_stand_in_distinct_volumes(archive: Archive, count: int) -> None:
    for page in PAGES:
        key = archive.contents.put(page, StoreOptions(replicas=count))
        held = copies(archive, key)
        assert len(held) == count
        assert not held[key.volume].replica
        assert all(facts.replica for name, facts in held.items() if name != key.volume)
        assert set(archive.contents.stat(key).copies) == held.keys() - {key.volume}


def test_counters_are_equal(archive: Archive) -> None:
    options = StoreOptions(replicas=3)
    keys = [archive.contents.put(PAGES[0], options) for _ in range(3)]
    assert counters(archive, keys[0]) == [3, 3, 3]
    assert archive.contents.delete(keys[0]) == 2
    assert counters(archive, keys[0]) == [2, 2, 2]
    archive.contents.put(PAGES[0])  # without asking for replicas
    assert counters(archive, keys[0]) == [3, 3, 3]
    archive.contents.store_batch([PAGES[0], PAGES[1], PAGES[0]], StoreOptions(StoreMode.COMPARE))
    assert counters(archive, keys[0]) == [5, 5, 5]


def test_deleting_removes_all_copies(archive: Archive) -> None:
    key = archive.contents.put(PAGES[0], StoreOptions(replicas=3))
    assert archive.contents.delete(key) == 0
    assert copies(archive, key) == {}
    with pytest.raises(ContentNotFound):
        archive.contents.get(key)
    keys = [each.key for each in archive.contents.store_batch(PAGES, StoreOptions(replicas=2))]
    archive.contents.delete_batch(keys)
    assert [copies(archive, each) for each in keys] == [{}] * len(keys)
    assert [report.stat.replicas for report in archive.volumes() if report.stat] == [0] * 4


def test_a_replica_is_not_a_duplicate_of_its_own(archive: Archive) -> None:
    key = archive.contents.put(PAGES[0], StoreOptions(replicas=4))
    assert archive.contents.put(PAGES[0]) == key
    another = next(name for name in ("v0", "v1") if name != key.volume)
    new = archive.contents.store(PAGES[0], StoreOptions(volume=another))
    assert not new.duplicate
    assert new.key.volume != key.volume
    assert (counters(archive, key), counters(archive, new.key)) == ([2, 2, 2, 2], [1])


def test_replicas_can_be_asked_for_later(archive: Archive) -> None:
    key = archive.contents.put(PAGES[0])
    again = archive.contents.store(PAGES[0], StoreOptions(replicas=3))
    assert (again.key, again.duplicate) == (key, True)
    assert counters(archive, key) == [2, 2, 2]
    archive.contents.put(PAGES[0], StoreOptions(replicas=2))  # fewer than there are: none is taken away
    assert counters(archive, key) == [3, 3, 3]


def test_overflow_blocks_have_replicas_of_their_own(archive: Archive) -> None:
    options = StoreOptions(StoreMode.FORCE_NEW, replicas=2)
    keys = [archive.contents.put(PAGES[0], options) for _ in range(3)]
    assert [len(copies(archive, key)) for key in keys] == [2, 2, 2]
    archive.contents.delete(keys[1])
    assert [len(copies(archive, key)) for key in keys] == [2, 0, 2]
    assert [archive.contents.get(key) for key in (keys[0], keys[2])] == [PAGES[0]] * 2


def test_a_chosen_volume_is_home_and_read_only_volumes_get_no_copies(archive: Archive) -> None:
    archive.set_state("v1", VolumeState.READ_ONLY)
    for page in PAGES:
        key = archive.contents.put(page, StoreOptions(volume="v2", replicas=3))
        assert (key.volume, copies(archive, key).keys()) == ("v2", {"v0", "v2", "v3"})


def test_copies_in_a_read_only_volume_keep_up(archive: Archive) -> None:
    key = archive.contents.put(PAGES[0], StoreOptions(replicas=4))
    archive.set_state("v1" if key.volume != "v1" else "v2", VolumeState.READ_ONLY)
    archive.contents.put(PAGES[0])
    assert counters(archive, key) == [2, 2, 2, 2]
    archive.contents.delete_batch([key, key])
    assert copies(archive, key) == {}


def test_the_archive_may_ask_for_replicas_of_everything(make_archive: MakeArchive) -> None:
    archive = make_archive(3, replicas=2)
    keys = [stored.key for stored in archive.contents.store_batch(PAGES)]
    assert {len(copies(archive, key)) for key in keys} == {2}
    assert len(copies(archive, archive.contents.put(b"just one", StoreOptions(replicas=1)))) == 1


def test_scan_yields_each_content_once(archive: Archive) -> None:
    keys = [stored.key for stored in archive.contents.store_batch(PAGES, StoreOptions(replicas=3))]
    found = [pair for batch in archive.contents.scan() for pair in batch]
    assert sorted(found) == sorted(zip(keys, PAGES, strict=True))


def test_a_content_is_read_from_a_replica_when_its_volume_is_gone(make_archive: MakeArchive) -> None:
    archive = make_archive(3)
    pairs = [(archive.contents.put(page, StoreOptions(replicas=2)), page) for page in PAGES]
    archive.close()
    (archive.path / "volumes" / "v0" / "VOLUME").rename(archive.path / "aside")
    for read_only in (True, False):
        with holdfast.open(archive.path, read_only=read_only) as opened:
            assert list(opened.instance.down) == ["v0"]
            assert [opened.contents.get(key) for key, _ in pairs] == [page for _, page in pairs]
            assert opened.contents.get_batch([key for key, _ in pairs]) == PAGES
