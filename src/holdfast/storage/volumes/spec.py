"""All that opening, checking or repairing a volume takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment
from holdfast.storage.identity import Identity
from holdfast.storage.volumes.log.segment_files import SegmentFiles


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that is not open."""

    name: str
    directory: Path
    identity: Identity
    settings: StoreSettings
    env: Environment

    def segments(self) -> SegmentFiles:
        """The segment files of a log, plain or hashed."""
        uid, lanes = self.identity.uid, self.identity.lanes
        return SegmentFiles(self.env, self.directory, uid, self.settings.open_segments_max, lanes)
