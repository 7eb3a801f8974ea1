"""Holdfast keeps the web: every content once, every capture remembered.

    import holdfast

    with holdfast.open("my-archive") as archive:
        key = archive.contents.put(b"<html>...")
        assert archive.contents.get(key) == b"<html>..."

The packages, in dependency order; each imports only what stands above it:

    errors, model, config   failures | the nouns as frozen values | settings
    env                     the only door to clock, randomness, files and locks
    storage                 contents as blocks in volumes: signatures, codecs, organizations, placement, check
    archive                 open, init: the front door
    testing                 shipped test doubles and conformance suites
    bench                   measured beside its peers
    cli                     the command line, one file per noun
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.archive import Archive, Plan, check, init, open
    from holdfast.config import Settings, StoreSettings, VolumeSettings
    from holdfast.errors import HoldfastError
    from holdfast.model import ContentKey, ContentStat, Fault, Stored, StoreMode, VolumeState
    from holdfast.storage.check import CheckOptions, CheckReport
    from holdfast.storage.storing import StoreOptions

_HOMES = {
    "holdfast.archive": ("Archive", "Plan", "check", "init", "open"),
    "holdfast.config": ("Settings", "StoreSettings", "VolumeSettings"),
    "holdfast.errors": ("HoldfastError",),
    "holdfast.model": ("ContentKey", "ContentStat", "Fault", "StoreMode", "Stored", "VolumeState"),
    "holdfast.storage.check": ("CheckOptions", "CheckReport"),
    "holdfast.storage.storing": ("StoreOptions",),
}
_home_of = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Archive",
    "CheckOptions",
    "CheckReport",
    "ContentKey",
    "ContentStat",
    "Fault",
    "HoldfastError",
    "Plan",
    "Settings",
    "StoreMode",
    "StoreOptions",
    "StoreSettings",
    "Stored",
    "VolumeSettings",
    "VolumeState",
    "check",
    "init",
    "open",
]


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used, so that the command line starts fast."""
    if name not in _home_of:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_home_of[name]), name)
