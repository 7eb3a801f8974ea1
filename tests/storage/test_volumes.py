"""Every organization passes the conformance suite; and what is particular to each."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from holdfast.config import StoreSettings
from holdfast.env import REAL, Environment, LocalFiles
from holdfast.storage.identity import read_identity
from holdfast.storage.volume import BlockKey, Refer, Release, Store, Volume
from holdfast.storage.volumes.hash import volume as hash_volume
from holdfast.storage.volumes.log import segment_files
from holdfast.storage.volumes.log.compaction import compact
from holdfast.storage.volumes.log.volume import LogReader, LogVolume
from holdfast.storage.volumes.organizations import compact_volume, open_volume_reader
from holdfast.testing.volumes import OrganizationConformance, fetched, perform, plain, probed, scanned, sign, totals

OpenAt = Callable[..., Volume]


class Local(OrganizationConformance):
    """A volume on the real file system."""

    organization: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _opener(self, volume_at: OpenAt) -> None:
        self._at = volume_at

    @pytest.fixture(autouse=True)
    def _small_caches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(segment_files, "OPEN_SEGMENTS_MAX", 4)
        monkeypatch.setattr(hash_volume, "BUFFER_BYTES", 0)

    def open_volume(self, directory: Path) -> Volume:
        return self._at(directory, self.organization, **self.options)


class TestLog(Local):
    organization = "log"


class TestLogOfSmallSegments(Local):
    organization = "log"
    options: ClassVar = {"segment_bytes_max": 4096}


class TestLogOfMiddlingSegments(Local):
    organization = "log"
    options: ClassVar = {"segment_bytes_max": 20_000}


class TestLogCompactedAtEveryOpening(Local):
    """Whatever the suite does, compaction changes nothing that it sees."""

    organization = "log"
    options: ClassVar = {"segment_bytes_max": 4096}

    def open_volume(self, directory: Path) -> Volume:
        volume = super().open_volume(directory)
        assert isinstance(volume, LogVolume)
        compact(volume)
        return volume


class TestHash(Local):
    organization = "hash"


class TestHashOfSmallBuckets(Local):
    organization = "hash"
    options: ClassVar = {"buckets": 3, "bucket_bytes": 4096}


class TestHashCompactedAtEveryOpening(Local):
    organization = "hash"
    options: ClassVar = {"buckets": 1, "bucket_bytes": 4096}

    def open_volume(self, directory: Path) -> Volume:
        volume = super().open_volume(directory)
        compact_volume(volume, 0.0, None)
        return volume


class TestHashedLog(Local):
    organization = "hashed-log"


class TestHashedLogOfSmallSegments(Local):
    organization = "hashed-log"
    options: ClassVar = {"logs": 3, "segment_bytes_max": 4096}


class TestHashedLogCompactedAtEveryOpening(Local):
    organization = "hashed-log"
    options: ClassVar = {"logs": 5, "segment_bytes_max": 4096}

    def open_volume(self, directory: Path) -> Volume:
        volume = super().open_volume(directory)
        compact_volume(volume, 0.0, None)
        return volume


class TestTreeOfDepth1(Local):
    organization = "tree"
    options: ClassVar = {"depth": 1}


class TestTreeOfDepth2(Local):
    organization = "tree"
    options: ClassVar = {"depth": 2}


class TestTreeOfDepth3(Local):
    organization = "tree"
    options: ClassVar = {"depth": 3}


# -- log: readers ------------------------------------------------------------------------------------------------------


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(volume_at: OpenAt, tmp_path: Path, closing: ExitStack) -> LogVolume:
    volume = volume_at(tmp_path, "log", segment_bytes_max=4096)
    closing.callback(volume.close)
    assert isinstance(volume, LogVolume)
    return volume


@pytest.fixture
def reader(writer: LogVolume, tmp_path: Path, clock: Clock, closing: ExitStack) -> LogReader:
    env = Environment(LocalFiles(), monotonic=clock)
    reader = open_volume_reader("v0", tmp_path, writer.settings, env)
    closing.callback(reader.close)
    assert isinstance(reader, LogReader)
    return reader


def test_a_reader_follows_the_writer(writer: LogVolume, reader: LogReader, clock: Clock) -> None:
    for number in range(40):
        perform(writer, Store(sign(number), plain(b"%d" % number * 50)))
        clock.now_s += 1
        assert fetched(reader, BlockKey(sign(number))) == (b"%d" % number * 50, 1)
    assert scanned(reader) == scanned(writer)
    assert totals(reader) == totals(writer)
    assert set(reader.signatures()) == set(writer.signatures())


def test_a_reader_sees_all_that_is_older_than_its_refresh(writer: LogVolume, reader: LogReader, clock: Clock) -> None:
    key = BlockKey(sign(1))
    perform(writer, Store(sign(1), plain(b"abc")))
    clock.now_s += 1
    assert fetched(reader, key) == (b"abc", 1)
    perform(writer, Refer(key))
    perform(writer, Store(sign(1), plain(b"abc"), force_new=True))
    clock.now_s += 1
    assert fetched(reader, BlockKey(sign(1), 1)) == (b"abc", 1)
    assert fetched(reader, key) == (b"abc", 2)
    writer.commit([Release(key), Release(key)])
    clock.now_s += 1
    assert fetched(reader, key) is None
    assert probed(reader, sign(1)) == probed(writer, sign(1))


def test_a_reader_finds_what_was_moved_by_compaction(writer: LogVolume, reader: LogReader) -> None:
    keys = [outcome.key for outcome in writer.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(60)])]
    reader._index.refresh()
    before = scanned(reader)
    writer.commit([Release(key) for key in keys[::2]])
    compact(writer)
    for key in keys[1::2]:
        assert fetched(reader, key) == fetched(writer, key)  # without a refresh: from its old place or the new one
    reader._index.refresh()
    assert scanned(reader) == scanned(writer) == before[1::2]


def test_a_reader_has_the_dictionaries(writer: LogVolume, reader: LogReader, clock: Clock) -> None:
    assert reader.dictionary() is None
    writer.add_dictionary(9, b"first")
    writer.add_dictionary(3, b"second")
    clock.now_s += 1
    assert (reader.dictionary(), reader.dictionary(9)) == ((3, b"second"), (9, b"first"))
    writer.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(30)])
    writer.commit([Release(BlockKey(sign(n))) for n in range(20)])
    compact(writer)
    clock.now_s += 1
    assert (reader.dictionary(), reader.dictionary(9)) == ((3, b"second"), (9, b"first"))


def test_a_reader_opens_what_a_killed_writer_left(writer: LogVolume, tmp_path: Path) -> None:
    """The keydir is behind the segments: here, because the writer's last entries are kept out of it."""
    perform(writer, Store(sign(1), plain(b"one")))
    writer.keydir.apply = lambda change: None  # type: ignore[method-assign]
    writer.commit([Store(sign(2), plain(b"two")), Refer(BlockKey(sign(1)))])
    writer.add_dictionary(7, b"words")
    reader = open_volume_reader("v0", tmp_path, writer.settings, REAL)
    assert fetched(reader, BlockKey(sign(1))) == (b"one", 2)
    assert fetched(reader, BlockKey(sign(2))) == (b"two", 1)
    assert [data for _, data, _ in scanned(reader)] == [b"one", b"two"]
    assert totals(reader) == (2, 0, 3, 6, 6, 9)
    assert reader.dictionary() == (7, b"words")
    assert set(reader.signatures()) == {sign(1), sign(2)}
    reader.close()


# -- log: compaction ---------------------------------------------------------------------------------------------------


def _disk_bytes(directory: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(pattern) if path.is_file())


def test_compaction_gives_the_space_back(writer: LogVolume, tmp_path: Path) -> None:
    writer.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(60)])
    writer.commit([Refer(BlockKey(sign(n))) for n in range(60)])
    kept = BlockKey(sign(7))
    writer.commit([Release(BlockKey(sign(n))) for n in range(60) if n != 7])
    writer.commit([Release(BlockKey(sign(n))) for n in range(60) if n != 7])
    assert writer.stat().disk_bytes == _disk_bytes(tmp_path, "*.seg")
    done = compact(writer)
    assert done.bytes_after < done.bytes_before
    stat = writer.stat()
    assert stat.disk_bytes == _disk_bytes(tmp_path, "*.seg") < 3 * 4096
    assert scanned(writer) == [(kept, b"7" * 99, 2)]


def test_compaction_leaves_nothing_dead_but_what_a_rebuild_needs(writer: LogVolume) -> None:
    writer.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(60)])
    writer.commit([Release(BlockKey(sign(n))) for n in range(0, 60, 2)])
    for _ in range(3):
        compact(writer)
    assert writer.stat().dead_bytes == 0


def test_a_scan_goes_on_through_a_compaction(writer: LogVolume) -> None:
    writer.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(100)])
    writer.commit([Release(BlockKey(sign(n))) for n in range(0, 100, 2)])
    expected = scanned(writer)
    scan = writer.scan()
    blocks = next(scan)
    compact(writer)
    blocks += [block for batch in scan for block in batch]
    assert [(block.key, bytes(block.encoded.data), block.references) for block in blocks] == expected


def test_compaction_goes_on_beside_writers_and_readers(volume_at: OpenAt, tmp_path: Path) -> None:
    volume = volume_at(tmp_path, "log", segment_bytes_max=4096)
    assert isinstance(volume, LogVolume)
    kept = volume.commit([Store(sign(("kept", n)), plain(b"%d" % n * 50)) for n in range(100)])
    done = threading.Event()

    def write(thread: int) -> None:
        for n in range(60):
            stored = perform(volume, Store(sign((thread, n)), plain(b"%d" % n * 50)))
            volume.commit([Refer(stored.key), Refer(kept[n].key), Release(stored.key)])
            if n % 3:
                perform(volume, Release(stored.key))

    def read() -> None:
        while not done.is_set():
            for n, outcome in enumerate(kept):
                found = fetched(volume, outcome.key)
                assert found is not None
                assert found[0] == b"%d" % n * 50
            seen = [key for key, _, _ in scanned(volume)]
            assert len(seen) == len(set(seen))
            assert {outcome.key for outcome in kept} <= set(seen)

    with ThreadPoolExecutor(6) as pool:
        reading = pool.submit(read)
        writing = [pool.submit(write, thread) for thread in range(4)]
        try:
            while not all(future.done() for future in writing):
                compact(volume)
        finally:
            done.set()
        for future in [*writing, reading]:
            future.result()
    expected = {outcome.key: 5 if n < 60 else 1 for n, outcome in enumerate(kept)}
    expected |= {BlockKey(sign((thread, n))): 1 for thread in range(4) for n in range(0, 60, 3)}
    assert {key: references for key, _, references in scanned(volume)} == expected
    assert totals(volume)[:3] == (len(expected), 0, sum(expected.values()))
    before, counted = scanned(volume), totals(volume)
    volume.close()
    shutil.rmtree(tmp_path / "keydir")
    volume = volume_at(tmp_path, "log", segment_bytes_max=4096)
    assert (scanned(volume), totals(volume)) == (before, counted)
    volume.close()


def test_a_removed_block_does_not_come_back_when_the_keydir_is_rebuilt(volume_at: OpenAt, tmp_path: Path) -> None:
    volume = volume_at(tmp_path, "log", segment_bytes_max=4096)
    assert isinstance(volume, LogVolume)
    volume.commit([Store(sign(n), plain(b"%d" % n * 99)) for n in range(60)])
    volume.commit([Release(BlockKey(sign(n))) for n in range(0, 60, 3)])
    for _ in range(3):
        compact(volume, dead_share_min=0.3)
        volume.commit([Refer(BlockKey(sign(n))) for n in range(1, 60, 3)])
    before, counts = scanned(volume), totals(volume)
    volume.close()
    shutil.rmtree(tmp_path / "keydir")
    volume = volume_at(tmp_path, "log", segment_bytes_max=4096)
    assert (scanned(volume), totals(volume)) == (before, counts)
    volume.close()


# -- tree --------------------------------------------------------------------------------------------------------------


def test_the_tree_knows_its_space(volume_at: OpenAt, tmp_path: Path) -> None:
    volume = volume_at(tmp_path, "tree")
    perform(volume, Store(sign(1), plain(b"abc")))
    for _ in range(5):
        perform(volume, Refer(BlockKey(sign(1))))
    stat = volume.stat()
    assert stat.disk_bytes == _disk_bytes(tmp_path, "tree/**/*")
    assert stat.dead_bytes == 5 * 320


def test_a_short_signature_names_nothing_in_a_tree(volume_at: OpenAt, tmp_path: Path) -> None:
    """Though a directory of that name exists."""
    volume = volume_at(tmp_path, "tree")
    perform(volume, Store(sign(1), plain(b"abc")))
    for length in (1, 2, 3, 31):
        signature = sign(1)[:length]
        assert fetched(volume, BlockKey(signature)) is None
        assert probed(volume, signature) == set()


def test_what_is_new_is_told_apart_by_the_identity(volume_at: OpenAt, tmp_path: Path) -> None:
    volume_at(tmp_path / "a", "log").close()
    volume_at(tmp_path / "b", "tree", depth=2).close()
    first, second = (read_identity(REAL, tmp_path / name) for name in "ab")
    assert (first.organization, second.organization, second.shape) == ("log", "tree", 2)
    assert first.uid != second.uid
    assert StoreSettings().signature == first.signature
