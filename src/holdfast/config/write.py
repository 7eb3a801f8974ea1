"""Writes and edits `holdfast.toml`, keeping comments and order."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from holdfast.config.read import FORMAT
from holdfast.config.settings import Settings, VolumeSettings
from holdfast.errors import UnknownName
from holdfast.model import VolumeState


def new_text(settings: Settings) -> str:
    """A new `holdfast.toml` with the values that differ from the defaults."""
    import tomlkit

    document = tomlkit.document()
    document.add(
        tomlkit.comment("Holdfast archive. All settings and their defaults: 'holdfast' documentation, settings.")
    )
    document["format"] = FORMAT
    if settings.uid:
        document["uid"] = settings.uid
    if settings.connector:
        document["connector"] = settings.connector
    store = tomlkit.table()
    store["signature"] = settings.store.signature
    for name, value in _differences(settings.store).items():
        store[name] = value
    document["store"] = store
    for section in ("records", "serve", "remote", "index", "query"):
        if different := _differences(getattr(settings, section)):
            document[section] = different
    volumes = tomlkit.aot()
    for volume in settings.volume:
        volumes.append(_volume_table(volume))
    if settings.volume:
        document["volume"] = volumes
    return tomlkit.dumps(document)


def with_volume(text: str, volume: VolumeSettings) -> str:
    """The text of `holdfast.toml` with one more volume."""
    import tomlkit

    document = tomlkit.parse(text)
    if not document.get("volume"):  # `volume = []` has no room for tables
        document.pop("volume", None)
        document["volume"] = tomlkit.aot()
    document["volume"].append(_volume_table(volume))
    return tomlkit.dumps(document)


def with_node(text: str, name: str) -> str:
    """The text of `holdfast.toml` of an archive that becomes a node of a cluster."""
    import tomlkit

    document = tomlkit.parse(text)
    document.setdefault("records", tomlkit.table())["node"] = name
    return tomlkit.dumps(document)


def with_state(text: str, name: str, state: VolumeState) -> str:
    """The text of `holdfast.toml` or a connector with another state for a volume. Raises UnknownName."""
    import tomlkit

    document = tomlkit.parse(text)
    found = [volume for volume in document.get("volume", ()) if volume["name"] == name]
    if not found:
        raise UnknownName(f"no volume {name!r} is listed here")
    for volume in found:
        volume["state"] = state.value
    return tomlkit.dumps(document)


def _volume_table(volume: VolumeSettings) -> Any:
    import tomlkit

    table = tomlkit.table()
    table["name"] = volume.name
    if not volume.address:  # its server knows
        table["organization"] = volume.organization
    table["state"] = volume.state.value
    for name, value in _differences(volume).items():
        table.setdefault(name, value)
    return table


def _differences(settings: Any) -> dict[str, Any]:
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.name not in ("name", "state") and getattr(settings, each.name) != each.default
    }
