"""The archive: a directory that holds everything, and the library's front door.

    with holdfast.open("my-archive") as archive:
        key = archive.contents.put(b"...")

One process writes to an archive at a time; any number read it meanwhile (`read_only=True`).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast import config
from holdfast.config import Settings, StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment, WriterLock
from holdfast.env.files import read_file, replace_file
from holdfast.errors import Denied, UnknownName, UsageError
from holdfast.model import VolumeState, volume_name
from holdfast.storage import layout
from holdfast.storage.check import Checker, CheckOptions, CheckReport
from holdfast.storage.codec import Dictionary
from holdfast.storage.contents import Contents
from holdfast.storage.instance import Instance
from holdfast.storage.migrate import Migration, Migrator
from holdfast.storage.organizations import compact_volume, create_volume
from holdfast.storage.organizations.compaction import Compaction, Progress
from holdfast.storage.placement import find_placement
from holdfast.storage.repair import repair_store
from holdfast.storage.signature import find_signature
from holdfast.storage.training import train
from holdfast.storage.volume import VolumeStat


@dataclass(frozen=True, slots=True)
class VolumeReport:
    """One row of `holdfast volume list`."""

    settings: VolumeSettings
    stat: VolumeStat | None  # None: the volume is down
    reason: str = ""  # why it is down


class Archive:
    """An open archive. `contents` is thread-safe; the methods that change volumes are for one thread at a time."""

    def __init__(self, path: str | Path, *, read_only: bool = False, env: Environment = REAL) -> None:
        self.path = Path(path)
        self.env = env
        self.read_only = read_only
        settings = config.load(self.path / layout.SETTINGS)
        self._lock = None if read_only else WriterLock(self.path / layout.LOCK, _purpose())
        try:
            self.instance = Instance(self.path, settings, env, writable=not read_only)
        except BaseException:
            self._release()
            raise
        self.contents = Contents(self.instance)
        self._closed = False

    @property
    def settings(self) -> Settings:
        return self.instance.settings

    # -- volumes ------------------------------------------------------------------------------------------------

    def volumes(self) -> Iterator[VolumeReport]:
        """The volumes in the order of the connector, with how full they are."""
        for settings in self.settings.volume:
            volume = self.instance.volumes.get(settings.name)
            reason = str(self.instance.down.get(settings.name, ""))
            yield VolumeReport(settings, volume.stat() if volume else None, reason)

    def add_volume(self, volume: VolumeSettings) -> None:
        """Adds an empty volume; new contents may go there at once. Durable on return."""
        self._require_writable()
        volume_name(volume.name)
        if self.settings.volume_settings(volume.name) is not None:
            raise UsageError(f"volume {volume.name!r} exists already")
        create_volume(self.instance.directory(volume), volume, self.settings.store, self.env)
        path = self.path / layout.SETTINGS
        replace_file(self.env.files, path, config.with_volume(self._text(), volume).encode())
        self.instance.add(volume)

    def set_state(self, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only. Durable on return."""
        self._require_writable()
        if self.settings.volume_settings(name) is None:
            raise UnknownName(f"unknown volume {name!r}: known are {', '.join(v.name for v in self.settings.volume)}")
        path = self.path / layout.SETTINGS
        replace_file(self.env.files, path, config.with_state(self._text(), name, state).encode())
        volumes = tuple(replace(each, state=state) if each.name == name else each for each in self.settings.volume)
        self.instance.settings = replace(self.settings, volume=volumes)

    def compact(self, name: str, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
        """Reclaims the space of deleted contents in a volume. Reading and storing may go on in other threads."""
        self._require_writable()
        return compact_volume(self.instance.writer(name), dead_share_min, progress)

    def migrate(self, name: str, targets: Sequence[str] = (), progress: Progress | None = None) -> Migration:
        """Makes a volume read-only and moves all its blocks to others; their contentkeys stay valid."""
        self._require_writable()
        migrator = Migrator(self.instance, name, targets)
        self.set_state(name, VolumeState.READ_ONLY)
        return migrator.run(progress)

    def train(self, name: str) -> Dictionary:
        """Trains a compression dictionary from a volume's contents, for those to come."""
        self._require_writable()
        return train(self.instance, name)

    def _text(self) -> str:
        return read_file(self.env.files, self.path / layout.SETTINGS).decode()

    def _require_writable(self) -> None:
        if self.read_only:
            raise Denied("the archive is open for reading only")

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Everything acknowledged is safe with or without this; it makes the next opening fast. Twice does no harm."""
        if self._closed:
            return
        self._closed = True
        try:
            self.contents.close()
            self.instance.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(path: str | Path, *, read_only: bool = False) -> Archive:
    """Opens an archive, for writing unless `read_only`. Raises ArchiveNotFound, or Busy if another process writes."""
    return Archive(path, read_only=read_only)


def check(
    path: str | Path,
    options: CheckOptions = CheckOptions(),  # noqa: B008
    progress: Progress | None = None,
    *,
    env: Environment = REAL,
) -> CheckReport:
    """Checks the whole store, also while another process writes; `repair` needs the writer's lock, and mends it."""
    root = Path(path)
    settings = config.load(root / layout.SETTINGS)
    for name in options.volumes:
        if settings.volume_settings(name) is None:
            raise UnknownName(f"unknown volume {name!r}: known are {', '.join(v.name for v in settings.volume)}")
    checker = Checker(root, settings, env, options)
    if not options.repair:
        return checker.check(progress)
    lock = WriterLock(root / layout.LOCK, _purpose())
    try:
        return repair_store(checker, progress)
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new archive shall be like."""

    volumes: int = 1
    organization: str = "log"
    depth: int = 3
    store: StoreSettings = field(default_factory=StoreSettings)


def init(path: str | Path, plan: Plan = Plan(), *, env: Environment = REAL) -> None:  # noqa: B008
    """Makes an empty archive, with volumes v0, v1, ... The directory may exist, but not hold an archive."""
    root = Path(path)
    find_signature(plan.store.signature)
    find_placement(plan.store.placement)
    if not 1 <= plan.volumes <= 1024:
        raise UsageError(f"bad number of volumes {plan.volumes}: 1 to 1024")
    settings_path = root / layout.SETTINGS
    if env.files.exists(settings_path):
        raise UsageError(f"'{root}' holds an archive already")
    if env.files.names(root / layout.VOLUMES):
        raise UsageError(f"'{root / layout.VOLUMES}' is not empty: the rest of an archive without '{layout.SETTINGS}'?")
    volumes = tuple(
        VolumeSettings(f"v{number}", organization=plan.organization, depth=plan.depth) for number in range(plan.volumes)
    )
    text = config.new_text(Settings(plan.store, volumes))
    config.parse(tomllib.loads(text), settings_path)  # raises before anything is made
    for volume in volumes:
        create_volume(layout.volume_directory(root, volume.name), volume, plan.store, env)
    replace_file(env.files, settings_path, text.encode())


def _purpose() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:150] if sys.argv and sys.argv[0] else "a Python program"
