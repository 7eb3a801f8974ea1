"""A volume on a disk that forgets, with its keydir, which is RocksDB's and thus on the real disk, forgetting too."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from random import Random
from tempfile import gettempdir

from crash_script import Player, State, Step, found_in, totals_of

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.model import Fault
from holdfast.storage.volume import BlockKey, Refer, Release, Store, Volume
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.log.keydir import Keydir, SegmentFacts, Slot
from holdfast.storage.volumes.log.volume import LogVolume
from holdfast.storage.volumes.object.volume import ObjectVolume
from holdfast.storage.volumes.organizations import create_volume, find_organization, open_volume, volume_spec
from holdfast.testing.forgetful_files import ForgetfulFiles, PowerCut
from holdfast.testing.volumes import plain, sign, totals

SETTINGS = StoreSettings(segment_bytes_max=4096, keydir_cache_bytes=1 << 20)


MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(gettempdir())  # RocksDB syncs a lot when it opens


class KeydirFate(Enum):
    """What a power cut does to the keydir, whose log is written but not synced."""

    KEPT = "kept as it was"
    SYNCED = "back to its last sync"
    CUT = "its log cut short somewhere behind the last sync"
    LOST = "lost"


@dataclass(slots=True)
class Cut:
    """What is left when the power has gone."""

    files: ForgetfulFiles
    player: Player
    point: str


class World:
    """One volume, made once; then any number of lives, each ending in a power cut."""

    def __init__(self, root: Path, organization: str) -> None:
        self.directory = root / "volume"
        self.organization = organization
        self._keydir = self.directory / paths.KEYDIR
        self._at_start, self._at_sync = root / "start", root / "sync"
        self._at_cut, self._at_kill, self._at_kill_sync = root / "cut", root / "kill", root / "kill-sync"
        self._files = ForgetfulFiles()
        self._files.make_directory(root)
        create_volume(self.directory, self.volume_settings(root), SETTINGS, self._env(self._files))
        if self._keydir.exists():
            shutil.copytree(self._keydir, self._at_start)

    def volume_settings(self, root: Path) -> VolumeSettings:
        """What is made."""
        return VolumeSettings("v0", self.organization, depth=2, logs=3, buckets=2, bucket_bytes=4096)

    def _env(self, files: ForgetfulFiles) -> Environment:
        return Environment(files=files, random_bytes=Random(1).randbytes)

    @contextmanager
    def opened(self, files: ForgetfulFiles) -> Iterator[Volume]:
        """Opens the volume; whatever happens, the keydir's lock is released."""
        volume = self.open(files)
        try:
            yield volume
            volume.close()
        finally:
            _drop(volume)

    def start(self) -> ForgetfulFiles:
        """The disk as it was when the volume had been made, and the keydir with it."""
        self._put_keydir(self._at_start)
        _replace(self._at_start, self._at_sync)
        return self._files.copy()

    def open(self, files: ForgetfulFiles) -> Volume:
        return open_volume("v0", self.directory, SETTINGS, self._env(files))

    # -- a life ---------------------------------------------------------------------------------------------------

    def points(self, steps: list[Step]) -> int:
        """How many points an undisturbed life has."""
        cut = self.live(steps, fuse=None)
        return cut.files.points

    def live(self, steps: list[Step], fuse: int | None) -> Cut:
        """Plays the script until the power goes. Remembers the keydir as it was then and at its last sync."""
        return self._live(steps, self.start().copy(fuse), Player())

    def live_again(self, killed: Cut, steps: list[Step], fuse: int | None) -> Cut:
        """As `live`, where only the process ended: what it had written is there, though not yet on the disk."""
        self._put_keydir(self._at_kill)
        _replace(self._at_kill_sync, self._at_sync)
        before = killed.player
        player = Player(before.acknowledged, before.possible, dict(before.sent), before.under_way)
        return self._live(steps, killed.files.copy(fuse), player)

    def note_kill(self) -> None:
        """The last life ended by a kill: `live_again` starts from here."""
        _replace(self._at_cut, self._at_kill)
        _replace(self._at_sync, self._at_kill_sync)

    def _live(self, steps: list[Step], files: ForgetfulFiles, player: Player) -> Cut:
        volume: Volume | None = None
        with self.noting_syncs(), suppress(PowerCut):
            volume = self.open(files)
            if player.under_way is not None:
                player.retry(volume)
            elif len(player.possible) > 1:  # what was under way at a kill has happened or not, for good
                player.settle(found_in(volume))
            player.play(volume, steps)
            volume.close()
        self.end(volume)
        return Cut(files, player, files.history[-1])

    def end(self, volume: Volume | None) -> None:
        """The process is no more; the keydir is remembered as it was."""
        _replace(self._keydir, self._at_cut)
        _drop(volume)

    @contextmanager
    def noting_syncs(self) -> Iterator[None]:
        """Whatever of the keydir is synced survives: a copy is taken at every sync."""
        world, sync = self, Keydir.sync

        def noted_sync(keydir: Keydir) -> None:
            sync(keydir)
            if keydir.path == world._keydir:
                _replace(world._keydir, world._at_sync)

        Keydir.sync = noted_sync  # type: ignore[method-assign]
        try:
            yield
        finally:
            Keydir.sync = sync  # type: ignore[method-assign]

    # -- the keydir -----------------------------------------------------------------------------------------------

    def restore_keydir(self, fate: KeydirFate, random: Random) -> None:
        match fate:
            case KeydirFate.KEPT:
                self._put_keydir(self._at_cut)
            case KeydirFate.SYNCED:
                self._put_keydir(self._at_sync)
            case KeydirFate.CUT:
                self._put_keydir(self._at_cut)
                self._cut_log(random)
            case KeydirFate.LOST:
                self._lose_keydir()

    def _cut_log(self, random: Random) -> None:
        for log in self._keydir.glob("*.log"):
            twin = self._at_sync / log.name
            least = twin.stat().st_size if twin.exists() else 0
            with log.open("r+b") as file:
                file.truncate(random.randint(min(least, log.stat().st_size), log.stat().st_size))

    def _put_keydir(self, source: Path) -> None:
        _replace(source, self._keydir)

    def _lose_keydir(self) -> None:
        shutil.rmtree(self._keydir, ignore_errors=True)

    # -- what must hold afterwards --------------------------------------------------------------------------------

    def verify(self, files: ForgetfulFiles, possible: list[State]) -> State:
        """Opens the volume after a cut: all that was acknowledged is there, it is sound, and it goes on working."""
        with self.opened(files) as volume:
            found = found_in(volume)
            assert found in possible, _difference(found, possible)
            assert totals(volume) == totals_of(found)
        assert self.faults(files) == []
        with self.opened(files) as volume:
            self._use(volume, found)
            kept = index_of(volume)
        if self.organization in ("log", "hashed-log"):
            self._lose_keydir()
            with self.opened(files) as volume:
                assert index_of(volume) == kept, "a rebuilt keydir says something else"
        assert self.faults(files) == []
        return found

    def verify_tickets(self, files: ForgetfulFiles, player: Player, found: State) -> None:
        """After `verify`: every commit with a ticket that is handed in again has happened once."""
        with self.opened(files) as volume:
            player.send_again(volume, found)
        assert self.faults(files) == []

    def _use(self, volume: Volume, found: State) -> None:
        """Some operations, undone again."""
        key = BlockKey(sign("after the cut"))
        volume.commit([Store(key.signature, plain(b"works"))])
        volume.commit([Refer(each) for each in found.blocks])
        find_organization(self.organization).compact(volume, 0.0, None)
        volume.commit([Release(each) for each in found.blocks])
        volume.commit([Release(key)])
        assert found_in(volume) == found
        assert totals(volume) == totals_of(found)

    def faults(self, files: ForgetfulFiles) -> list[Fault]:
        spec = volume_spec("v0", self.directory, SETTINGS, self._env(files))
        return list(find_organization(self.organization).check(spec, CheckProgress()))


def _replace(source: Path, target: Path) -> None:
    """Makes the target a copy of the source; nothing, if that is nothing."""
    shutil.rmtree(target, ignore_errors=True)
    if source.exists():
        shutil.copytree(source, target)


def _drop(volume: Volume | None) -> None:
    """As if the process had ended: the keydir's lock goes."""
    if isinstance(volume, ObjectVolume):
        volume.uploader.close()
    if isinstance(volume, LogVolume):
        with suppress(Exception):
            volume.keydir.abandon()


def index_of(volume: Volume) -> tuple[dict[bytes, tuple[Slot, ...]], dict[int, SegmentFacts]]:
    """Everything the keydir of a log volume says of blocks and segments, save what depends on entries long gone."""
    if not isinstance(volume, LogVolume):
        return {}, {}
    facts = volume.keydir.segments()
    return dict(volume.keydir.all_slots()), {number: replace(facts[number], first_serial=0) for number in facts}


def _difference(found: State, possible: list[State]) -> str:
    nearest = possible[-1]
    lines = [f"found a state that is none of {len(possible)} possible ones; compared with the last:"]
    for key in found.blocks.keys() | nearest.blocks.keys():
        one, other = found.blocks.get(key), nearest.blocks.get(key)
        if one != other:
            lines.append(f"  {key}: found {one and one[1:]}, expected {other and other[1:]}")
    if found.dictionaries.keys() != nearest.dictionaries.keys():
        lines.append(f"  dictionaries {list(found.dictionaries)}, expected {list(nearest.dictionaries)}")
    return "\n".join(lines)
