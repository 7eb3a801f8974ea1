"""`holdfast.toml` written and changed: comments, and the order that people gave it, are kept."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from holdfast.config.reading import FORMAT
from holdfast.config.settings import RecordSettings, ServeSettings, Settings, StoreSettings, VolumeSettings
from holdfast.model import VolumeState


def new_text(settings: Settings) -> str:
    """A fresh `holdfast.toml`, saying only what differs from the defaults."""
    import tomlkit

    document = tomlkit.document()
    document.add(
        tomlkit.comment("Holdfast archive. All settings and their defaults: 'holdfast' documentation, settings.")
    )
    document["format"] = FORMAT
    store = tomlkit.table()
    store["signature"] = settings.store.signature
    for name, value in _differences(settings.store).items():
        store[name] = value
    document["store"] = store
    if different := _differences(settings.records):
        document["records"] = different
    if different := _differences(settings.serve):
        document["serve"] = different
    volumes = tomlkit.aot()
    for volume in settings.volume:
        volumes.append(_volume_table(volume))
    document["volume"] = volumes
    return tomlkit.dumps(document)


def with_volume(text: str, volume: VolumeSettings) -> str:
    """The text of `holdfast.toml` with one more volume."""
    import tomlkit

    document = tomlkit.parse(text)
    document.setdefault("volume", tomlkit.aot()).append(_volume_table(volume))
    return tomlkit.dumps(document)


def with_state(text: str, name: str, state: VolumeState) -> str:
    """The text of `holdfast.toml` with another state for a volume."""
    import tomlkit

    document = tomlkit.parse(text)
    for volume in document["volume"]:
        if volume["name"] == name:
            volume["state"] = state.value
    return tomlkit.dumps(document)


def _volume_table(volume: VolumeSettings) -> Any:
    import tomlkit

    table = tomlkit.table()
    table["name"] = volume.name
    table["organization"] = volume.organization
    table["state"] = volume.state.value
    for name, value in _differences(volume).items():
        table.setdefault(name, value)
    return table


def _differences(settings: StoreSettings | RecordSettings | ServeSettings | VolumeSettings) -> dict[str, Any]:
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.name not in ("name", "state") and getattr(settings, each.name) != each.default
    }
