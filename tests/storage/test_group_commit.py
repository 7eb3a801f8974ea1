"""Group commit: threads share syncs, and share failures; a full disk undoes exactly what was not acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.env import Environment, File, LocalFiles
from holdfast.errors import HoldfastError, VolumeDown, VolumeFull
from holdfast.storage.volume import BlockKey, Effect, Refer, Release, Store, Volume
from holdfast.storage.volumes.group_commit import Group, GroupCommit
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.storage.volumes.tree.volume import SPARE_BYTES
from holdfast.testing.forgetful_files import ForgetfulFiles
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

THREADS = 16
OpenAt = Callable[..., Any]
TIMEOUT_S = 120  # for a test that would otherwise hang


# -- the mechanism alone -----------------------------------------------------------------------------------------------


class Recorder:
    """A flusher that writes down what it is told, and waits or fails where the test wants it."""

    def __init__(self) -> None:
        self.commits = GroupCommit(self)
        self.flushed: list[list[str]] = []
        self.settled = 0
        self.aborted: list[BaseException] = []
        self.gate: threading.Event | None = None
        self.writing = threading.Event()
        self.error: BaseException | None = None

    def prepare(self) -> object:
        return len(self.flushed)

    def write(self, group: Group, prepared: object) -> None:
        assert prepared == len(self.flushed)
        self.flushed.append([bytes(buffer).decode() for _, buffers in group.parts for buffer in buffers])
        if self.gate is not None:
            gate, self.gate = self.gate, None
            self.writing.set()
            assert gate.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error

    def settle(self, prepared: object) -> None:
        self.settled += 1

    def abort(self, error: BaseException) -> None:
        self.aborted.append(error)

    def hand_in(self, text: str) -> None:
        """What a volume's commit does."""
        with self.commits.lock:
            group = self.commits.current
            group.parts.append((1, [text.encode()]))
        self.commits.wait(group)


@contextmanager
def held_in_flush(recorder: Recorder, pool: ThreadPoolExecutor, gathering: int) -> Iterator[list[Future[None]]]:
    """Inside: 'first' is being written, and as many others as said wait in the gathering group."""
    gate = recorder.gate = threading.Event()
    futures = [pool.submit(recorder.hand_in, "first")]
    assert recorder.writing.wait(TIMEOUT_S)
    futures += [pool.submit(recorder.hand_in, f"{number:02}") for number in range(gathering)]
    _until(lambda: len(recorder.commits.current.waiters) == gathering)
    try:
        yield futures
    finally:
        gate.set()


def _until(condition: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(TIMEOUT_S * 1000):
        if condition():
            return
        tick.wait(0.001)
    raise AssertionError("what the test waits for did not come")


def test_what_arrives_during_a_flush_is_flushed_together() -> None:
    recorder = Recorder()
    with ThreadPoolExecutor(THREADS) as pool:
        with held_in_flush(recorder, pool, THREADS - 1) as futures:
            assert not any(future.done() for future in futures)
        for future in futures:
            future.result(TIMEOUT_S)
    first, second = recorder.flushed
    assert first == ["first"]
    assert sorted(second) == [f"{number:02}" for number in range(THREADS - 1)]
    assert recorder.settled == 2


def test_a_failed_flush_fails_its_group_and_the_gathering_one() -> None:
    recorder = Recorder()
    recorder.error = VolumeFull("no space left")
    with ThreadPoolExecutor(THREADS) as pool:
        with held_in_flush(recorder, pool, THREADS - 1) as futures:
            pass
        errors = [future.exception(TIMEOUT_S) for future in futures]
    assert {type(error) for error in errors} == {VolumeFull}
    assert len({id(error) for error in errors}) == THREADS, "each thread has an exception of its own"
    assert recorder.aborted == [recorder.error]
    assert (recorder.settled, recorder.flushed) == (0, [["first"]])


def test_it_goes_on_after_a_failure() -> None:
    recorder = Recorder()
    recorder.error = RuntimeError("unforeseen")
    with pytest.raises(VolumeDown, match="unforeseen"):
        recorder.hand_in("a")
    recorder.error = None
    recorder.hand_in("b")
    assert recorder.flushed == [["a"], ["b"]]


def test_an_interrupt_reaches_the_leader_and_the_others_are_told() -> None:
    recorder = Recorder()
    recorder.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        recorder.hand_in("a")
    assert isinstance(recorder.aborted[0], KeyboardInterrupt)


def test_flush_waits_for_what_is_in_flight() -> None:
    recorder = Recorder()
    with ThreadPoolExecutor(2) as pool:
        with held_in_flush(recorder, pool, 0) as futures:
            flush = pool.submit(recorder.commits.flush)
            assert not flush.done()
        flush.result(TIMEOUT_S)
        futures[0].result(TIMEOUT_S)
        assert recorder.settled == 1
    recorder.commits.flush()  # nothing to do


def test_nobody_flushes_inside_exclusive() -> None:
    recorder = Recorder()
    inside: list[int] = []

    def alone() -> None:
        with recorder.commits.exclusive():
            inside.append(recorder.settled)

    with ThreadPoolExecutor(6) as pool:
        with held_in_flush(recorder, pool, 2) as futures:
            futures += [pool.submit(alone) for _ in range(3)]
            _until(lambda: len(recorder.commits._exclusive_waiters) == 3)
            assert inside == []
        for future in futures:
            future.result(TIMEOUT_S)
    assert inside == [1, 1, 1], "after the flush in flight, before the gathering one"
    assert recorder.settled == 2


# -- volumes -----------------------------------------------------------------------------------------------------------


class CountedFile:
    """A file that tells before each sync."""

    def __init__(self, file: File, before_sync: Callable[[], None]) -> None:
        self._file = file
        self._before_sync = before_sync

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._before_sync()
        self._file.sync()


class CountingFiles(LocalFiles):
    """The real file system, with a count of syncs, and something to do during the next one."""

    def __init__(self) -> None:
        self.syncs = 0
        self.during_sync: Callable[[], None] | None = None

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        return CountedFile(super().open(path, writable=writable, create=create), self._synced)  # type: ignore[return-value]

    def _synced(self) -> None:
        self.syncs += 1
        action, self.during_sync = self.during_sync, None
        if action is not None:
            action()


def test_sixteen_callers_share_two_syncs(volume_at: OpenAt, tmp_path: Path) -> None:
    files = CountingFiles()
    volume: LogVolume = volume_at(tmp_path, "log", env=Environment(files))
    perform(volume, Store(sign("segment"), plain(b"so that the segment exists")))
    files.during_sync = lambda: _until(lambda: len(volume.commits.current.waiters) == THREADS - 1)
    before = files.syncs
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(perform, volume, Store(sign(number), plain(b"abc"))) for number in range(THREADS)]
        assert {future.result(TIMEOUT_S).effect for future in futures} == {Effect.NEW}
    assert files.syncs - before == 2
    volume.close()


def test_a_batch_is_one_sync_and_a_question_none(volume_at: OpenAt, tmp_path: Path) -> None:
    files = CountingFiles()
    volume = volume_at(tmp_path, "log", env=Environment(files))
    perform(volume, Store(sign("segment"), plain(b"so that the segment exists")))
    before = files.syncs
    volume.commit([Store(sign(number), plain(b"abc")) for number in range(500)])
    assert files.syncs - before == 1
    volume.commit([Refer(BlockKey(sign("nothing"))), Store(sign(1), plain(b"xyz"), compared=frozenset())])
    assert files.syncs - before == 1
    volume.close()


@pytest.fixture
def disk() -> ForgetfulFiles:
    return ForgetfulFiles()


def test_after_a_failed_sync_the_volume_refuses_to_write(
    volume_at: OpenAt, tmp_path: Path, disk: ForgetfulFiles
) -> None:
    volume = volume_at(tmp_path, "log", env=Environment(disk))
    perform(volume, Store(sign(1), plain(b"safe")))
    disk.fail_sync_at = disk.syncs + 1
    with pytest.raises(VolumeDown):
        volume.commit([Store(sign(2), plain(b"not safe")), Refer(BlockKey(sign(1)))])
    for operation in (Store(sign(3), plain(b"x")), Release(BlockKey(sign(1)))):
        with pytest.raises(VolumeDown, match=r"refuses to write after a failure .*; open the archive again"):
            perform(volume, operation)
    with pytest.raises(VolumeDown):
        volume.add_dictionary(1, b"x")
    assert fetched(volume, BlockKey(sign(1))) == (b"safe", 1)
    assert fetched(volume, BlockKey(sign(2))) is None
    volume.close()
    volume = volume_at(tmp_path, "log", env=Environment(disk))
    assert fetched(volume, BlockKey(sign(1))) in ((b"safe", 1), (b"safe", 2))
    perform(volume, Store(sign(3), plain(b"x")))
    volume.close()


def test_all_callers_of_a_failed_sync_are_told(volume_at: OpenAt, tmp_path: Path) -> None:
    files = CountingFiles()
    volume: LogVolume = volume_at(tmp_path, "log", env=Environment(files))
    perform(volume, Store(sign("segment"), plain(b"so that the segment exists")))

    def fail() -> None:
        _until(lambda: len(volume.commits.current.waiters) == THREADS - 1)
        raise VolumeDown("the disk is gone")

    files.during_sync = fail
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(perform, volume, Store(sign(number), plain(b"abc"))) for number in range(THREADS)]
        assert {type(future.exception(TIMEOUT_S)) for future in futures} == {VolumeDown}
    volume.close()


# -- a full disk -------------------------------------------------------------------------------------------------------


def _used(disk: ForgetfulFiles, organization: str = "log") -> int:
    """With what a tree volume leaves free."""
    disk.capacity = disk.capacity or 1 << 40
    return disk.capacity - disk.free_bytes(Path("/")) + (SPARE_BYTES if organization == "tree" else 0)


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_a_full_disk_undoes_and_smaller_writes_go_on(
    volume_at: OpenAt, tmp_path: Path, disk: ForgetfulFiles, organization: str
) -> None:
    volume: Volume = volume_at(tmp_path, organization, env=Environment(disk))
    perform(volume, Store(sign(1), plain(b"safe")))
    disk.capacity = _used(disk, organization) + 2000
    with ThreadPoolExecutor(1) as another, pytest.raises(VolumeFull, match="add a volume"):
        another.submit(perform, volume, Store(sign(2), plain(bytes(5000)))).result()
    assert fetched(volume, BlockKey(sign(2))) is None
    assert totals(volume) == (1, 0, 1, 4, 4, 4)
    perform(volume, Store(sign(3), plain(b"small")))
    perform(volume, Refer(BlockKey(sign(1))))
    expected = scanned(volume)
    assert sorted(data for _, data, _ in expected) == [b"safe", b"small"]
    volume.close()
    disk.capacity = None
    volume = volume_at(tmp_path, organization, env=Environment(disk))
    assert scanned(volume) == expected
    assert totals(volume) == (2, 0, 3, 9, 9, 13)
    volume.close()


@pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])
def test_full_at_any_byte(volume_at: OpenAt, memory_path: Path, organization: str) -> None:
    """Batches that cross segments, on disks of many sizes: each batch happens wholly or not at all."""
    batches = [[Store(sign((number, each)), plain(bytes(900))) for each in range(number)] for number in (1, 4, 13, 2)]
    for capacity in range(1500, 27_000, 487):
        disk, directory = ForgetfulFiles(), memory_path / f"{organization} {capacity}"
        volume = volume_at(directory, organization, env=Environment(disk), segment_bytes_max=4096)
        disk.capacity = _used(disk, organization) + capacity
        held: dict[BlockKey, tuple[bytes, int]] = {}
        for batch in batches:
            _commit_or_undo(volume, batch, held)
        disk.capacity = None
        for _ in range(2):
            assert {key: (data, references) for key, data, references in scanned(volume)} == held
            assert totals(volume)[0] == len(held)
            volume.close()
            volume = volume_at(directory, organization, env=Environment(disk), segment_bytes_max=4096)
        _commit_or_undo(volume, batches[1], held)
        assert {key: (data, references) for key, data, references in scanned(volume)} == held
        volume.close()


def _commit_or_undo(volume: Volume, batch: list[Store], held: dict[BlockKey, tuple[bytes, int]]) -> None:
    try:
        volume.commit(batch)
    except VolumeFull:
        return
    for store in batch:
        key = BlockKey(store.signature)
        _, references = held.get(key, (b"", 0))
        held[key] = (bytes(store.encoded.data), references + 1)
        assert fetched(volume, key) == held[key]


def test_a_full_disk_is_a_holdfast_error(volume_at: OpenAt, tmp_path: Path, disk: ForgetfulFiles) -> None:
    volume = volume_at(tmp_path, "log", env=Environment(disk))
    disk.capacity = _used(disk)
    for _ in range(3):
        with pytest.raises(VolumeFull) as caught:
            perform(volume, Store(sign(1), plain(b"first segment")))
        assert isinstance(caught.value, HoldfastError)
        assert caught.value.retryable
    disk.capacity = None
    assert perform(volume, Store(sign(1), plain(b"first segment"))).effect is Effect.NEW
    volume.close()
