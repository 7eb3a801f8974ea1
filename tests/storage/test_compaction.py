"""Compaction of log volumes: what it reclaims, what it keeps, what may happen meanwhile, and what a crash leaves."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from crash_compaction import Interrupted, MeasuredFiles, content, key, segment_bytes, store
from crash_gate import GatedCommit
from crash_script import Commit, Compact, State, Step, after, found_in, totals_of
from crash_world import MEMORY, KeydirFate, World, index_of
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from holdfast.env import REAL, paths
from holdfast.errors import DamagedBlock, VolumeDown, VolumeFull
from holdfast.model import Fault
from holdfast.storage.volume import Adopt, BlockKey, Operation, Recount, Refer, Release, Volume
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.local import Compaction, VolumeSpec
from holdfast.storage.volumes.log import segment_files
from holdfast.storage.volumes.log.check import check_log
from holdfast.storage.volumes.log.compaction import compact, compact_run
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.storage.volumes.organizations import compact_volume
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut
from holdfast.testing.volumes import fetched, perform, plain, scanned, sign, totals

pytest_plugins = ["crash_fixtures"]

OpenAt = Callable[..., Volume]


@pytest.fixture
def open_log(quick: Path, volume_at: OpenAt) -> Callable[..., LogVolume]:
    """Opens the log volume in the test's directory, with small segments."""

    def opener(**options: Any) -> LogVolume:
        volume = volume_at(quick, "log", **{"segment_bytes_max": 4096} | options)
        assert isinstance(volume, LogVolume)
        return volume

    return opener


# -- what it does ------------------------------------------------------------------------------------------------------


def test_space_is_reclaimed_on_the_disk(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    volume.commit([store(number) for number in range(200)])
    full = segment_bytes(quick)
    volume.commit([Release(key(number)) for number in range(200) if number % 4])
    before = segment_bytes(quick)
    done = compact(volume)
    left = segment_bytes(quick)
    assert before > full
    assert left < full * 0.3
    assert done.bytes_before - done.bytes_after == before - left + SEGMENT_HEADER_BYTES, "a new segment was begun"
    assert volume.stat().dead_bytes == 0
    assert compact(volume).files == 0, "there is nothing left to do"
    volume.close()


def test_everything_removed_leaves_next_to_nothing(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    volume.commit([store(number) for number in range(100)])
    volume.commit([Release(key(number)) for number in range(100)])
    compact(volume)
    compact(volume)
    assert segment_bytes(quick) < 1000
    assert (scanned(volume), totals(volume)) == ([], (0,) * 6)
    volume.close()


def test_a_check_beside_a_compaction_finds_nothing(
    quick: Path, open_log: Callable[..., LogVolume], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between the moment when the new segment has its name and that when the keydir learns of it."""
    volume = open_log()
    volume.commit([store(number) for number in range(5)])
    volume.seal()
    volume.commit([Release(key(0)), store(5)])
    publish, found = volume.segments.publish, list[Fault]()

    def published(*arguments: Any) -> None:
        publish(*arguments)
        spec = VolumeSpec(volume.name, volume.directory, volume.identity, volume.settings, REAL)
        found.extend(check_log(spec, CheckProgress()))

    monkeypatch.setattr(volume.segments, "publish", published)
    compact(volume)
    assert found == []
    volume.close()


def test_order_is_preserved(open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    numbers = list(range(150))
    Random(3).shuffle(numbers)
    for number in numbers:
        perform(volume, store(number))
    for number in numbers[::3]:
        perform(volume, Release(key(number)))
    kept = [number for index, number in enumerate(numbers) if index % 3]
    for _ in range(3):
        compact(volume)
        assert [each for each, _, _ in scanned(volume)] == [key(number) for number in kept]
        perform(volume, Release(key(kept.pop(5))))
    volume.close()
    volume = open_log()
    assert [each for each, _, _ in scanned(volume)] == [key(number) for number in kept]
    volume.close()


def test_segments_below_the_share_are_left_alone(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    volume.commit([store(number) for number in range(60)])
    volume.commit([Release(key(number)) for number in range(7)])  # all of the first segment
    perform(volume, Release(key(30)))
    before = {path.name for path in quick.glob("*.seg")}
    compact(volume, dead_share_min=0.5)
    after_it = {path.name for path in quick.glob("*.seg")}
    assert "000001.seg" in before - after_it
    assert "000001-1.seg" in after_it
    assert len(before - after_it) <= 2
    volume.close()


def test_counts_and_dictionaries_outlive_many_compactions(open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    volume.add_dictionary(7, b"first")
    volume.commit([store(number) for number in range(30)])
    for turn in range(6):
        volume.commit([Refer(key(number)) for number in range(30)])
        volume.add_dictionary(8 + turn, b"dictionary %d" % turn)
        volume.seal()
        compact(volume)
    for _ in range(2):
        assert [fetched(volume, key(number)) for number in range(30)] == [(content(n), 7) for n in range(30)]
        assert volume.dictionary(7) == (7, b"first")
        assert volume.dictionary() == (13, b"dictionary 5")
        volume.close()
        volume = open_log()
    volume.close()


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_extra_disk_is_bounded_by_one_segment(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    limit = 20_000
    files = MeasuredFiles(quick)
    volume = open_log(env=replace(REAL, files=files), segment_bytes_max=limit)
    volume.commit([store(number) for number in range(600)])
    volume.commit([Release(key(number)) for number in range(600) if number % 3 == 0])
    volume.seal()
    before = files.most = segment_bytes(quick)
    compact(volume)
    assert segment_bytes(quick) < before * 0.8
    slack = 320 + 300 + 96  # an entry may begin just below the limit
    assert files.most - before <= limit + slack
    volume.close()


# -- what may happen meanwhile -----------------------------------------------------------------------------------------


def test_threads_go_on_while_it_runs(open_log: Callable[..., LogVolume]) -> None:
    """Eight threads store, count, fetch and remove while another compacts without end; every answer is exact."""
    volume = open_log()
    shared = range(1000, 1020)
    volume.commit([store(number) for number in shared])
    stop = threading.Event()

    def compact_on() -> int:
        runs = 0
        while not stop.is_set():
            compact(volume)
            runs += 1
        return runs

    def work(thread: int) -> None:
        random = Random(thread)
        held: dict[int, int] = {}
        for step in range(150):
            number = 10_000 * (thread + 1) + random.randrange(40)
            references = held.get(number, 0)
            if references and random.random() < 0.5:
                outcome = perform(volume, Release(key(number)))
                references -= 1
            else:
                outcome = perform(volume, store(number))
                references += 1
            assert outcome.references == references
            held[number] = references
            assert fetched(volume, key(number)) == ((content(number), references) if references else None)
            perform(volume, Refer(key(shared[step % len(shared)])))
        for number, references in held.items():
            assert fetched(volume, key(number)) == ((content(number), references) if references else None)

    with ThreadPoolExecutor(9) as pool:
        compacting = pool.submit(compact_on)
        workers = [pool.submit(work, thread) for thread in range(8)]
        try:
            for worker in workers:
                worker.result()
        finally:
            stop.set()
        assert compacting.result() > 0
    counts = [fetched(volume, key(number)) for number in shared]
    assert sum(found[1] for found in counts if found) == len(shared) + 8 * 150
    before = (scanned(volume), totals(volume))
    compact(volume)
    assert (scanned(volume), totals(volume)) == before
    volume.close()


def test_a_scan_goes_on_while_it_runs(open_log: Callable[..., LogVolume], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "OPEN_SEGMENTS_MAX", 4)
    volume = open_log()
    volume.commit([store(number) for number in range(300)])
    seen: list[BlockKey] = []
    for turn, batch in enumerate(volume.scan()):
        seen += [block.key for block in batch]
        perform(volume, Release(key(turn * 3)))
        compact(volume)
    assert len(seen) == len(set(seen))
    gone = {key(turn * 3) for turn in range(300)}
    assert {key(number) for number in range(300)} - gone <= set(seen)
    volume.close()


OPERATIONS = pytest.mark.parametrize("operation", [Refer(key(1)), Recount(key(1), 0)], ids=["counted", "removed"])


@OPERATIONS
def test_what_is_not_durable_yet_makes_nothing_obsolete(quick: Path, operation: Operation) -> None:
    """The power goes when the new segment has its name and the commit is not synced."""
    interrupted = Interrupted(quick, operation)
    world, held = interrupted.world, interrupted.held

    def cut(commit: GatedCommit, publish: Callable[[], None]) -> None:
        publish()
        commit.finish(VolumeDown("the power is off"))
        raise PowerCut

    with world.noting_syncs(), pytest.raises(PowerCut):
        interrupted.compact(cut)
    world.end(interrupted.volume)
    for seed in range(12):
        world.restore_keydir(list(KeydirFate)[seed % 4], Random(seed))
        world.verify(interrupted.files.after_power_cut(Random(seed)), [held, after(held, operation)])


@OPERATIONS
def test_what_fails_makes_nothing_obsolete(quick: Path, operation: Operation) -> None:
    """The commit finds no space: the block and its counter are as before."""
    interrupted = Interrupted(quick, operation)
    world, volume = interrupted.world, interrupted.volume

    def fail(commit: GatedCommit, publish: Callable[[], None]) -> None:
        commit.finish(VolumeFull("no space left"))
        assert isinstance(commit.error, VolumeFull)
        publish()

    interrupted.compact(fail)
    assert found_in(volume) == interrupted.held
    assert perform(volume, Refer(key(3))).references == 2
    assert perform(volume, Release(key(3))).references == 1
    world.end(volume)
    for fate in (KeydirFate.KEPT, KeydirFate.LOST):
        world.restore_keydir(fate, Random(1))
        world.verify(interrupted.files.copy(), [interrupted.held])


# -- what must never come back -----------------------------------------------------------------------------------------

NUMBERS = st.integers(0, 1)
HOMES = st.sampled_from([b"", b"", b"v7"])
STEPS = st.one_of(
    st.tuples(st.just("store"), NUMBERS),
    st.tuples(st.just("store"), NUMBERS),
    st.tuples(st.just("adopt"), NUMBERS),
    st.tuples(st.just("refer"), NUMBERS, HOMES),
    st.tuples(st.just("release"), NUMBERS, HOMES),
    st.tuples(st.just("release"), NUMBERS, HOMES),
    st.tuples(st.just("remove"), NUMBERS, HOMES),
    st.tuples(st.just("compact run"), st.integers(0, 6), st.integers(1, 2)),
    st.tuples(st.just("compact run"), st.integers(0, 6), st.integers(1, 2)),
    st.tuples(st.just("rebuild")),
)
SEGMENTS = st.lists(st.lists(STEPS, min_size=1, max_size=2), min_size=10, max_size=16)


def _operation(step: tuple[Any, ...]) -> Operation:
    what, number, *home = step
    named = BlockKey(sign(number), 0, *home)
    match what:
        case "store":
            return store(number, 40)
        case "adopt":
            return Adopt(BlockKey(sign(number), 0, b"v7"), plain(content(number, 50)), 2, True)
        case "refer":
            return Refer(named)
        case "release":
            return Release(named)
        case _:
            return Recount(named, 0)


def test_a_removal_stays_as_long_as_what_it_removed(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    """The removal's segment is compacted, the block's is not: only the removal keeps a rebuild from restoring it."""
    volume = open_log()
    volume.commit([store(1), store(2)])
    volume.seal()
    volume.commit([Release(key(1)), store(3)])
    volume.seal()
    for run in ([2], [1], [2]):  # when the block is gone, the removal may go too
        compact_run(volume, run)
        volume.close()
        shutil.rmtree(quick / paths.KEYDIR)
        volume = open_log()
        assert [each for each, _, _ in scanned(volume)] == [key(2), key(3)]
    assert volume.stat().dead_bytes == 0
    volume.close()


@pytest.mark.parametrize("organization", ["log", "hashed-log", "hash", "tree"])
def test_a_second_compaction_waits_for_the_first(quick: Path, volume_at: OpenAt, organization: str) -> None:
    """Two at once would copy the same segments and discard each other's files (B14)."""
    volume = volume_at(quick, organization, segment_bytes_max=4096)
    volume.commit([store(number) for number in range(100)])
    volume.commit([Release(key(number)) for number in range(50)])
    kept = [key(number) for number in range(50, 100)]
    second_works = threading.Event()
    started: list[Future[Compaction]] = []

    def start_second(_: int) -> None:
        if not started:
            started.append(pool.submit(compact_volume, volume, 0.0, lambda _: second_works.set()))
            assert not second_works.wait(0.2)

    with ThreadPoolExecutor(1) as pool:
        compact_volume(volume, 0.0, start_second)
        if started:
            started[0].result()
    assert sorted(each for each, _, _ in scanned(volume)) == sorted(kept)
    volume.close()
    volume = volume_at(quick, organization)
    assert sorted(each for each, _, _ in scanned(volume)) == sorted(kept)
    volume.close()


@given(segments=SEGMENTS)
@hypothesis_settings(max_examples=75)
def test_a_rebuild_after_any_compaction_brings_nothing_back(segments: list[list[tuple[Any, ...]]]) -> None:
    """Whichever neighbouring segments are compacted, and whenever: the segments alone tell the same as the keydir."""
    steps = [step for segment in segments for step in (*segment, ("seal",))]
    with TemporaryDirectory(dir=MEMORY) as directory:
        world = World(Path(directory), "log")
        files, state = world.start(), State({}, {})
        volume = world.open(files)
        for step in [*steps, ("rebuild",)]:
            assert isinstance(volume, LogVolume)
            match step:
                case ("seal",):
                    volume.seal()
                case ("compact run", first, length):
                    sealed = sorted(volume.ledger.segments)[:-1]
                    if run := sealed[first : first + length]:
                        compact_run(volume, run)
                case ("rebuild",):
                    expected = index_of(volume)
                    volume.close()
                    world.restore_keydir(KeydirFate.LOST, Random(0))
                    volume = world.open(files)
                    assert index_of(volume) == expected
                    assert found_in(volume) == state
                case _:
                    operation = _operation(step)
                    state = after(state, operation)
                    volume.commit([operation])
        assert totals(volume) == totals_of(state)
        volume.close()


# -- interruptions -----------------------------------------------------------------------------------------------------


def test_an_interrupted_compaction_is_finished_by_the_next_opening(quick: Path) -> None:
    """The power goes at every point of a compaction: all is there afterwards, and compacting again finds its end."""
    world = World(quick, "log")
    filled: list[Step] = [
        Commit(tuple(store(number) for number in range(30))),
        Commit(tuple(Refer(key(number)) for number in range(0, 30, 5))),
        Commit(tuple(Release(key(number)) for number in range(0, 30, 2))),
    ]
    before = world.points(filled)
    for fuse in range(before, world.points([*filled, Compact()]) + 1):
        cut = world.live([*filled, Compact()], fuse)
        for fate in (KeydirFate.KEPT, KeydirFate.SYNCED):
            world.restore_keydir(fate, Random(fuse))
            disk = cut.files.after_power_cut(Random(fuse))
            world.verify(disk, cut.player.possible)
            names = disk.names(world.directory)
            assert not [name for name in names if name.endswith(paths.UNFINISHED)], "drafts are cleared away"


def test_a_compaction_without_space_leaves_no_draft(quick: Path) -> None:
    world = World(quick, "log")
    files = world.start()
    with world.opened(files) as volume:
        volume.commit([store(number) for number in range(40)])
        volume.commit([Release(key(number)) for number in range(20)])
        held, names = found_in(volume), files.names(world.directory)
        files.capacity = _used(files, world.directory) + 700
        with pytest.raises(VolumeFull):
            compact(volume)  # type: ignore[arg-type]
        assert not [name for name in files.names(world.directory) if name.endswith(paths.UNFINISHED)]
        assert found_in(volume) == held
        files.capacity = None
        compact(volume)  # type: ignore[arg-type]
        assert found_in(volume) == held
        assert len(files.names(world.directory)) < len(names)


def _used(files: ForgetfulFiles, directory: Path) -> int:
    files.capacity = 1 << 40
    return files.capacity - files.free_bytes(directory)


def test_damage_stops_it_and_nothing_is_lost(quick: Path, open_log: Callable[..., LogVolume]) -> None:
    volume = open_log()
    volume.commit([store(number) for number in range(30)])
    volume.commit([Release(key(number)) for number in range(5)])
    path = quick / "000001.seg"
    raw = bytearray(path.read_bytes())
    raw[3000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamagedBlock, match=r"cannot compact '.*000001.seg': damaged at \d+: expected .*check --repair"):
        compact(volume)
    assert path.read_bytes() == raw
    assert sum(fetched_or_damaged(volume, number) for number in range(5, 30)) >= 24
    volume.close()


def fetched_or_damaged(volume: Volume, number: int) -> bool:
    try:
        return fetched(volume, key(number)) == (content(number), 1)
    except DamagedBlock:
        return False
