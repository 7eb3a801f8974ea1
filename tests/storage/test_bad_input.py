"""What can go wrong from outside: full disks, failing disks, missing permission, later formats, nonsense. Each has its
own error that says what to do, and changes nothing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from crash_archive import SETTINGS, copy, found_in, make, page
from crash_processes import Peer
from crash_script import Player, Writer
from crash_script import found_in as state_of
from crash_world import KeydirFate, World

import holdfast
from holdfast import ContentKey, Plan, StoreOptions, StoreSettings, VolumeSettings
from holdfast.env import paths
from holdfast.errors import (
    Damaged,
    Denied,
    FormatTooNew,
    HoldfastError,
    MalformedKey,
    UnknownName,
    UsageError,
    VolumeDown,
    VolumeFull,
)
from holdfast.storage.volume import Store, Volume
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.storage.volumes.tree.volume import SPARE_BYTES
from holdfast.testing.forgetful_files import ForgetfulFiles
from holdfast.testing.volumes import plain, sign

pytest_plugins = ["crash_fixtures"]

ORGANIZATIONS = pytest.mark.parametrize("organization", ["log", "tree", "hash", "hashed-log"])


def bytes_of(path: Path) -> dict[Path, bytes]:
    """Every file that matters: RocksDB renames its own at every opening, and the lock's text tells who was last."""
    files = [each.relative_to(path) for each in path.rglob("*") if each.is_file() and each.name != paths.LOCK]
    derived = {paths.KEYDIR, paths.CATALOG}
    return {file: (path / file).read_bytes() for file in files if derived.isdisjoint(file.parts)}


# -- full disks --------------------------------------------------------------------------------------------------------


@ORGANIZATIONS
def test_a_volume_goes_on_when_there_is_space_again(quick: Path, organization: str) -> None:
    """Whatever is written when the disk is full, nothing of it is there afterwards, not even after a power cut."""
    world = World(quick, organization)
    for room in range(0, 2600, 97):
        files = world.start()
        volume, player = world.open(files), Player()
        player.commit(volume, tuple(Store(sign(number), plain(bytes(200))) for number in range(8)))
        files.capacity = _used(files) + room + (SPARE_BYTES if organization == "tree" else 0)
        large = tuple(Store(sign(number), plain(Random(number).randbytes(900))) for number in range(20, 23))
        with pytest.raises(VolumeFull, match=r"no space left for '.*'.*free some space or add a volume"):
            volume.commit(large)
        assert state_of(volume) == player.acknowledged
        player.settle_any(state_of(volume), large)
        cut = files.after_power_cut(Random(room))
        files.capacity = None
        player.commit(volume, large)
        assert state_of(volume) == player.acknowledged
        world.end(volume)
        world.restore_keydir(KeydirFate.KEPT, Random(room))
        world.verify(files.after_power_cut(Random(room)), [player.acknowledged])
        world.restore_keydir(KeydirFate.LOST, Random(room))
        with world.opened(cut) as again:
            assert state_of(again).blocks.keys() <= player.acknowledged.blocks.keys()


def _used(files: ForgetfulFiles) -> int:
    files.capacity = 1 << 40
    return files.capacity - files.free_bytes(Path("/"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with 3 MB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC
    return filler


@ORGANIZATIONS
@pytest.mark.parametrize("before", [0, 5, 15, 28, 40])
def test_a_real_disk_runs_full(small_disk: Path, organization: str, before: int) -> None:
    """Sometimes a segment finds no space, sometimes the keydir: either way it is said, and nothing is half done."""
    path = small_disk / "archive"
    settings = StoreSettings(segment_bytes_max=1 << 20)
    holdfast.init(path, Plan(1, organization, store=settings, buckets=16, bucket_bytes=4096))
    with holdfast.open(path) as archive:
        kept = {archive.contents.put(page(number)): page(number) for number in range(before)}
        filler = _fill(small_disk)
        for number in range(1000, 2000):
            try:
                kept[archive.contents.put(page(number))] = page(number)
            except VolumeFull as error:
                assert "no space left for" in str(error)
                break
        else:
            pytest.fail("the disk never ran full")
        for key, content in kept.items():
            assert archive.contents.get(key) == content
        filler.unlink()
        try:
            key = archive.contents.put(b"there is space again")
        except VolumeDown as error:  # RocksDB does not recover by itself
            assert "open the archive again" in str(error)
        else:
            kept[key] = b"there is space again"
    assert {key: each.content for key, each in found_in(path, read_only=False).items()} == kept
    assert holdfast.check(path).faults == []
    with holdfast.open(path) as archive:
        archive.contents.put(b"as if nothing had been")


# -- failing disks -----------------------------------------------------------------------------------------------------


@ORGANIZATIONS
def test_after_a_failed_sync_nothing_is_built_on_what_it_left(quick: Path, organization: str) -> None:
    """As on Linux, pages of a failed sync count as clean: bytes that it did not write must not be built upon."""
    world = World(quick, organization)
    steps = Writer(seed=3).script(commits=8, compact_every=20)
    undisturbed = world.live(steps, None).files
    for failing in range(1, undisturbed.syncs + 1):
        files = world.start()
        files.fail_sync_at = failing
        player = Player()
        for _ in range(2):  # the second time the process has been started again
            volume: Volume | None = None
            try:
                volume = world.open(files)
                player.settle(state_of(volume))
                player.play(volume, steps)
            except VolumeDown:
                pass
            world.end(volume)
            world.restore_keydir(KeydirFate.KEPT, Random(failing))
        world.restore_keydir(KeydirFate.LOST, Random(failing))
        try:
            world.verify(files.after_power_cut(Random(failing)), player.possible)
        except BaseException as error:
            error.add_note(f"sync {failing} failed")
            raise


def test_a_keydir_that_cannot_be_read_leaves_no_half_entry(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(quick, "log")
    files = world.start()
    volume, player = world.open(files), Player()
    assert isinstance(volume, LogVolume)
    script = Writer(seed=5).script(commits=20, compact_every=50)
    player.play(volume, script[:12])
    slots = volume.keydir.slots

    def failing(signature: bytes) -> object:
        raise Damaged("the keydir cannot be read")

    monkeypatch.setattr(volume.keydir, "slots", failing)
    for number in range(5):
        with pytest.raises(Damaged):
            volume.commit([Store(sign(("new", number)), plain(b"content"))])
    monkeypatch.setattr(volume.keydir, "slots", slots)
    player.play(volume, script[12:])
    world.end(volume)
    world.restore_keydir(KeydirFate.KEPT, Random(0))
    world.verify(files, [player.acknowledged])


# -- permission --------------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody(quick: Path) -> Iterator[Callable[[Path], Peer]]:
    """Starts a process without privileges."""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    quick.parent.chmod(0o755)
    started: list[Peer] = []

    def start(path: Path) -> Peer:
        started.append(Peer(path, temporary=Path("/tmp")))
        assert started[-1].ask("drop") == "ok"
        return started[-1]

    yield start
    for peer in started:
        peer.close()


@ORGANIZATIONS
def test_an_archive_of_somebody_else_can_be_read_only(
    quick: Path,
    nobody: Callable[[Path], Peer],
    organization: str,
) -> None:
    expected = make(quick, 1, organization, 1)
    before = bytes_of(quick)
    peer = nobody(quick)
    for attempt in ("write", "repair"):
        assert peer.ask(attempt).startswith(f"Denied: not permitted to use '{quick / 'writer.lock'}'")
    for key, kept in expected.items():
        peer.expect(key, kept.content)
    assert bytes_of(quick) == before


@pytest.mark.parametrize("name", ["holdfast.toml", "volumes", "volumes/v0/VOLUME", "volumes/v0/000002-1.seg"])
def test_what_may_not_be_read_is_named(quick: Path, nobody: Callable[[Path], Peer], name: str) -> None:
    expected = make(quick, 1, "log", 1)
    (quick / name).chmod(0)
    told = nobody(quick).ask(f"get {next(iter(expected))}")
    assert told.startswith("Denied: not permitted to")
    assert str(quick / name) in told
    assert Denied.exit_code == 8


# -- later formats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("holdfast.toml", b"format = 1", b"format = 2"),
        ("volumes/v0/VOLUME", b"HOLDFAST-VOLUME/1 ", b"HOLDFAST-VOLUME/2 with more to say "),
        ("volumes/v0/000001-1.seg", b"HOLDFAST-SEGMENT/1 ", b"HOLDFAST-SEGMENT/12 with more to say "),
    ],
)
def test_a_later_format_is_left_alone(quick: Path, name: str, old: bytes, new: bytes) -> None:
    make(quick, 1, "log", 1)
    raw = (quick / name).read_bytes()
    assert raw.startswith(old) or old in raw
    (quick / name).write_bytes(raw.replace(old, new, 1))
    before = bytes_of(quick)
    for attempt in (lambda: holdfast.open(quick), lambda: holdfast.open(quick, read_only=True)):
        with pytest.raises(FormatTooNew, match=r"this release reads (version )?1: use a later one"):
            attempt()
    with pytest.raises(FormatTooNew):
        holdfast.check(quick, holdfast.CheckOptions(repair=True))
    assert bytes_of(quick) == before


# -- nonsense ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "v0",
        "v0:",
        ":ab",
        "v0:abc",
        "v0:AB",
        "v0:xy",
        "v0:ab~0",
        "v0:ab~01",
        "v0:ab~100000",
        "v0:ab~",
        "v0:ab~1~2",
        "V0:ab",
        "v 0:ab",
        "-v0:ab",
        "v0:ab\n",
        " v0:ab",
        "v0:" + "ab" * 33,
        "v" * 17 + ":ab",
        "v0/ab",
        "../v0:ab",
        "v0:ａｂ",
    ],
)
def test_malformed_contentkeys(text: str) -> None:
    with pytest.raises(MalformedKey) as raised:
        ContentKey.parse(text)
    assert repr(text) in str(raised.value)
    assert "expected 'volume:signature'" in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("text", ["v0:ab", "v0:00~1", "a-b_c:" + "0f" * 32 + "~99999", "0:ff"])
def test_contentkeys_come_back_as_they_were(text: str) -> None:
    assert str(ContentKey.parse(text)) == text


@pytest.mark.parametrize(
    "attempt, error, message",
    [
        (lambda a: a.contents.put(b"x", StoreOptions(codec="lzw")), UnknownName, "unknown codec 'lzw': known are"),
        (lambda a: a.contents.put(b"x", StoreOptions(volume="v9")), UnknownName, "unknown volume 'v9': known are v0"),
        (lambda a: a.contents.put(b"x", StoreOptions(codec="zstd-dict")), UsageError, "run 'holdfast volume train v0'"),
        (lambda a: a.contents.put(b"x", StoreOptions(replicas=5)), UsageError, "5 replicas need 5 writable volumes"),
        (lambda a: a.compact("v9"), UnknownName, "unknown volume 'v9'"),
        (lambda a: a.train("v9"), UnknownName, "unknown volume 'v9'"),
        (lambda a: a.migrate("v9"), UnknownName, "unknown volume 'v9'"),
        (lambda a: a.migrate("v0"), UsageError, "no other volume is writable"),
        (lambda a: a.add_volume(VolumeSettings("v1", "heap")), UnknownName, "unknown organization 'heap': known are"),
        (lambda a: a.add_volume(VolumeSettings("V1")), UsageError, "bad volume name 'V1'"),
    ],
)
def test_unknown_names_change_nothing(
    quick: Path,
    attempt: Callable[[holdfast.Archive], object],
    error: type[HoldfastError],
    message: str,
) -> None:
    expected = _archive_without_dictionary(quick)
    before = bytes_of(quick)
    with holdfast.open(quick) as archive, pytest.raises(error) as raised:
        attempt(archive)
    assert message in str(raised.value)
    assert found_in(quick) == expected
    assert bytes_of(quick) == before


def _archive_without_dictionary(path: Path) -> object:
    holdfast.init(path, Plan(1, store=StoreSettings(**SETTINGS)))  # type: ignore[arg-type]
    with holdfast.open(path) as archive:
        archive.contents.store_batch([page(number) for number in range(5)])
    return found_in(path)


@pytest.mark.parametrize("what", ["signature", "placement"])
def test_an_archive_with_an_unknown_name_is_not_made(quick: Path, what: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown {what} 'md4': known are "):
        holdfast.init(quick, Plan(store=StoreSettings(**{what: "md4"})))
    assert not quick.exists()


def test_a_truncated_segment_is_named_and_left_alone(quick: Path) -> None:
    expected = make(quick / "archive", 1, "log", 1)
    for size in (0, 50, 96, 400, 1000):
        harmed = copy(quick / "archive", quick / "harmed")
        last = max(harmed.rglob("*.seg"))
        os.truncate(last, size)
        before = bytes_of(harmed)
        with pytest.raises(Damaged) as raised:
            holdfast.open(harmed)
        assert f"segment '{last}' is truncated: expected at least" in str(raised.value)
        assert f"found {size}; run 'holdfast check --repair'" in str(raised.value)
        assert bytes_of(harmed) == before
        with holdfast.open(harmed, read_only=True) as archive:
            readable = [key for key in expected if archive.contents.get(key) == expected[key].content]
        assert len(readable) >= len(expected) - 3
        shutil.rmtree(harmed)
