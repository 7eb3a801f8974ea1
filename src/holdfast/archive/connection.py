"""Clients without an archive: contents in the volumes that a connector lists (W9).

    with holdfast.connect("connector.toml") as connection:
        key = connection.contents.put(b"...")

Any number of clients may be connected to volume servers at the same time. A volume that is a directory of this machine
has one writer. A change of the connector takes effect within `remote.follow_s`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from holdfast.archive.volumes.open_volumes import OpenVolumes
from holdfast.archive.volumes.reports import ANSWER_S, VolumeReport, VolumeReports
from holdfast.arguments import checked
from holdfast.config import watch_connector
from holdfast.env import REAL, Environment, paths
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import Denied
from holdfast.model import VolumeState
from holdfast.storage.store.connector_watch import ConnectorWatcher
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore


class Connection(OpenVolumes):
    """Open volumes and their contents. `contents` and `volumes` are thread-safe."""

    @checked
    def __init__(self, connector: str | Path, *, read_only: bool = False, env: Environment = REAL) -> None:
        self.path = Path(connector)
        self._closing = ExitStack()
        try:
            self._open(env, writable=not read_only)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, env: Environment, *, writable: bool) -> None:
        watch = watch_connector(self.path, env.clock)
        # The files that a store keeps beside its volumes are derived, and of no use to other clients.
        scratch = self._closing.enter_context(ScratchDirectory("connection"))
        self.instance = BlockStore(scratch.path, watch.settings, env, writable=writable)
        self._closing.callback(self.instance.close)
        self.contents = Contents(self.instance)
        self._closing.callback(self.contents.close)
        self._reports = VolumeReports(self.instance, lambda volume: lock_of(self.instance.directory(volume)), env)
        self._watcher = ConnectorWatcher(self.instance, watch)
        self._closing.callback(self._watcher.close)
        self._watcher.start()

    @checked
    def volumes(self, answer_s: float = ANSWER_S) -> list[VolumeReport]:
        """How the volumes are, in the order of the connector; one that does not answer in that time counts as down."""
        return self._reports.take(answer_s)

    def refresh(self) -> bool:
        """Reads the connector now instead of within a second; returns whether it has changed."""
        return self._watcher.poll()

    @checked
    def set_state(self, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the connector. Durable on return."""
        self._require_writable()
        self._watcher.set_state(self.path, name, state)

    def _require_writable(self) -> None:
        if not self.instance.writable:
            raise Denied("the volumes are open for reading only")


@checked
def connect(connector: str | Path, *, read_only: bool = False) -> Connection:
    """Opens the volumes of a connector, for writing unless `read_only`.

    Raises NotFound or InvalidSetting if the connector cannot be read, VolumeDown if none of its volumes can be opened,
    and Busy if one is a directory that another process writes to.
    """
    return Connection(connector, read_only=read_only)


def lock_of(directory: Path) -> Path:
    """The lock of a volume that belongs to no archive."""
    return directory / paths.LOCK
