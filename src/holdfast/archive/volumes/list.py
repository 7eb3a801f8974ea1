"""The list of an archive's volumes, in its settings or in its connector: volumes added, their states changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast import config
from holdfast.config import VolumeSettings
from holdfast.env import paths
from holdfast.env.files import read_file, replace_file
from holdfast.errors import UsageError, VolumeDown
from holdfast.model import VolumeState, volume_name
from holdfast.storage.store.connector_watch import ConnectorWatcher
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volumes.organizations import create_volume


class VolumeList:
    """For one thread at a time. What it changes in a file holds in the instance, too."""

    def __init__(self, root: Path, instance: BlockStore, watcher: ConnectorWatcher) -> None:
        self._root = root
        self._instance = instance
        self._watcher = watcher
        self._env = instance.env

    def add(self, volume: VolumeSettings, *, force: bool) -> None:
        """Adds an empty volume, or one that a server has. Durable on return. Raises VolumeDown unless with `force`."""
        volume_name(volume.name)
        config.check_place(volume)
        with self._watcher.lock:
            settings, path = self._instance.settings, self._root / paths.SETTINGS
            if settings.volume_settings(volume.name) is not None:
                raise UsageError(f"volume {volume.name!r} exists already")
            config.reject_twins((*settings.volume, volume), path)
            if not volume.address:
                create_volume(self._instance.directory(volume), volume, settings.store, self._env)
            elif not force:
                self._require_answer(volume)
            text = read_file(self._env.files, path).decode()
            replace_file(self._env.files, path, config.with_volume(text, volume).encode())
            self._instance.add(volume)

    def _require_answer(self, volume: VolumeSettings) -> None:
        """Raises VolumeDown, and whatever else keeps the volume from being used: that it is one of ours already."""
        settings = self._instance.settings
        ours = tuple(each for each in settings.volume if each.address)
        hasty = replace(settings.remote, retry_s=0)
        settings = replace(settings, volume=(*ours, volume), remote=hasty)
        together = BlockStore(self._root, settings, self._env, writable=True)
        try:
            for each in ours:
                with suppress(VolumeDown):
                    together.volume(each.name).stat()
            together.volume(volume.name).stat()
        finally:
            together.close()

    def set_state(self, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return."""
        self._watcher.set_state(self._list_of(name), name, state)

    def _list_of(self, name: str) -> Path:
        """The file that lists a volume: the archive's own, or its connector."""
        own = self._root / paths.SETTINGS
        listed = config.load(own).volume_settings(name) is not None
        return own if listed else self._root / self._instance.settings.connector
