"""Settings: one tree of frozen dataclasses, read from `holdfast.toml` and from connectors.

Flags override the environment, the environment overrides the file, and the file overrides the defaults.
An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

from holdfast.config.address import join_address, split_address
from holdfast.config.connector import (
    SettingsWatch,
    is_xml,
    load_connector,
    merged,
    resolved,
    watch_connector,
    watch_settings,
)
from holdfast.config.read import check_place, load, parse, reject_twins
from holdfast.config.settings import (
    AccessRule,
    IndexSettings,
    QuerySettings,
    RecordSettings,
    RemoteSettings,
    ServeSettings,
    Settings,
    StoreSettings,
    VolumeSettings,
)
from holdfast.config.write import new_text, with_state, with_volume

INDEX_VARIABLE = "HOLDFAST_INDEX_AUTOMATIC"

__all__ = [
    "INDEX_VARIABLE",
    "AccessRule",
    "IndexSettings",
    "QuerySettings",
    "RecordSettings",
    "RemoteSettings",
    "ServeSettings",
    "Settings",
    "SettingsWatch",
    "StoreSettings",
    "VolumeSettings",
    "check_place",
    "is_xml",
    "join_address",
    "load",
    "load_connector",
    "merged",
    "new_text",
    "parse",
    "reject_twins",
    "resolved",
    "split_address",
    "watch_connector",
    "watch_settings",
    "with_state",
    "with_volume",
]
