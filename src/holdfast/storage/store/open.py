"""Opening volumes: on this machine, on another one, or in an object store, as the connector says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.config import RemoteSettings, StoreSettings, VolumeSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.storage.identity import VolumeNames
from holdfast.storage.volume import ReadableVolume
from holdfast.storage.volumes.organizations import open_volume, open_volume_reader


class OpenedVolume(NamedTuple):
    """An open volume, and the lock that keeps other processes from writing to its directory."""

    volume: ReadableVolume
    lock: WriterLock | None = None

    def close(self) -> None:
        """The lock is released whatever happens."""
        try:
            self.volume.close()
        finally:
            if self.lock is not None:
                self.lock.release()


Opener = Callable[[VolumeSettings], OpenedVolume]


@dataclass(frozen=True, slots=True)
class VolumeOpener:
    """Opens the volumes of an archive. Raises VolumeDown, Busy, or what is wrong with the volume."""

    root: Path
    store: StoreSettings
    remote: RemoteSettings
    env: Environment
    writable: bool
    names: VolumeNames = field(default_factory=VolumeNames)  # of the volumes on other machines

    def __call__(self, settings: VolumeSettings) -> OpenedVolume:
        if settings.address:
            from holdfast.storage.volumes.remote.client import RemoteVolume

            remote = RemoteVolume(settings.name, settings.address, self.remote, self.env, self.root)
            remote.expect(self.store.signature, self.names)
            return OpenedVolume(remote)
        directory = volume_path(self.root, settings)
        if settings.url:
            from holdfast.storage.volumes.object import require_attached

            require_attached(settings, directory, self.env)
        if not self.writable:
            return OpenedVolume(open_volume_reader(settings.name, directory, self.store, self.env))
        return self._open_locked(settings, directory)

    def _open_locked(self, settings: VolumeSettings, directory: Path) -> OpenedVolume:
        """An archive and a volume server may both know the directory: one of them writes to it."""
        lock = WriterLock(directory / paths.LOCK, "an archive", subject="volume") if directory.is_dir() else None
        try:
            return OpenedVolume(open_volume(settings.name, directory, self.store, self.env), lock)
        except BaseException:
            if lock is not None:
                lock.release()
            raise


def volume_path(root: Path, settings: VolumeSettings) -> Path:
    """The directory of a volume on this machine."""
    return root / settings.path if settings.path else paths.volume_directory(root, settings.name)
