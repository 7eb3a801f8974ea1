"""`holdfast config`: the effective settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.terminal import show_json, show_table
from holdfast.errors import UnknownName

DEFAULT, FILE = "default", "holdfast.toml"
_INDEXED = "index.automatic"
_SECTIONS = ("store", "records", "serve", "remote", "index", "query")


@click.group()
def config() -> None:
    """Show the settings of the archive."""


@config.command("show")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@archive_option
@click.option("--changed", is_flag=True, help="Only the settings that are not the default.")
@json_option
def show_settings(*, keys: tuple[str, ...], archive: Path, changed: bool, as_json: bool) -> None:
    """Print every setting that is in force, and whether it is the default.

    KEY is a setting such as serve.port, or a section such as serve.
    """
    from difflib import get_close_matches

    from holdfast.archive.index_update import by_environment
    from holdfast.config import INDEX_VARIABLE, load
    from holdfast.env.paths import SETTINGS

    settings = load(archive / SETTINGS)
    found: dict[str, Any] = {}
    for section in _SECTIONS:
        part = getattr(settings, section)
        assert is_dataclass(part)
        found |= {f"{section}.{each.name}": getattr(part, each.name) for each in fields(part)}
    found |= {"connector": settings.connector, "uid": settings.uid}
    for key in keys:
        if key not in found and key not in _SECTIONS:
            close = get_close_matches(key, [*found, *_SECTIONS], n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise UnknownName(f"no setting '{key}': {hint}a section is one of {', '.join(_SECTIONS)}")
    shown = {name: value for name, value in found.items() if not keys or name in keys or name.split(".")[0] in keys}
    origin = {name: FILE if name in settings.said else DEFAULT for name in shown}
    if _INDEXED in shown and (said := by_environment()) is not None:
        shown[_INDEXED], origin[_INDEXED] = said, INDEX_VARIABLE
    if changed:
        shown = {name: value for name, value in shown.items() if origin[name] != DEFAULT}
    if as_json:
        show_json({name: {"value": value, "from": origin[name]} for name, value in shown.items()})
        return
    rows = [[name, _text(value), "" if origin[name] == DEFAULT else origin[name]] for name, value in shown.items()]
    show_table(("SETTING", "VALUE", "FROM"), rows, left=3)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value != "" else "-"
