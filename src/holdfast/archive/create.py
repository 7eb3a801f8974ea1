"""Creation of an archive: settings, volumes and an empty catalog in a directory."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast import config
from holdfast.archive.directory import open_catalog
from holdfast.arguments import check_fields, public
from holdfast.config import RecordSettings, Settings, StoreSettings, VolumeSettings
from holdfast.env import REAL, Environment, paths
from holdfast.env.files import replace_file
from holdfast.errors import UsageError
from holdfast.storage.placement import find_placement
from holdfast.storage.signature import find_signature
from holdfast.storage.volumes.organizations import create_volume

_UID_BYTES = 8
_SHAPE = ("organization", "depth", "logs", "buckets", "bucket_bytes")  # of its volumes, as their settings name it


@dataclass(frozen=True, slots=True)
class Plan:
    """The properties of a new archive."""

    volumes: int = 1
    organization: str = "log"
    depth: int = 3
    store: StoreSettings = field(default_factory=StoreSettings)
    records: RecordSettings = field(default_factory=RecordSettings)
    connector: str = ""  # file that lists volumes elsewhere, relative to the archive; then it need not have its own
    logs: int = 64  # of organization hashed-log
    buckets: int = 64  # of organization hash, to begin with
    bucket_bytes: int = 64 << 10

    def __post_init__(self) -> None:
        check_fields(self)


@public
def init(path: str | Path, plan: Plan = Plan(), *, env: Environment = REAL) -> None:
    """Makes an empty archive, with volumes v0, v1, ... The directory may exist, but not hold an archive.

    Raises UsageError, and what reading the connector may.
    """
    root = Path(path)
    find_signature(plan.store.signature)
    find_placement(plan.store.placement)
    least = 0 if plan.connector else 1
    if not least <= plan.volumes <= 1024:
        raise UsageError(f"bad number of volumes {plan.volumes}: {least} to 1024")
    settings_path = root / paths.SETTINGS
    if env.files.exists(settings_path):
        raise UsageError(f"'{root}' holds an archive already")
    if env.files.names(root / paths.VOLUMES):
        raise UsageError(f"'{root / paths.VOLUMES}' is not empty: the rest of an archive without '{paths.SETTINGS}'?")
    shape: dict[str, Any] = {name: getattr(plan, name) for name in _SHAPE}
    volumes = tuple(VolumeSettings(f"v{number}", **shape) for number in range(plan.volumes))
    uid = env.random_bytes(_UID_BYTES).hex()
    text = config.new_text(Settings(plan.store, volumes, plan.records, connector=plan.connector, uid=uid))
    # Raises before anything is made.
    config.merged(config.parse(tomllib.loads(text), settings_path), settings_path)
    for volume in volumes:
        create_volume(paths.volume_directory(root, volume.name), volume, plan.store, env)
    open_catalog(root, plan.records, env, read_only=False).close()
    replace_file(env.files, settings_path, text.encode())
