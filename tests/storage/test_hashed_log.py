"""The `hashed-log` organization: which segment an entry goes to, how the front is distributed, and sorted delivery."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.errors import UsageError
from holdfast.storage.identity import read_identity
from holdfast.storage.volume import BlockKey, IdempotencyKey, Operation, Recount, Refer, Release, ScanPosition, Store
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.log.hashed_log import HashedLogVolume
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry, SegmentRanges, walk
from holdfast.storage.volumes.organizations import (
    compact_volume,
    create_volume,
    find_organization,
    open_volume,
    open_volume_reader,
    volume_spec,
)
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

SETTINGS = StoreSettings(segment_bytes_max=4096)


def opened(directory: Path, logs: int = 4) -> HashedLogVolume:
    if not (directory / "VOLUME").exists():
        create_volume(directory, VolumeSettings("v0", "hashed-log", logs=logs), SETTINGS, REAL)
    volume = open_volume("v0", directory, SETTINGS, REAL)
    assert isinstance(volume, HashedLogVolume)
    return volume


def store(number: int) -> Store:
    return Store(sign(number), plain(b"%d" % number * 60))


def faults(directory: Path) -> list[str]:
    spec = volume_spec("v0", directory, SETTINGS, REAL)
    return [fault.kind for fault in find_organization("hashed-log").check(spec, CheckProgress())]


def lanes_of(directory: Path) -> dict[int, list[int]]:
    """The numbers of the segments, by lane."""
    found: dict[int, list[int]] = {}
    for path in sorted(directory.glob("*.seg")):
        number = int(path.name[:6])
        found.setdefault(number % 1000, []).append(number)
    return found


# -- lanes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("logs", [1, 3, 64, 999])
def test_lanes_hold_ascending_ranges(logs: int) -> None:
    lanes = SegmentRanges(logs)
    signatures = sorted([*(sign(number) for number in range(300)), b"", b"\0", b"\xff" * 32, b"\x80", b"ab"])
    found = [lanes.for_signature(signature) for signature in signatures]
    assert found == sorted(found)
    assert found[0] == 1 and found[-1] == logs
    for signature, lane in zip(signatures, found, strict=True):
        assert lanes.first_signature(lane) <= signature < lanes.first_signature(lane + 1)


def test_the_shape_is_in_the_volume_file(tmp_path: Path) -> None:
    opened(tmp_path, 7).close()
    identity = read_identity(REAL, tmp_path)
    assert (identity.organization, identity.shape, identity.lanes) == ("hashed-log", 7, SegmentRanges(7))
    assert b"\norganization hashed-log\nlogs 7\n" in (tmp_path / "VOLUME").read_bytes()


@pytest.mark.parametrize("logs", [0, 1000])
def test_a_shape_that_makes_no_sense(tmp_path: Path, logs: int) -> None:
    with pytest.raises(UsageError, match="bad number of logs"):
        create_volume(tmp_path, VolumeSettings("v0", "hashed-log", logs=logs), SETTINGS, REAL)


# -- distributing -----------------------------------------------------------------------------------------------------


def test_everything_goes_into_its_log(tmp_path: Path) -> None:
    """As `docs/formats/hashed-log.md` says: segment 2003 holds what segment 2000 had for log 3."""
    volume = opened(tmp_path)
    for number in range(40):
        perform(volume, store(number))
    found = lanes_of(tmp_path)
    assert len(found[0]) == 1, "all of the front is distributed but what is written to"
    assert set(found) == {0, 1, 2, 3, 4}
    uid = read_identity(REAL, tmp_path).uid
    for path in tmp_path.glob("*.seg"):
        lane = int(path.name[:6]) % 1000
        file = REAL.files.open(path)
        entries = [
            step for step in walk(file, uid, SEGMENT_HEADER_BYTES, file.size()) if isinstance(step, SegmentEntry)
        ]
        assert lane == 0 or {SegmentRanges(4).for_signature(each.header.signature) for each in entries} == {lane}
    volume.close()
    assert faults(tmp_path) == []


def test_a_keydir_is_rebuilt_from_the_lanes(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    for number in range(60):
        perform(volume, store(number))
        if number % 3 == 0:
            perform(volume, Refer(BlockKey(sign(number // 2))))
        if number % 4 == 0:
            perform(volume, Recount(BlockKey(sign(number // 4)), 0))
    volume.commit([store(99)], IdempotencyKey(b"client-1", 1))
    for number in range(200, 230):
        perform(volume, store(number))
    before, counted = scanned(volume), totals(volume)
    volume.close()
    shutil.rmtree(tmp_path / "keydir")
    volume = opened(tmp_path)
    assert (scanned(volume), totals(volume)) == (before, counted)
    assert volume.commit([store(99)], IdempotencyKey(b"client-1", 1))[0].references == 1, "tickets are distributed, too"
    volume.close()
    assert faults(tmp_path) == []


def test_small_segments_are_joined(tmp_path: Path) -> None:
    volume = opened(tmp_path, logs=40)
    for number in range(400):
        perform(volume, store(number))
    assert max(len(numbers) for numbers in lanes_of(tmp_path).values()) < 16
    assert len(scanned(volume)) == 400
    volume.close()


def test_compaction_leaves_one_segment_where_that_is_enough(tmp_path: Path) -> None:
    volume = opened(tmp_path, logs=6)
    for number in range(60):
        perform(volume, store(number))
    volume.commit([Release(BlockKey(sign(number))) for number in range(50)])
    for _ in range(3):
        compact_volume(volume, 0.0, None)
    assert volume.stat().dead_bytes == 0
    assert all(len(numbers) == 1 for numbers in lanes_of(tmp_path).values())
    assert len(scanned(volume)) == 10
    volume.close()
    assert faults(tmp_path) == []


def test_new_numbers_are_beyond_all_others(tmp_path: Path) -> None:
    """Without its front, a volume must not begin with a number whose lanes are there."""
    volume = opened(tmp_path)
    for number in range(40):
        perform(volume, store(number))
    compact_volume(volume, 0.0, None)
    before = scanned(volume)
    volume.close()
    for path in tmp_path.glob("*000.seg"):
        path.unlink()
    find_organization("hashed-log").repair(volume_spec("v0", tmp_path, SETTINGS, REAL))
    volume = opened(tmp_path)
    perform(volume, store(1000))
    volume.close()
    volume = opened(tmp_path)
    assert len(scanned(volume)) == len(before) + 1
    volume.close()
    assert faults(tmp_path) == []


# -- sorted delivery --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("process", ["the writer", "a reader"])
def test_a_stream_in_pieces_is_sorted_whatever_moves(tmp_path: Path, process: str) -> None:
    random = Random(process)
    volume = opened(tmp_path)
    start = {BlockKey(sign(number)) for number in range(80)}
    volume.commit([store(number) for number in range(80)])
    reader = volume if process == "the writer" else open_volume_reader("v0", tmp_path, SETTINGS, REAL)
    seen: list[BlockKey] = []
    gone: set[BlockKey] = set()
    place: ScanPosition | None = None
    fresh = iter(range(1000, 9000))
    while batch := next(reader.scan(after=place), None):
        part = batch[: random.randint(1, 6)]
        seen += (block.key for block in part)
        place = part[-1].mark
        removed = random.choice(sorted(start))
        gone.add(removed)
        changes: list[Operation] = [*(store(next(fresh)) for _ in range(5)), Recount(removed, 0)]
        volume.commit(changes)
        if random.random() < 0.2:
            compact_volume(volume, 0.0, None)
        reader.refresh()
    assert seen == sorted(set(seen))
    assert start - gone <= set(seen)
    if reader is not volume:
        reader.close()
    volume.close()


def test_a_scan_goes_on_through_a_distribution(tmp_path: Path) -> None:
    volume = opened(tmp_path)
    volume.commit([store(number) for number in range(60)])
    expected = scanned(volume)
    scan = volume.scan()
    blocks = next(scan)
    compact_volume(volume, 0.0, None)
    blocks += [block for batch in scan for block in batch]
    assert [(block.key, bytes(block.encoded.data), block.references) for block in blocks] == expected
    assert fetched(volume, expected[0][0]) is not None
    volume.close()
