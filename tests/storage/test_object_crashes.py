"""Kills and power cuts: what was acknowledged is there, in the directory or in the store, and never in neither."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import object_child
import pytest
from crash_script import State, Writer
from crash_world import KeydirFate, World
from object_world import content, opened, settings

from holdfast.config import VolumeSettings
from holdfast.env import REAL, paths
from holdfast.storage.volume import Volume
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.object.volume import ObjectVolume
from holdfast.storage.volumes.organizations import find_organization, volume_spec
from holdfast.testing.forgetful_files import ForgetfulFiles
from holdfast.testing.volumes import scanned

pytest_plugins = ["crash_fixtures", "object_fixtures"]


def child(what: str, directory: Path, url: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, object_child.__file__, what, str(directory), url, str(number)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def killed_again_and_again(directory: Path, url: str, rounds: int) -> None:
    held: set[int] = set()
    doubtful: set[int] = set()  # under way when the process was killed
    first, random = 0, Random(rounds)
    for _ in range(rounds):
        with child("work", directory, url, first) as process:
            assert process.stdout is not None
            for _ in range(random.randrange(2, 60)):
                what, *numbers = process.stdout.readline().split()
                if what == "stored":
                    held |= {int(each) for each in numbers}
                    first = int(numbers[-1]) + 1
                elif what == "released":
                    held.discard(int(numbers[0]))
            process.kill()
            rest = process.stdout.read().split("\n")
        doubtful = {int(each) for line in rest for each in line.split()[1:]} | set(range(first, first + 10))
        doubtful |= {first - 5} if first else set()
        volume = opened(directory, url)
        found = {data for _, data, _ in scanned(volume)}
        volume.close()
        for number in held - doubtful:
            assert content(number) in found, f"content {number} was acknowledged"
        held = {number for number in held | doubtful if content(number) in found}
        first = max([first, *(each + 1 for each in doubtful)])
        first += -first % 5
    spec = volume_spec("v0", directory, settings(), REAL)
    assert list(find_organization("log").check(spec, CheckProgress())) == []


def test_a_process_that_is_killed_while_it_uploads_loses_nothing(quick: Path, url: str) -> None:
    killed_again_and_again(quick, url, rounds=4)


@pytest.mark.soak
def test_a_process_that_is_killed_many_times_loses_nothing(quick: Path, url: str) -> None:
    killed_again_and_again(quick, url, rounds=100)


def test_reading_a_large_segment_takes_little_memory(quick: Path, url: str) -> None:
    with child("measure", quick, url, 96) as process:
        assert process.stdout is not None
        grown_megabytes = int(process.stdout.read())
    assert grown_megabytes < 80


# -- power cuts --------------------------------------------------------------------------------------------------------


class ObjectWorld(World):
    """A volume in an object store whose directory forgets; the store does not."""

    def __init__(self, root: Path) -> None:
        self.store, self._store_at_start, self._store_at_cut = root / "store", root / "store-start", root / "store-cut"
        super().__init__(root, "log")
        shutil.copytree(self.store, self._store_at_start)

    def volume_settings(self, root: Path) -> VolumeSettings:
        return VolumeSettings("v0", url=f"file://{self.store}")

    def start(self) -> ForgetfulFiles:
        _copy(self._store_at_start, self.store)
        return super().start()

    def end(self, volume: Volume | None) -> None:
        super().end(volume)
        _copy(self.store, self._store_at_cut)

    def restore_keydir(self, fate: KeydirFate, random: Random) -> None:
        super().restore_keydir(fate, random)
        _copy(self._store_at_cut, self.store)

    def _use(self, volume: Volume, found: State) -> None:
        super()._use(volume, found)
        assert isinstance(volume, ObjectVolume)
        volume.seal()  # as closing would: what the keydir says is compared with what it says after the next opening

    def segments(self) -> set[str]:
        return {path.name for path in (self.store / "segments").rglob("*.seg")}


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def cut_at_points(root: Path, seed: int, every: int) -> None:
    world = ObjectWorld(root)
    steps = Writer(seed).script(commits=14, compact_every=6)
    points = world.points(steps)
    assert world.segments(), "something is uploaded"
    for fuse in range(1 + seed % every, points + 1, every):
        cut = world.live(steps, fuse)
        fate = (KeydirFate.KEPT, KeydirFate.SYNCED, KeydirFate.LOST)[fuse // every % 3]
        random = Random(1000 * fuse + seed)
        disk = cut.files.after_power_cut(random)
        world.restore_keydir(fate, random)
        try:
            world.verify(disk, cut.player.possible)
        except BaseException as error:
            error.add_note(f"cut at point {fuse} of seed {seed}, {cut.point}; keydir {fate.value}")
            raise


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the power is off there, too
def test_a_power_cut_loses_nothing_that_was_acknowledged(quick: Path) -> None:
    cut_at_points(quick, seed=1, every=9)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_power_cut_at_every_point_loses_nothing(quick: Path, seed: int) -> None:
    cut_at_points(quick, seed, every=1)


def test_the_file_here_goes_only_when_the_upload_is_noted(quick: Path) -> None:
    """In the order of what is made durable: segment, note of the upload, removal."""
    world = ObjectWorld(quick)
    cut = world.live(Writer(3).script(commits=30, compact_every=40), None)
    history = cut.files.history
    removed = [at for at, point in enumerate(history) if point == f"remove {world.directory / '000001.seg'}"]
    noted = f"rename {world.directory / (paths.UPLOADED + '.open')} {world.directory / paths.UPLOADED}"
    assert removed
    before = history[: removed[0]]
    assert before[-2:] == [noted, f"sync_directory {world.directory}"]
