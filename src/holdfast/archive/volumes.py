"""The volumes of an archive: opened, added, maintained, reported on (B5), and taken over."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from holdfast import config
from holdfast.archive.directory import lock_archive
from holdfast.arguments import checked
from holdfast.config import Settings, SettingsWatch, VolumeSettings
from holdfast.env import REAL, Environment, WriterLock, paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import HoldfastError, UnknownName, UsageError, VolumeDown
from holdfast.model import VolumeState, volume_name
from holdfast.storage.store.connector_watch import ConnectorWatcher
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Active, Activity, ReadableVolume, VolumeStat
from holdfast.storage.volumes.local import Compaction, Progress
from holdfast.storage.volumes.organizations import compact_volume, create_volume

if TYPE_CHECKING:
    from holdfast.storage.codec import Dictionary
    from holdfast.storage.maintenance.migrate import Migration

ANSWER_S = 2.0
DOWN = Activity("down")
IDLING = Activity("idling")
STORING = Activity("storing")


@dataclass(frozen=True, slots=True)
class VolumeReport:
    """One row of `holdfast volume list`."""

    settings: VolumeSettings
    stat: VolumeStat | None  # None: the volume is down
    reason: str = ""  # why it is down
    activity: Activity = DOWN

    @property
    def place(self) -> str:
        """Its location: an address, a URL or a directory; empty: the default place in the archive."""
        return self.settings.address or self.settings.url or self.settings.path

    @property
    def capacity_bytes(self) -> int | None:
        """Bytes on disk plus free space; None if the volume is down."""
        return None if self.stat is None else self.stat.disk_bytes + self.stat.free_bytes

    @property
    def fragmentation(self) -> float | None:
        """The share of its bytes on disk that compaction would free; None if it is down."""
        if self.stat is None:
            return None
        return min(1.0, self.stat.dead_bytes / self.stat.disk_bytes) if self.stat.disk_bytes else 0.0


class _StatusRequest(NamedTuple):
    """A request to one volume."""

    started_s: float
    report: Future[VolumeReport]


class VolumeReports:
    """Queries the state of a store's volumes. Any thread may call.

    Volumes on this machine are read directly. Remote ones are queried in parallel threads, within the caller's time
    limit: a slow one is reported as down, with the reason, and is not queried again before it has responded. So a
    report never waits for more than one limit, and requests never pile up.
    """

    def __init__(self, instance: BlockStore, lock_of: Callable[[VolumeSettings], Path], env: Environment) -> None:
        """`lock_of` gives the lock that is held while a volume of this machine is written."""
        self._instance = instance
        self._lock_of = lock_of
        self._env = env
        self._pending: dict[str, _StatusRequest] = {}
        self._lock = threading.Lock()

    def take(self, answer_s: float = ANSWER_S) -> list[VolumeReport]:
        """One for each volume, in the order of the settings; returns after `answer_s` at the latest."""
        settings = self._instance.settings.volume
        deadline = self._env.monotonic() + answer_s
        requests = {each.name: self._request(each) for each in settings if each.address or each.url}
        return [
            self._result(each, requests[each.name], deadline) if each.name in requests else self._report(each)
            for each in settings
        ]

    def _request(self, settings: VolumeSettings) -> _StatusRequest:
        with self._lock:
            pending = self._pending.get(settings.name)
            if pending is not None and not pending.report.done():
                return pending
            request = self._pending[settings.name] = _StatusRequest(self._env.monotonic(), Future())

        def run() -> None:
            request.report.set_result(self._report(settings))

        # A daemon: a volume that never responds must not keep the process alive.
        threading.Thread(target=run, name=f"holdfast-report-{settings.name}", daemon=True).start()
        return request

    def _result(self, settings: VolumeSettings, request: _StatusRequest, deadline_s: float) -> VolumeReport:
        try:
            return request.report.result(max(0.0, deadline_s - self._env.monotonic()))
        except TimeoutError:
            waited_s = self._env.monotonic() - request.started_s
            return VolumeReport(settings, None, f"no answer within {waited_s:.1f} s")

    def _report(self, settings: VolumeSettings) -> VolumeReport:
        volume = self._instance.volumes.get(settings.name)
        if volume is None:
            return VolumeReport(settings, None, str(self._instance.down.get(settings.name, "it is not open")))
        try:
            stat, activity = self._status(volume, settings)
        except (HoldfastError, OSError) as error:  # also one whose directory has gone
            return VolumeReport(settings, None, str(error).removeprefix(f"volume {settings.name!r} is down: "))
        return VolumeReport(settings, stat, "", activity)

    def _status(self, volume: ReadableVolume, settings: VolumeSettings) -> tuple[VolumeStat, Activity]:
        if isinstance(volume, Active):
            return volume.status()
        is_written = WriterLock.holder(self._lock_of(settings)) is not None
        return volume.stat(), STORING if is_written else IDLING


class OpenVolumes(ABC):
    """Open volumes and their contents, the base of an archive and a connection.

    A context manager that closes the volumes. `contents` and `volumes` are thread-safe; maintenance is for one thread
    at a time.
    """

    instance: BlockStore
    contents: Contents
    _closing: ExitStack
    _watcher: ConnectorWatcher
    _reports: VolumeReports

    def _open_volumes(self, root: Path, watch: SettingsWatch, env: Environment, *, writable: bool) -> None:
        """`root` is where the store keeps derived files, and volumes without a place of their own."""
        self.instance = BlockStore(root, watch.settings, env, writable=writable)
        self._closing.callback(self.instance.close)
        self.contents = Contents(self.instance)
        self._closing.callback(self.contents.close)
        self._reports = VolumeReports(self.instance, self._lock_of, env)
        self._watcher = ConnectorWatcher(self.instance, watch)
        self._closing.callback(self._watcher.close)

    @property
    def settings(self) -> Settings:
        return self.instance.settings

    @abstractmethod
    def _lock_of(self, volume: VolumeSettings) -> Path:
        """The lock that is held while a volume of this machine is written."""

    @abstractmethod
    def _require_writable(self) -> None:
        """Raises Denied if nothing may be changed."""

    @abstractmethod
    def set_state(self, name: str, state: VolumeState | str) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return."""

    @checked
    def volumes(self, answer_s: float = ANSWER_S) -> list[VolumeReport]:
        """A report per volume, in the order of the connector; one that does not respond in time counts as down."""
        return self._reports.take(answer_s)

    @checked
    def compact(self, name: str, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
        """Reclaims the space of deleted contents in a volume. Other threads may read and store meanwhile."""
        self._require_writable()
        return compact_volume(self.instance.writer(name), dead_share_min, progress)

    @checked
    def migrate(self, name: str, targets: Sequence[str] | str = (), progress: Progress | None = None) -> Migration:
        """Makes a volume read-only and moves all its blocks to others; their contentkeys stay valid."""
        from holdfast.storage.maintenance.migrate import Migrator

        self._require_writable()
        migrator = Migrator(self.instance, name, [targets] if isinstance(targets, str) else targets)
        self.set_state(name, VolumeState.READ_ONLY)
        return migrator.run(progress)

    @checked
    def train(self, name: str) -> Dictionary:
        """Trains a compression dictionary from a volume's contents, for later ones."""
        from holdfast.storage.maintenance.train import train

        self._require_writable()
        return train(self.instance, name)

    def close(self) -> None:
        """Idempotent. Acknowledged data is safe without it; closing makes the next opening fast."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def add_volume(
    root: Path, store: BlockStore, watcher: ConnectorWatcher, volume: VolumeSettings, *, force: bool
) -> None:
    """Adds an empty volume, or an existing one on a server, to the archive at `root`. Durable on return.

    Raises VolumeDown if the server does not respond, unless `force` is set.
    """
    volume_name(volume.name)
    config.check_place(volume)
    with watcher.lock:
        settings, path, files = store.settings, root / paths.SETTINGS, store.env.files
        if settings.volume_settings(volume.name) is not None:
            raise UsageError(f"volume {volume.name!r} exists already")
        config.reject_twins((*settings.volume, volume), path)
        if not volume.address:
            create_volume(store.directory(volume), volume, settings.store, store.env)
        elif not force:
            _require_answer(root, store, volume)
        replace_file(files, path, config.with_volume(read_file(files, path).decode(), volume).encode())
        store.add(volume)


def _require_answer(root: Path, store: BlockStore, volume: VolumeSettings) -> None:
    """Raises VolumeDown, and whatever else keeps the volume from being used: that it is one of ours already."""
    ours = tuple(each for each in store.settings.volume if each.address)
    hasty = replace(store.settings.remote, retry_s=0)
    together = BlockStore(root, replace(store.settings, volume=(*ours, volume), remote=hasty), store.env, writable=True)
    try:
        for each in ours:
            with suppress(VolumeDown):
                together.volume(each.name).stat()
        together.volume(volume.name).stat()
    finally:
        together.close()


def take_over(path: str | Path, name: str, *, env: Environment = REAL) -> None:
    """Makes the archive the owner of a volume in an object store, whoever owned it before. Durable on return.

    The archive need not be able to open: its only volume may be the one that was lost. Another owner that still lives
    is refused from its next upload on.
    """
    from holdfast.storage.volumes.object.volume import take_over as take_over_volume

    root = Path(path)
    settings = config.load(root / paths.SETTINGS)
    volume = settings.volume_settings(name)
    if volume is None:
        raise UnknownName(f"unknown volume {name!r}: known are {', '.join(v.name for v in settings.volume)}")
    if not volume.url:
        raise UsageError(f"volume {name!r} is not in an object store: it has no 'url'")
    with lock_archive(root):
        directory = root / volume.path if volume.path else paths.volume_directory(root, name)
        env.files.remove(root / paths.FILTERS)  # they may no longer match the volume
        take_over_volume(directory, volume, env)
