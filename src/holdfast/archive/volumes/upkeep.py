"""Upkeep of volumes: the same for an archive and for a client without one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.arguments import checked
from holdfast.model import VolumeState
from holdfast.storage.codec import Dictionary
from holdfast.storage.maintenance.migrate import Migration, Migrator
from holdfast.storage.maintenance.train import train
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.organizations import compact_volume


class Upkeep(ABC):
    """What can be done to the volumes of an instance. One thread at a time."""

    instance: BlockStore

    @abstractmethod
    def _require_writable(self) -> None:
        """Raises Denied if nothing may be changed."""

    @abstractmethod
    def set_state(self, name: str, state: VolumeState) -> None:
        """Makes a volume writable or read-only, in the file that lists it. Durable on return."""

    @checked
    def compact(self, name: str, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
        """Reclaims the space of deleted contents in a volume. Reading and storing may go on in other threads."""
        self._require_writable()
        return compact_volume(self.instance.writer(name), dead_share_min, progress)

    @checked
    def migrate(self, name: str, targets: Sequence[str] = (), progress: Progress | None = None) -> Migration:
        """Makes a volume read-only and moves all its blocks to others; their contentkeys stay valid."""
        self._require_writable()
        migrator = Migrator(self.instance, name, targets)
        self.set_state(name, VolumeState.READ_ONLY)
        return migrator.run(progress)

    @checked
    def train(self, name: str) -> Dictionary:
        """Trains a compression dictionary from a volume's contents, for those to come."""
        self._require_writable()
        return train(self.instance, name)
