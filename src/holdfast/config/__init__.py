"""Settings: one tree of frozen dataclasses, read from `holdfast.toml`.

Flags win over the environment, the environment over the file, the file over the defaults beside the fields.
An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

from holdfast.config.changing import new_text, with_state, with_volume
from holdfast.config.reading import load, parse
from holdfast.config.settings import (
    AccessRule,
    RecordSettings,
    ServeSettings,
    Settings,
    StoreSettings,
    VolumeSettings,
)

ARCHIVE_VARIABLE = "HOLDFAST_ARCHIVE"

__all__ = [
    "ARCHIVE_VARIABLE",
    "AccessRule",
    "RecordSettings",
    "ServeSettings",
    "Settings",
    "StoreSettings",
    "VolumeSettings",
    "load",
    "new_text",
    "parse",
    "with_state",
    "with_volume",
]
