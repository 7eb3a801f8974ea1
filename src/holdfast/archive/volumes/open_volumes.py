"""Open volumes and their contents: what an archive and a client without one have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from holdfast.arguments import checked
from holdfast.config import Settings
from holdfast.model import VolumeState
from holdfast.storage.codec import Dictionary
from holdfast.storage.maintenance.migrate import Migration, Migrator
from holdfast.storage.maintenance.train import train
from holdfast.storage.store.contents import Contents
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volumes.compaction import Compaction, Progress
from holdfast.storage.volumes.organizations import compact_volume


class OpenVolumes(ABC):
    """A context: leaving it closes the volumes. Maintenance is for one thread at a time."""

    instance: BlockStore
    contents: Contents
    _closing: ExitStack

    @property
    def settings(self) -> Settings:
        return self.instance.settings

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

    def close(self) -> None:
        """Idempotent. Acknowledged data is safe without it; closing makes the next opening fast."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
