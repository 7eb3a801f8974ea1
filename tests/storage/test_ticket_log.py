"""Tickets in a log volume: one sync for many, whole commits, and what compaction, rebuild and repair do with them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment, paths
from holdfast.errors import HoldfastError, VolumeFull
from holdfast.storage.block import TICKET
from holdfast.storage.volume import BlockKey, IdempotencyKey, Operation, Recount, Refer, Store
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.idempotency import key_name
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, SegmentEntry, walk
from holdfast.storage.volumes.log.segment_files import SegmentFiles
from holdfast.storage.volumes.log.volume import LogReader, LogVolume
from holdfast.storage.volumes.organizations import (
    compact_volume,
    create_volume,
    find_organization,
    open_volume,
    volume_spec,
)
from holdfast.testing.forgetful_files import ForgetfulFiles
from holdfast.testing.volumes import fetched, marks, perform, plain, scanned, sign, totals

pytest_plugins = ["crash_fixtures"]

ONE = b"client-1"
SETTINGS = StoreSettings(segment_bytes_max=4096, keydir_cache_bytes=1 << 20)


class Log:
    """A log volume that is opened again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._volume: LogVolume | None = None
        create_volume(path, VolumeSettings("v0", "log"), SETTINGS, REAL)

    def open(self) -> LogVolume:
        self.close()
        volume = open_volume("v0", self.path, SETTINGS, REAL)
        assert isinstance(volume, LogVolume)
        self._volume = volume
        return volume

    def close(self) -> None:
        if self._volume is not None:
            self._volume.close()
            self._volume = None


@pytest.fixture
def log(quick: Path) -> Iterator[Log]:
    log = Log(quick)
    yield log
    log.close()


def stores(first: int, count: int = 1) -> list[Operation]:
    return [Store(sign(number), plain(b"%d" % number * 40)) for number in range(first, first + count)]


def tickets_in(directory: Path) -> list[bytes]:
    """The names of the tickets in the segments."""
    uid = volume_spec("v0", directory, SETTINGS, REAL).identity.uid
    segments = SegmentFiles(REAL, directory, uid)
    found = []
    for listed in segments.listing()[0]:
        file = segments.file(listed.segment, listed.generation)
        for step in walk(file, uid, SEGMENT_HEADER_BYTES, file.size()):
            assert isinstance(step, SegmentEntry)
            if step.header.kind == TICKET:
                found.append(step.header.signature)
    return found


def faults(directory: Path) -> list[object]:
    spec = volume_spec("v0", directory, SETTINGS, REAL)
    return list(find_organization("log").check(spec, CheckProgress()))


def test_many_commits_share_one_sync(quick: Path) -> None:
    files = ForgetfulFiles()
    env = Environment(files=files)
    settings = StoreSettings(keydir_cache_bytes=1 << 20)
    create_volume(quick, VolumeSettings("v0", "log"), settings, env)
    volume = open_volume("v0", quick, settings, env)
    volume.commit(stores(0), IdempotencyKey(ONE, 1))
    before = files.syncs
    volume.commit_all([(stores(number), IdempotencyKey(b"client%02d" % number, 1)) for number in range(1, 50)])
    assert files.syncs == before + 1
    assert volume.commit(stores(0), IdempotencyKey(ONE, 1))[0].references == 1
    assert files.syncs == before + 1, "an old answer costs nothing"
    volume.close()


def test_a_commit_with_a_ticket_stands_in_one_segment(log: Log, quick: Path) -> None:
    volume = log.open()
    volume.commit(stores(0, 30), IdempotencyKey(ONE, 1))
    assert len(list(quick.glob("*.seg"))) == 1
    volume.commit(stores(30, 30), IdempotencyKey(ONE, 2))
    assert len(list(quick.glob("*.seg"))) == 2


def test_the_keydir_remembers_what_the_entry_says(log: Log, quick: Path) -> None:
    volume = log.open()
    volume.commit(stores(0, 2), IdempotencyKey(ONE, 1))
    volume.void(IdempotencyKey(ONE, 2))
    kept = dict(volume.keydir.tickets())
    assert list(kept) == [key_name(IdempotencyKey(ONE, 1)), key_name(IdempotencyKey(ONE, 2))]
    assert [each.serial for each in kept.values()] == [1, 4]
    raw = (quick / "000001.seg").read_bytes()
    assert raw[SEGMENT_HEADER_BYTES + 320 :].startswith(kept[key_name(IdempotencyKey(ONE, 1))].data)
    assert kept[key_name(IdempotencyKey(ONE, 2))].data == b"\0\0\0\0\0\0\0\0\1"


def test_a_commit_that_is_cut_short_is_gone_as_a_whole(log: Log, quick: Path) -> None:
    """Whatever the length that a kill left of it, and whether the keydir is there or not."""
    volume = log.open()
    perform(volume, Store(sign("kept"), plain(b"kept")))
    log.close()
    before = (quick / "000001.seg").stat().st_size
    sound = quick.with_name("sound")
    shutil.copytree(quick, sound)
    volume = log.open()
    volume.commit(stores(0, 3), IdempotencyKey(ONE, 1))
    log.close()
    whole = (quick / "000001.seg").read_bytes()
    for length in range(before, len(whole), 61):
        for rebuild in (False, True):
            shutil.rmtree(quick)
            shutil.copytree(sound, quick)
            (quick / "000001.seg").write_bytes(whole[:length])
            if rebuild:
                shutil.rmtree(quick / paths.KEYDIR)
            volume = log.open()
            assert scanned(volume) == [(BlockKey(sign("kept")), b"kept", 1)]
            assert (quick / "000001.seg").stat().st_size == before
            assert volume.commit(stores(0, 3), IdempotencyKey(ONE, 1))[2].references == 1
            log.close()


def test_compaction_keeps_what_may_be_asked_for(log: Log, quick: Path) -> None:
    volume = log.open()
    for number in range(1, 41):
        volume.commit(stores(number), IdempotencyKey(ONE, number, max(0, number - 4)))
    volume.void(IdempotencyKey(b"client-2", 9))
    perform(volume, Recount(BlockKey(sign(40)), 0))
    kept = volume.ledger.sessions.all_kept()
    assert len(kept) == 5
    compact_volume(volume, 0.0, None)
    volume = log.open()
    compact_volume(volume, 0.0, None)
    assert set(tickets_in(quick)) == {name for name, _ in kept}
    assert (volume.ledger.sessions.all_kept(), faults(quick)) == (kept, [])
    log.close()
    shutil.rmtree(quick / paths.KEYDIR)
    volume = log.open()
    assert volume.ledger.sessions.all_kept() == kept, "a rebuilt keydir has forgotten something"
    assert volume.commit(stores(40), IdempotencyKey(ONE, 40))[0].references == 1
    assert fetched(volume, BlockKey(sign(40))) is None


def test_a_repair_remembers_what_the_segments_no_longer_say(log: Log, quick: Path) -> None:
    volume = log.open()
    for number in range(1, 9):
        volume.commit(stores(number), IdempotencyKey(ONE, number))
    log.close()
    path = quick / "000001.seg"
    raw = bytearray(path.read_bytes())
    raw[SEGMENT_HEADER_BYTES + 325] ^= 1  # of the first ticket
    path.write_bytes(raw)
    assert len(faults(quick)) == 1
    find_organization("log").repair(volume_spec("v0", quick, SETTINGS, REAL))
    assert faults(quick) == []
    volume = log.open()
    assert [volume.commit(stores(number), IdempotencyKey(ONE, number))[0].references for number in range(1, 9)] == [
        1
    ] * 8
    assert totals(volume)[:3] == (8, 0, 8)


def test_a_reader_steps_over_tickets(log: Log, quick: Path) -> None:
    volume = log.open()
    volume.commit(stores(0, 2), IdempotencyKey(ONE, 1))
    reader = find_organization("log").reader(volume_spec("v0", quick, SETTINGS, REAL))
    assert isinstance(reader, LogReader)
    try:
        for number in range(2, 30):
            volume.commit([*stores(number), Refer(BlockKey(sign(0)))], IdempotencyKey(ONE, number, number - 2))
            reader.refresh()
            assert scanned(reader) == scanned(volume)
        assert totals(reader) == totals(volume)
    finally:
        reader.close()


def test_what_had_no_space_may_be_handed_in_again(quick: Path) -> None:
    files = ForgetfulFiles()
    env = Environment(files=files)
    create_volume(quick, VolumeSettings("v0", "log"), SETTINGS, env)
    volume = open_volume("v0", quick, SETTINGS, env)
    volume.commit(stores(0), IdempotencyKey(ONE, 1))
    files.capacity = 4000
    results = volume.commit_all(
        [
            (stores(1, 5), IdempotencyKey(ONE, 2)),
            (stores(0), IdempotencyKey(ONE, 1)),
            (stores(9), IdempotencyKey(ONE, 3)),
        ]
    )
    assert all(isinstance(result, VolumeFull) for result in results)
    assert len(scanned(volume)) == 1
    files.capacity = None
    again = volume.commit_all(
        [
            (stores(1, 5), IdempotencyKey(ONE, 2)),
            (stores(0), IdempotencyKey(ONE, 1)),
            (stores(9), IdempotencyKey(ONE, 3)),
        ]
    )
    assert [len(result) for result in again if not isinstance(result, HoldfastError)] == [5, 1, 1]
    assert totals(volume)[:3] == (7, 0, 7)
    volume.close()


def test_a_scan_goes_on_behind_a_mark_that_compaction_moved(log: Log) -> None:
    volume = log.open()
    for number in range(60):
        volume.commit(stores(number), IdempotencyKey(ONE, number + 1, number))
    whole, places = scanned(volume), marks(volume)
    gone = range(0, 60, 3)
    volume.commit([Recount(places[number].key, 0) for number in gone])
    compact_volume(volume, 0.0, None)
    for number, place in enumerate(places):
        assert scanned(volume, place) == [whole[at] for at in range(number + 1, 60) if at not in gone]
