"""Follows the settings of an open store: volumes are added, removed and changed while it runs (W9).

A thread polls the files every `remote.follow_s` seconds. A new volume is opened and takes contents at once. A volume
that became read-only takes no more. A volume that is no longer listed is closed after its readers have finished.
Volumes that could not be opened are tried again.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

from holdfast.config import Settings, SettingsWatch, is_xml, with_state
from holdfast.env.files import read_file, replace_file
from holdfast.errors import HoldfastError, UnknownName, UsageError
from holdfast.model import VolumeState
from holdfast.storage.store.store import BlockStore

log = logging.getLogger("holdfast.storage")


class ConnectorWatcher:
    """Applies changed settings to a store, from `start` to `close`.

    Hold `lock` to change the settings of the store in another way.
    """

    def __init__(self, store: BlockStore, watch: SettingsWatch) -> None:
        self.lock = threading.Lock()
        self._store = store
        self._watch = watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connector", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> bool:
        """Reads the files now. True if something changed."""
        with self.lock:
            settings = self._watch.poll()
            if settings is not None:
                self._apply(settings)
            return settings is not None

    def _run(self) -> None:
        while not self._ended.wait(self._store.settings.remote.follow_s):
            try:
                self.poll()
                self._store.reload_if_due()
            except HoldfastError as error:
                log.warning("the connector could not be applied: %s", error)

    def _apply(self, settings: Settings) -> None:
        store = self._store
        before, after = ({each.name for each in each.volume} for each in (store.settings, settings))
        store.apply(replace(store.settings, volume=settings.volume, remote=settings.remote))
        for name in sorted(after - before):
            log.info("volume %r is new", name)
        for name in sorted(before - after):
            log.info("volume %r is no longer listed", name)

    def set_state(self, file: Path, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return.

        Raises UnknownName, and UsageError if the file is XML.
        """
        store = self._store
        listed = store.settings.volume
        if store.settings.volume_settings(name) is None:
            raise UnknownName(f"unknown volume {name!r}: known are {', '.join(each.name for each in listed)}")
        with self.lock:
            data = read_file(store.env.files, file)
            if is_xml(data):
                raise UsageError(f"volume {name!r} is listed in '{file}', which is XML: change its state there")
            replace_file(store.env.files, file, with_state(data.decode(), name, state).encode())
            store.set_state(name, state)

    def close(self) -> None:
        """Returns when no change is in progress. Idempotent."""
        self._ended.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()
