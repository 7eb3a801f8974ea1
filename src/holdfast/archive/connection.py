"""Clients without an archive: contents in the volumes that a connector lists (W9).

    with holdfast.connect("connector.toml") as connection:
        key = connection.contents.put(b"...")

Any number of clients may be connected to volume servers at the same time. A volume that is a directory of this machine
has one writer. A change of the connector takes effect within `remote.follow_s`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from holdfast.archive.volumes import OpenVolumes
from holdfast.arguments import checked, public
from holdfast.config import VolumeSettings, watch_connector
from holdfast.env import REAL, Environment, paths
from holdfast.env.scratch import ScratchDirectory
from holdfast.errors import Denied
from holdfast.model import VolumeState


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
        # The store's own files are derived, and of no use to other clients.
        scratch = self._closing.enter_context(ScratchDirectory("connection"))
        self._open_volumes(scratch.path, watch, env, writable=writable)
        self._watcher.start()

    def _lock_of(self, volume: VolumeSettings) -> Path:
        return self.instance.directory(volume) / paths.LOCK  # it belongs to no archive

    def refresh(self) -> bool:
        """Reads the connector now instead of within a second; returns whether it has changed."""
        return self._watcher.poll()

    @checked
    def set_state(self, name: str, state: VolumeState | str) -> None:
        """Makes a volume writable or read-only, in the connector. Durable on return."""
        self._require_writable()
        self._watcher.set_state(self.path, name, VolumeState.parse(state))

    def _require_writable(self) -> None:
        if not self.instance.writable:
            raise Denied("the volumes are open for reading only")


@public
def connect(connector: str | Path, *, read_only: bool = False) -> Connection:
    """Opens the volumes of a connector, for writing unless `read_only`.

    Raises NotFound or InvalidSetting if the connector cannot be read, VolumeDown if none of its volumes can be opened,
    and Busy if one is a directory that another process writes to.
    """
    return Connection(connector, read_only=read_only)
