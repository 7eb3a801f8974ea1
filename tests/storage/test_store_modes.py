"""Storing into a whole archive: modes, volumes, duplicates across volumes, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, ContentKey, StoreMode, StoreOptions, VolumeSettings, VolumeState
from holdfast.errors import (
    ContentNotFound,
    Denied,
    HoldfastError,
    TooLarge,
    UnknownName,
    UsageError,
    VolumeReadOnly,
)
from holdfast.storage.signature import SHA256

MakeArchive = Callable[..., Archive]
COMPARE, FORCE_NEW = StoreOptions(StoreMode.COMPARE), StoreOptions(StoreMode.FORCE_NEW)
PAGES = [b"<html>page %d</html>" % number for number in range(60)]


@pytest.fixture(params=["log", "tree"])
def organization(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def blocks(archive: Archive) -> dict[str, int]:
    """Blocks per volume."""
    return {report.settings.name: report.stat.blocks for report in archive.volumes() if report.stat}


def snapshot(path: Path) -> dict[str, bytes]:
    """Every byte that counts: all but the lock and what is derived."""
    skipped = ("keydir", "writer.lock", "filters")
    files = [file for file in path.rglob("*") if file.is_file() and not set(file.parts) & set(skipped)]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


# -- modes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [StoreMode.REGULAR, StoreMode.COMPARE])
def test_a_duplicate_is_one_more_reference(make_archive: MakeArchive, organization: str, mode: StoreMode) -> None:
    contents = make_archive(2, organization=organization).contents
    first = contents.store(b"hello", StoreOptions(mode))
    again = contents.store(b"hello", StoreOptions(mode))
    assert (first.duplicate, first.references, first.size) == (False, 1, 5)
    assert (again.duplicate, again.references, again.size) == (True, 2, 5)
    assert first.key == again.key == ContentKey(first.key.volume, SHA256.digest(b"hello"))
    assert first.stored_size == again.stored_size
    assert contents.get(first.key) == b"hello"
    assert contents.stat(first.key).references == 2


def test_force_new_makes_a_new_block_each_time(make_archive: MakeArchive, organization: str) -> None:
    contents = make_archive(2, organization=organization).contents
    stored = [contents.store(b"hello", FORCE_NEW) for _ in range(3)]
    assert [str(each.key)[-2:] for each in stored[1:]] == ["~1", "~2"]
    assert not any(each.duplicate for each in stored)
    assert [contents.get(each.key) for each in stored] == [b"hello"] * 3
    assert contents.delete(stored[0].key) == 0
    assert [contents.stat(each.key).references for each in stored[1:]] == [1, 1]
    assert contents.store(b"hello").key in [each.key for each in stored[1:]]


def test_deleting_takes_references_away_until_the_content_is_gone(make_archive: MakeArchive, organization: str) -> None:
    contents = make_archive(2, organization=organization).contents
    keys = [contents.put(b"hello") for _ in range(3)]
    assert [contents.delete(key) for key in keys] == [2, 1, 0]
    for ask in (contents.get, contents.stat, contents.delete):
        with pytest.raises(ContentNotFound, match=str(keys[0])):
            ask(keys[0])
    assert not contents.store(b"hello").duplicate


def test_equal_contents_of_a_batch_are_duplicates_of_each_other(make_archive: MakeArchive, organization: str) -> None:
    contents = make_archive(3, organization=organization).contents
    batch = [b"a", b"b", b"a", b"", b"a", b""]
    for options, expected in ((StoreOptions(), 0), (COMPARE, 3)):
        stored = contents.store_batch(batch, options)
        references = {content: contents.stat(each.key).references for content, each in zip(batch, stored, strict=True)}
        assert references == {b"a": 3 + expected, b"b": 1 + expected // 3, b"": 2 + expected * 2 // 3}
        assert contents.get_batch([each.key for each in stored]) == batch
    assert len({each.key for each in contents.store_batch(batch, FORCE_NEW)}) == len(batch)


def test_empty_batches(make_archive: MakeArchive) -> None:
    contents = make_archive().contents
    assert (contents.store_batch([]), contents.get_batch([]), contents.delete_batch([])) == ([], [], [])
    assert list(contents.scan()) == []


def test_any_buffer_can_be_stored(make_archive: MakeArchive) -> None:
    contents = make_archive().contents
    keys = {contents.put(kind(b"hello" * 100)) for kind in (bytes, bytearray, memoryview)}
    assert [contents.get(key) for key in keys] == [b"hello" * 100]


def test_deleting_a_batch_with_an_unknown_key_deletes_nothing(make_archive: MakeArchive, organization: str) -> None:
    archive = make_archive(2, organization=organization)
    contents = archive.contents
    keys = [stored.key for stored in contents.store_batch(PAGES[:4])]
    before = snapshot(archive.path)
    unknown = ContentKey("v0", SHA256.digest(b"unknown"))
    for batch in ([*keys, unknown], [keys[0], keys[0]]):
        with pytest.raises(ContentNotFound):
            contents.delete_batch(batch)
    assert snapshot(archive.path) == before
    assert contents.delete_batch([*keys]) == [0, 0, 0, 0]


def test_threads_store_the_same_contents(make_archive: MakeArchive, organization: str) -> None:
    contents = make_archive(3, organization=organization).contents

    def work(number: int) -> list[ContentKey]:
        options = COMPARE if number % 2 else StoreOptions()
        return [contents.put(page, options) for page in PAGES[:20]]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    assert all(keys == results[0] for keys in results)
    assert [contents.stat(key).references for key in results[0]] == [8] * 20


# -- volumes -----------------------------------------------------------------------------------------------------------


def test_contents_go_where_the_modulus_says(make_archive: MakeArchive) -> None:
    contents = make_archive(3).contents
    for page in PAGES:
        home = int.from_bytes(SHA256.digest(page), "big") % 3
        assert contents.put(page).volume == f"v{home}"


def test_the_caller_may_choose_the_volume(make_archive: MakeArchive, organization: str) -> None:
    archive = make_archive(3, organization=organization)
    for name in ("v2", "v0"):
        stored = [archive.contents.store(page, StoreOptions(volume=name)) for page in PAGES[:6]]
        assert {each.key.volume for each in stored} == {name}
        assert not any(each.duplicate for each in stored), "only the chosen volume is asked"
        again = [archive.contents.store(page, StoreOptions(volume=name)) for page in PAGES[:6]]
        assert [each.key for each in again] == [each.key for each in stored]
        assert all(each.duplicate for each in again)
    assert blocks(archive) == {"v0": 6, "v1": 0, "v2": 6}


def test_a_content_in_any_writable_volume_is_a_duplicate(make_archive: MakeArchive, organization: str) -> None:
    archive = make_archive(4, organization=organization)
    for number, page in enumerate(PAGES):
        archive.contents.put(page, StoreOptions(volume=f"v{number % 4}"))
    before = blocks(archive)
    for options in (StoreOptions(), COMPARE):
        stored = archive.contents.store_batch(PAGES, options)
        assert [each.key.volume for each in stored] == [f"v{number % 4}" for number in range(len(PAGES))]
        assert all(each.duplicate for each in stored)
    assert blocks(archive) == before


def test_added_volumes_take_new_contents_and_old_ones_stay_duplicates(make_archive: MakeArchive) -> None:
    archive = make_archive(1)
    archive.contents.store_batch(PAGES[:30])
    archive.add_volume(VolumeSettings("new-tree", "tree", depth=2))
    archive.add_volume(VolumeSettings("elsewhere", path="disk2/elsewhere"))
    assert {each.key.volume for each in archive.contents.store_batch(PAGES[:30])} == {"v0"}
    new = archive.contents.store_batch(PAGES[30:])
    assert {each.key.volume for each in new} == {"v0", "new-tree", "elsewhere"}
    archive.close()
    assert (archive.path / "disk2" / "elsewhere" / "VOLUME").exists()
    with holdfast.open(archive.path) as archive:
        stored = archive.contents.store_batch(PAGES)
        assert all(each.duplicate for each in stored)
        assert [each.references for each in stored] == [3] * 30 + [2] * 30
        assert archive.contents.get_batch([each.key for each in stored]) == PAGES


def test_volumes_are_added_while_threads_store(make_archive: MakeArchive) -> None:
    archive = make_archive(2)
    pages = [b"thread page %d" % number for number in range(400)]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(archive.contents.put, page) for page in pages]
        for number in range(2, 6):
            archive.add_volume(VolumeSettings(f"v{number}", "tree" if number % 2 else "log"))
        keys = [future.result() for future in futures]
    assert archive.contents.get_batch(keys) == pages
    assert [each.key for each in archive.contents.store_batch(pages)] == keys


def test_weights_may_change_and_duplicates_are_still_found(make_archive: MakeArchive) -> None:
    archive = make_archive(3, placement="weighted")
    keys = [each.key for each in archive.contents.store_batch(PAGES)]
    assert {key.volume for key in keys} == {"v0", "v1", "v2"}
    archive.close()
    settings = archive.path / "holdfast.toml"
    settings.write_text(settings.read_text().replace('name = "v1"\n', 'name = "v1"\nweight = 0\n'))
    with holdfast.open(archive.path) as archive:
        assert [each.key for each in archive.contents.store_batch(PAGES)] == keys
        new = archive.contents.store_batch([page + b" again" for page in PAGES])
        assert {each.key.volume for each in new} == {"v0", "v2"}


def test_contents_of_a_read_only_volume_are_counted_there(make_archive: MakeArchive, organization: str) -> None:
    archive = make_archive(2, organization=organization)
    keys = [stored.key for stored in archive.contents.store_batch(PAGES)]
    archive.set_state("v0", VolumeState.READ_ONLY)
    before = blocks(archive)
    for mode in (StoreMode.REGULAR, StoreMode.COMPARE):
        assert [stored.key for stored in archive.contents.store_batch(PAGES, StoreOptions(mode))] == keys
    assert blocks(archive) == before
    assert {archive.contents.stat(key).references for key in keys} == {3}
    assert "v0" in {key.volume for key in keys}


def test_a_read_only_volume_gets_nothing_new(make_archive: MakeArchive, organization: str) -> None:
    archive = make_archive(2, organization=organization)
    old = archive.contents.store_batch(PAGES[:20])
    archive.set_state("v0", VolumeState.READ_ONLY)
    before = blocks(archive)["v0"]
    assert {each.key.volume for each in archive.contents.store_batch(PAGES[20:])} == {"v1"}
    with pytest.raises(VolumeReadOnly, match="volume 'v0' is read-only"):
        archive.contents.put(b"new", StoreOptions(volume="v0"))
    assert blocks(archive)["v0"] == before
    assert archive.contents.get_batch([each.key for each in old]) == PAGES[:20]
    in_v0 = [each.key for each in old if each.key.volume == "v0"]
    assert [archive.contents.delete(key) for key in in_v0] == [0] * len(in_v0), "deleting is possible in both states"
    archive.close()
    with holdfast.open(archive.path) as archive:
        assert archive.settings.volume[0].state is VolumeState.READ_ONLY
        archive.set_state("v0", VolumeState.WRITABLE)
        assert archive.contents.put(b"new", StoreOptions(volume="v0")).volume == "v0"


def test_no_writable_volume(make_archive: MakeArchive) -> None:
    archive = make_archive(1)
    key = archive.contents.put(b"hello")
    archive.set_state("v0", VolumeState.READ_ONLY)
    with pytest.raises(VolumeReadOnly, match="no writable volume"):
        archive.contents.put(b"hello")
    assert archive.contents.get(key) == b"hello"


# -- migration ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["log", "tree"])
def test_contents_keep_their_keys_when_they_move(make_archive: MakeArchive, organization: str, target: str) -> None:
    archive = make_archive(2, organization=organization)
    keys = [each.key for each in archive.contents.store_batch([*PAGES, *PAGES[:9]])][: len(PAGES)]
    archive.add_volume(VolumeSettings("new", target))
    moved = archive.migrate("v0", ["new"])
    assert moved.blocks == sum(key.volume == "v0" for key in keys)
    for _ in range(2):
        assert archive.contents.get_batch(keys) == PAGES
        assert [archive.contents.stat(key).references for key in keys] == [2] * 9 + [1] * (len(PAGES) - 9)
        assert blocks(archive)["v0"] == 0
        archive.close()
        archive = holdfast.open(archive.path)
    with holdfast.open(archive.path, read_only=True) as reader:
        assert reader.contents.get_batch(keys) == PAGES
    again = archive.contents.store_batch(PAGES)
    assert ([each.key for each in again], all(each.duplicate for each in again)) == (keys, True)
    assert archive.migrate("v0", ["new"]).blocks == 0
    archive.contents.delete_batch([*keys, *keys, *keys[:9]])
    assert sum(blocks(archive).values()) == 0
    archive.close()


def test_contents_move_there_and_back(make_archive: MakeArchive) -> None:
    archive = make_archive(2)
    keys = [each.key for each in archive.contents.store_batch(PAGES, StoreOptions(replicas=2))]
    for source, target in [("v0", "v1"), ("v1", "v0"), ("v0", "v1")]:
        archive.set_state(target, VolumeState.WRITABLE)
        archive.migrate(source, [target])
        assert archive.contents.get_batch(keys) == PAGES
        assert blocks(archive) == {source: 0, target: len(PAGES)}


def test_reading_storing_and_deleting_go_on_during_a_migration(make_archive: MakeArchive) -> None:
    archive = make_archive(3, segment_bytes_max=4096)
    contents = archive.contents
    pages = [b"page %d " % number * 20 for number in range(300)]
    keys = [each.key for each in contents.store_batch(pages)]
    contents.store_batch(pages)
    moving = threading.Event()

    def delete(offset: int) -> None:
        moving.wait(30)
        for key in keys[offset::6]:
            contents.delete(key)

    def read(offset: int) -> None:
        moving.wait(30)
        for page, key in zip(pages[offset::6], keys[offset::6], strict=True):
            assert contents.get(key) == page

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(work, offset) for offset, work in enumerate([delete, delete, read, read, delete, read])]
        archive.migrate("v0", progress=lambda size: moving.set())
        moving.set()
        for future in futures:
            future.result()
    assert blocks(archive)["v0"] == 0
    assert contents.get_batch(keys) == pages
    references = [1 if number % 6 in (0, 1, 4) else 2 for number in range(300)]
    assert [contents.stat(key).references for key in keys] == references


@pytest.mark.parametrize(
    ("name", "targets", "error"),
    [("v9", [], UnknownName), ("v0", ["v9"], UnknownName), ("v0", ["v0"], UsageError), ("v0", ["v1"], VolumeReadOnly)],
)
def test_a_migration_that_cannot_be_changes_nothing(
    make_archive: MakeArchive, name: str, targets: list[str], error: type[HoldfastError]
) -> None:
    archive = make_archive(2)
    archive.contents.store_batch(PAGES)
    archive.set_state("v1", VolumeState.READ_ONLY)
    before = snapshot(archive.path)
    with pytest.raises(error):
        archive.migrate(name, targets)
    with pytest.raises(UsageError, match="no other volume is writable"):
        archive.migrate("v0")
    assert snapshot(archive.path) == before


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (StoreOptions(codec="nonsense"), UnknownName, "unknown codec 'nonsense'"),
        (StoreOptions(StoreMode.FORCE_NEW, codec="zstd-dict"), UsageError, "has no dictionary"),
        (StoreOptions(volume="v9"), UnknownName, "unknown volume 'v9': known are v0, v1"),
        (StoreOptions(replicas=3), UsageError, "3 replicas need 3 writable volumes, there are 2"),
        (StoreOptions(replicas=0), UsageError, "bad number of replicas 0"),
    ],
)
def test_bad_options_change_nothing(
    make_archive: MakeArchive, options: StoreOptions, error: type[HoldfastError], message: str
) -> None:
    archive = make_archive(2)
    archive.contents.put(b"hello")
    before = snapshot(archive.path)
    for batch in ([b"new"], [b"hello", b"new"], [b"hello"] * 3):
        with pytest.raises(error, match=message):
            archive.contents.store_batch(batch, options)
    assert snapshot(archive.path) == before


def test_a_content_that_is_too_large_changes_nothing(make_archive: MakeArchive) -> None:
    archive = make_archive(2, content_bytes_max=100)
    archive.contents.put(bytes(100))
    before = snapshot(archive.path)
    with pytest.raises(TooLarge, match=r"101 bytes is over the limit of 100 \(store.content_bytes_max\)"):
        archive.contents.store_batch([b"fits", bytes(101)])
    assert snapshot(archive.path) == before


def test_a_reader_cannot_write(make_archive: MakeArchive) -> None:
    archive = make_archive(2)
    key = archive.contents.put(b"hello")
    before = snapshot(archive.path)
    with holdfast.open(archive.path, read_only=True) as reader:
        assert reader.contents.get(key) == b"hello"
        with pytest.raises(Denied):
            reader.contents.put(b"new")
        with pytest.raises(Denied):
            reader.contents.delete(key)
        with pytest.raises(Denied):
            reader.add_volume(VolumeSettings("v2"))
        with pytest.raises(Denied):
            reader.set_state("v0", VolumeState.READ_ONLY)
        with pytest.raises(Denied):
            reader.compact("v0")
        with pytest.raises(Denied):
            reader.migrate("v0")
    assert snapshot(archive.path) == before


def test_a_key_of_an_unknown_volume(make_archive: MakeArchive) -> None:
    contents = make_archive(2).contents
    key = ContentKey("v9", SHA256.digest(b"hello"))
    for ask in (contents.get, contents.stat, contents.delete):
        with pytest.raises(UnknownName, match="unknown volume 'v9'"):
            ask(key)


@pytest.mark.parametrize("text", ["v0:ab", "v0:" + "00" * 31, "v0:" + "00" * 32 + "~7"])
def test_a_key_that_no_content_has(make_archive: MakeArchive, organization: str, text: str) -> None:
    contents = make_archive(2, organization=organization).contents
    contents.store_batch(PAGES)
    for ask in (contents.get, contents.stat, contents.delete):
        with pytest.raises(ContentNotFound):
            ask(ContentKey.parse(text))


def test_bad_volumes_cannot_be_added(make_archive: MakeArchive) -> None:
    archive = make_archive(1)
    before = snapshot(archive.path)
    for volume, error in [
        (VolumeSettings("v0"), UsageError),
        (VolumeSettings("Big"), UsageError),
        (VolumeSettings("v1", "heap"), UnknownName),
        (VolumeSettings("v1", "tree", depth=0), UsageError),
        (VolumeSettings("v1", "tree", depth=9), UsageError),
    ]:
        with pytest.raises(error):
            archive.add_volume(volume)
    with pytest.raises(UnknownName):
        archive.set_state("v9", VolumeState.READ_ONLY)
    assert snapshot(archive.path) == before


def test_closing_twice_does_no_harm(make_archive: MakeArchive) -> None:
    archive = make_archive(2)
    archive.contents.put(b"hello")
    archive.close()
    archive.close()
