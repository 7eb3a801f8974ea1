"""An instance that follows its settings: volumes come, go and change while it is open (W9).

A thread looks at the files every `remote.follow_s` seconds. A volume that is new is opened, and may get contents at
once; one that became read-only takes no more of them; one that is no longer listed is closed when nobody can be reading
from it any more. Volumes that could not be opened are tried again.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

from holdfast.config import ConnectorWatch, Settings, is_xml, with_state
from holdfast.env.files import read_file, replace_file
from holdfast.errors import HoldfastError, UnknownName, UsageError
from holdfast.model import VolumeState
from holdfast.storage.store.store import BlockStore

log = logging.getLogger("holdfast.storage")


class ConnectorWatcher:
    """Keeps an instance as its settings say, from `start` to `close`.

    Whoever changes the settings of the instance in another way holds `lock` meanwhile.
    """

    def __init__(self, instance: BlockStore, watch: ConnectorWatch) -> None:
        self.lock = threading.Lock()
        self._instance = instance
        self._watch = watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connector", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def poll(self) -> bool:
        """Looks now; whether something changed."""
        with self.lock:
            settings = self._watch.poll()
            if settings is not None:
                self._take(settings)
            return settings is not None

    def _run(self) -> None:
        while not self._ended.wait(self._instance.settings.remote.follow_s):
            try:
                self.poll()
                self._instance.look_around()
            except HoldfastError as error:
                log.warning("the volumes could not be changed as the connector says: %s", error)

    def _take(self, settings: Settings) -> None:
        instance = self._instance
        before, after = ({each.name for each in each.volume} for each in (instance.settings, settings))
        instance.apply(replace(instance.settings, volume=settings.volume, remote=settings.remote))
        for name in sorted(after - before):
            log.info("volume %r is new", name)
        for name in sorted(before - after):
            log.info("volume %r is no longer listed", name)

    def set_state(self, file: Path, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return.

        Raises UnknownName, and UsageError if the file is XML.
        """
        instance = self._instance
        listed = instance.settings.volume
        if instance.settings.volume_settings(name) is None:
            raise UnknownName(f"unknown volume {name!r}: known are {', '.join(each.name for each in listed)}")
        with self.lock:
            data = read_file(instance.env.files, file)
            if is_xml(data):
                raise UsageError(f"volume {name!r} is listed in '{file}', which is XML: change its state there")
            replace_file(instance.env.files, file, with_state(data.decode(), name, state).encode())
            volumes = tuple(replace(each, state=state) if each.name == name else each for each in listed)
            instance.settings = replace(instance.settings, volume=volumes)

    def close(self) -> None:
        """Returns when nothing is being changed any more. Twice does no harm."""
        self._ended.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()
