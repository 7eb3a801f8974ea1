"""Healing (N13): a block that was found damaged gets sound bytes from the next copy of its content.

It keeps its counter.

In every organization: a byte of a block is flipped, the damage is met, and the content comes again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast import Archive, CheckOptions, ContentKey, Plan, StoreMode, StoreOptions, StoreSettings, VolumeState
from holdfast.errors import ContentNotFound, Damaged, DamagedBlock
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.damage import DAMAGED_MAX, KnownDamage

HEADER_BYTES, HEX_AT = 320, 87  # of a block's header; where the signature stands in it
PAGE = b"<p>the page that comes to harm</p>" * 30
OTHERS = [b"<p>page %d</p>" % number * 40 for number in range(12)]
LARGE = bytes(range(256)) * 400  # more than a bucket of a hash volume holds

REFERENCES_OF_OTHERS = len(OTHERS) + 5

Meet = Callable[[Path, ContentKey], None]


@pytest.fixture(params=["log", "tree", "hash", "hashed-log"])
def organization(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def found_at(path: Path, key: ContentKey) -> tuple[Path, int]:
    """The file in which the block of a content stands, and where."""
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.suffix != ".sst" and "keydir" not in file.parts and file.name != "redo":
            raw = file.read_bytes()
            at = raw.find(key.signature.hex().encode())
            while at >= 0:
                if raw[at - HEX_AT : at - HEX_AT + 16] in (b"HOLDFAST/1 block", b"HOLDFAST/1 repli"):
                    return file, at - HEX_AT
                at = raw.find(key.signature.hex().encode(), at + 1)
    raise AssertionError(f"no block of {key} in '{path}'")


def flip(path: Path, key: ContentKey, place: int = HEADER_BYTES + 3) -> None:
    file, start = found_at(path, key)
    with file.open("r+b") as handle:
        handle.seek(start + place)
        byte = handle.read(1)[0]
        handle.seek(start + place)
        handle.write(bytes([byte ^ 1]))


def a_harmed_archive(path: Path, organization: str, content: bytes = PAGE, place: int = HEADER_BYTES + 3) -> ContentKey:
    """An archive in which one content has three references and a flipped byte."""
    holdfast.init(path, Plan(1, organization, store=StoreSettings(codec="none", segment_bytes_max=1 << 16)))
    with holdfast.open(path) as archive:
        archive.contents.store_batch(OTHERS)
        key, _, _ = (archive.contents.put(content) for _ in range(3))
        archive.contents.store_batch(OTHERS[:5])
    flip(path, key, place)
    return key


def by_read(path: Path, key: ContentKey) -> None:
    with holdfast.open(path, read_only=True) as reader, pytest.raises(DamagedBlock):
        reader.contents.get(key)


def by_bulk_read(path: Path, key: ContentKey) -> None:
    with holdfast.open(path, read_only=True) as reader:
        (found,) = reader.contents.get_buffers([str(key)])
        assert isinstance(found, DamagedBlock)


def by_check(path: Path, key: ContentKey) -> None:
    assert key in {fault.key for fault in holdfast.check(path).faults}


def by_scan(path: Path, key: ContentKey) -> None:
    with holdfast.open(path, read_only=True) as reader:
        assert key not in {found for batch in reader.contents.scan() for found, _ in batch}


MEETINGS = [by_read, by_bulk_read, by_check, by_scan]


def events(path: Path) -> list[dict[str, object]]:
    with suppress(FileNotFoundError):
        return [json.loads(line) for line in (path / "audit.log").read_text().splitlines()]
    return []


def known_damage(path: Path, volume: str = "v0") -> set[str]:
    directory = path / "volumes" / volume / "damaged"
    return {each.name for each in directory.iterdir()} if directory.exists() else set()


def assert_sound(
    path: Path, references: dict[ContentKey, int], contents: dict[ContentKey, bytes], others: int = REFERENCES_OF_OTHERS
) -> None:
    """By readers, by the writer, by a check; now, after a compaction, and with a keydir made from the segments."""
    for round_ in range(3):
        assert holdfast.check(path, CheckOptions(deep=True)).faults == []
        with holdfast.open(path, read_only=True) as reader:
            assert {key: reader.contents.get(key) for key in contents} == contents
        with holdfast.open(path) as archive:
            assert {key: archive.contents.stat(key).references for key in references} == references
            stats = [report.stat for report in archive.volumes() if report.stat is not None]
            assert sum(stat.references for stat in stats) == sum(references.values()) + others
            if round_ == 0:
                archive.compact("v0")
        if round_ == 1:
            shutil.rmtree(path / "volumes" / "v0" / "keydir", ignore_errors=True)
            holdfast.open(path).close()


@pytest.mark.parametrize("meet", MEETINGS, ids=lambda meet: meet.__name__)
def test_the_next_store_heals(tmp_path: Path, organization: str, meet: Meet) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    meet(path, key)
    assert known_damage(path) == {key.signature.hex()}
    with holdfast.open(path) as archive:
        stored = archive.contents.store(PAGE)
        assert (stored.key, stored.duplicate, stored.references) == (key, True, 4)
        assert archive.contents.get(key) == PAGE
        assert archive.contents.store(PAGE).references == 5
    assert known_damage(path) == set()
    assert [(each["event"], each["contentkey"]) for each in events(path)] == [("healed", str(key))]
    assert_sound(path, {key: 5}, {key: PAGE})


@pytest.mark.parametrize("place", [0, 12, 35, 90, 160, 200, 240, 275, 296, 312, 318])
def test_a_flipped_byte_of_a_header_is_healed(tmp_path: Path, organization: str, place: int) -> None:
    """Whatever the byte says: magic, serial, signature, codec, sizes, counter, checksums."""
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization, place=0 if place == 0 else place)
    with holdfast.open(path) as archive:
        with suppress(DamagedBlock):  # a hash volume can tell what the byte was
            assert archive.contents.get(key) == PAGE
        stored = archive.contents.store(PAGE)
        assert (stored.key, stored.references) == (key, 4)
        assert archive.contents.get(key) == PAGE
    assert_sound(path, {key: 4}, {key: PAGE})


@pytest.mark.parametrize("place", [3, 20, 42, 60, 100, 119, 136, 140, 145, 152, 160, 180, 195])
def test_a_flipped_byte_of_a_bucket_is_healed(tmp_path: Path, place: int) -> None:
    """In its head, or in the lines that tell where its blocks are."""
    path = tmp_path / "a"
    key = a_harmed_archive(path, "hash")
    file, start = found_at(path, key)
    flip(path, key)  # what was harmed is sound again
    raw = bytearray(file.read_bytes())
    raw[raw.rindex(b"HOLDFAST-BUCKET/1", 0, start) + place] ^= 1
    file.write_bytes(raw)
    assert holdfast.check(path).faults
    with holdfast.open(path) as archive:
        assert archive.contents.get(key) == PAGE
        assert archive.contents.store(PAGE).references == 4
        assert archive.contents.get(key) == PAGE
    assert_sound(path, {key: 4}, {key: PAGE})


def test_a_large_block_is_healed(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization, LARGE, HEADER_BYTES + 50_000)
    by_read(path, key)
    with holdfast.open(path) as archive:
        assert archive.contents.store(LARGE).references == 4
        assert archive.contents.get(key) == LARGE
    assert_sound(path, {key: 4}, {key: LARGE})


def test_a_comparison_finds_the_damage_and_heals(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    with holdfast.open(path) as archive:
        stored = archive.contents.store(PAGE, StoreOptions(StoreMode.COMPARE))
        assert (stored.key, stored.references) == (key, 4)
        assert archive.contents.get(key) == PAGE
    assert_sound(path, {key: 4}, {key: PAGE})


def test_a_comparison_with_a_signature_that_collides_stores_apart(tmp_path: Path, organization: str) -> None:
    """Nobody can tell whether the damaged content was this one: it must not be given other bytes."""
    path = tmp_path / "a"
    holdfast.init(path, Plan(1, organization, store=StoreSettings(codec="none", signature="rabin64")))
    with holdfast.open(path) as archive:
        key = archive.contents.put(PAGE)
    flip(path, key)
    with holdfast.open(path) as archive:
        stored = archive.contents.store(PAGE, StoreOptions(StoreMode.COMPARE))
        assert stored.key != key
        assert archive.contents.get(stored.key) == PAGE
        with pytest.raises(DamagedBlock):
            archive.contents.get(key)


def test_all_of_a_batch_is_healed_once(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    with holdfast.open(path) as archive:
        other = archive.contents.put(OTHERS[0])
        flip(path, other)
        for each in (key, other):
            with pytest.raises(DamagedBlock):
                archive.contents.get(each)
        stored = archive.contents.store_batch([PAGE, OTHERS[0], b"new", PAGE, OTHERS[1]])
        assert [each.references for each in stored] == [4, 4, 1, 5, 3]
        assert archive.contents.get_batch([each.key for each in stored]) == [PAGE, OTHERS[0], b"new", PAGE, OTHERS[1]]
    assert {each["contentkey"] for each in events(path)} == {str(key), str(other)}
    assert_sound(path, {key: 5, other: 4}, {key: PAGE, other: OTHERS[0]}, REFERENCES_OF_OTHERS)


def test_a_damaged_block_can_be_deleted(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    with holdfast.open(path) as archive:
        with pytest.raises(DamagedBlock):
            archive.contents.get(key)
        assert [archive.contents.delete(key) for _ in range(3)] == [2, 1, 0]
        assert known_damage(path) == set()
        with pytest.raises(ContentNotFound):
            archive.contents.get(key)
        stored = archive.contents.store(PAGE)
        assert (stored.duplicate, stored.references) == (False, 1)
        assert archive.contents.get(stored.key) == PAGE


# -- damaged is damaged (N10) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 312, HEADER_BYTES + 3], ids=["magic", "checksum", "data"])
def test_damaged_is_not_missing(tmp_path: Path, organization: str, place: int) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization, place=place)
    for read_only in (True, False):
        with holdfast.open(path, read_only=read_only) as archive:
            for ask in (archive.contents.get, archive.contents.stat):
                try:
                    ask(key)
                except Damaged as error:
                    assert error.exit_code == 5
                else:
                    assert organization == "hash" and place != HEADER_BYTES + 3, "the line of the bucket tells the byte"
            with pytest.raises(ContentNotFound):
                archive.contents.get(ContentKey("v0", b"\x07" * 32))


@pytest.mark.parametrize("harm", [b"", b"HOLDFAST/1 bl", bytes(4000)], ids=["empty", "cut off", "zeros"])
def test_a_block_file_of_which_nothing_is_left_is_damaged(tmp_path: Path, harm: bytes) -> None:
    """Its counter is gone: what comes again is stored beside it, and a repair clears it away."""
    path = tmp_path / "a"
    key = a_harmed_archive(path, "tree")
    file, _ = found_at(path, key)
    file.write_bytes(harm)
    with holdfast.open(path) as archive:
        for ask in (archive.contents.get, archive.contents.stat, archive.contents.delete):
            with pytest.raises(DamagedBlock):
                ask(key)
        stored = archive.contents.store(PAGE)
        assert (stored.key.overflow, stored.duplicate) == (1, False)
        assert archive.contents.get(stored.key) == PAGE
        assert archive.contents.store(PAGE).key == stored.key
        with pytest.raises(DamagedBlock):
            archive.contents.get(key)


# -- what is remembered -----------------------------------------------------------------------------------------------


def test_a_writer_learns_what_a_reader_met(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    with holdfast.open(path) as archive:
        by_read(path, key)
        assert archive.contents.store(PAGE).references == 4
        assert archive.contents.get(key) == PAGE


def test_a_repair_clears_what_was_remembered(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    key = a_harmed_archive(path, organization)
    by_read(path, key)
    holdfast.check(path, CheckOptions(repair=True))
    assert known_damage(path) == set()
    with holdfast.open(path) as archive:
        assert archive.contents.store(PAGE).references == 1


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.volumes.damage.DAMAGED_MAX", 5)
    assert DAMAGED_MAX == 10_000
    (tmp_path / "VOLUME").touch()
    from holdfast.env import REAL

    damage = KnownDamage(REAL, tmp_path)
    damage.note([BlockKey(bytes([number]) * 32) for number in range(9)])
    assert len(damage.keys()) == 5
    damage.note([BlockKey(b"\x01" * 32), BlockKey(b"\xff" * 32, 3, b"v7")])
    assert len(damage.keys()) == 5
    damage.clear()
    damage.note([BlockKey(b"\xff" * 32, 3, b"v7")])
    assert damage.keys() == {BlockKey(b"\xff" * 32, 3, b"v7")}


def test_a_volume_that_is_gone_stays_gone(tmp_path: Path) -> None:
    from holdfast.env import REAL

    KnownDamage(REAL, tmp_path / "unmounted").note([BlockKey(b"\x01" * 32)])
    assert not (tmp_path / "unmounted").exists()


# -- replicas, and other volumes ---------------------------------------------------------------------------------------


def two_volumes(path: Path, organization: str, **store: int) -> Archive:
    holdfast.init(path, Plan(2, organization, store=StoreSettings(codec="none", **store)))
    return holdfast.open(path)


def test_a_read_from_a_replica_heals(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    with two_volumes(path, organization, replicas=2) as archive:
        key = archive.contents.put(PAGE)
        flip(path / "volumes" / key.volume, key)
        assert archive.contents.get(key) == PAGE
        assert known_damage(path, key.volume) == set()
    assert holdfast.check(path).faults == []
    assert [(each["event"], each["volume"]) for each in events(path)] == [("healed", key.volume)]


def test_a_damaged_replica_is_healed(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    with two_volumes(path, organization, replicas=2) as archive:
        key = archive.contents.put(PAGE)
    other = "v0" if key.volume == "v1" else "v1"
    flip(path / "volumes" / other, key)
    assert [fault.volume for fault in holdfast.check(path).faults] == [other]
    with holdfast.open(path) as archive:
        assert archive.contents.store(PAGE).references == 2
    assert holdfast.check(path).faults == []
    assert holdfast.check(path).notes == [] or organization in ("log", "hashed-log")
    flip(path / "volumes" / key.volume, key)
    with holdfast.open(path, read_only=True) as archive:
        assert archive.contents.get(key) == PAGE


def test_a_damaged_block_of_a_read_only_volume_is_healed(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    with two_volumes(path, organization) as archive:
        key = archive.contents.put(PAGE)
        archive.set_state(key.volume, VolumeState.READ_ONLY)
        flip(path / "volumes" / key.volume, key)
        with pytest.raises(DamagedBlock):
            archive.contents.get(key)
        stored = archive.contents.store(PAGE)
        assert (stored.key, stored.references) == (key, 2)
        assert archive.contents.get(key) == PAGE
    assert holdfast.check(path).faults == []


def test_a_moved_block_is_healed_where_it_is(tmp_path: Path, organization: str) -> None:
    path = tmp_path / "a"
    with two_volumes(path, organization) as archive:
        key = archive.contents.put(PAGE)
        archive.migrate(key.volume)
    other = "v0" if key.volume == "v1" else "v1"
    flip(path / "volumes" / other, key)
    with holdfast.open(path) as archive:
        with pytest.raises(DamagedBlock):
            archive.contents.get(key)
        assert (stored := archive.contents.store(PAGE)).references == 2
        assert archive.contents.get(stored.key) == archive.contents.get(key) == PAGE
    assert holdfast.check(path).faults == []
