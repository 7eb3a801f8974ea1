"""All that opening, checking or repairing a volume takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.config import StoreSettings
from holdfast.env import Environment
from holdfast.storage.identity import Identity


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that is not open."""

    name: str
    directory: Path
    identity: Identity
    settings: StoreSettings
    env: Environment
