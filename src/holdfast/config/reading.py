"""`holdfast.toml` read: every value checked, and an unknown key named with the nearest known one."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.config.settings import (
    CONTENT_BYTES_LIMIT,
    AccessRule,
    RecordSettings,
    ServeSettings,
    Settings,
    StoreSettings,
    VolumeSettings,
)
from holdfast.errors import ArchiveNotFound, Denied, FormatTooNew, InvalidSetting
from holdfast.model import VolumeState, batch_name, volume_name

FORMAT = 1
ACCESS_RULES = ("allow", "block", "exclude")
_TIME = re.compile(r"\d{4}(-?\d\d(-?\d\d([T ]?\d\d(:?\d\d(:?\d\d)?)?Z?)?)?)?", re.ASCII)
_SPAN = re.compile(r"\d{1,6} ?(hour|day|week|month|year)s?", re.ASCII)

T = TypeVar("T")

_STORE_LEAST = {
    "replicas": 1,
    "content_bytes_max": 1,
    "segment_bytes_max": 4096,
    "open_segments_max": 4,
    "dictionary_bytes": 1024,
}
_RECORDS_LEAST = {
    "piece_bytes_max": 4096,
    "inline_bytes_max": 0,
    "frame_bytes": 1024,
    "file_bytes_max": 4096,
    "catalog_cache_bytes": 0,
}
_SERVE_LEAST = {
    "port": 0,
    "replay_port": 0,
    "workers": 0,
    "header_bytes_max": 4096,
    "header_count_max": 8,
    "target_bytes_max": 1024,
    "body_bytes_max": 0,
    "rewrite_bytes_max": 0,
    "request_timeout_s": 0.1,
    "body_timeout_s": 0.1,
    "write_stall_s": 0.1,
    "keep_alive_s": 0,
    "stop_s": 0,
    "query_seconds_max": 0.1,
    "connections_max": 1,
    "cdx_limit": 1,
    "timemap_mementos_max": 1,
    "download_records_max": 1,
    "download_bytes_max": 1,
    "coherence_warning_s": 0,
    "cache_bytes": 0,
    "spool_bytes_max": 0,
}


def load(path: Path) -> Settings:
    """Raises ArchiveNotFound, FormatTooNew or InvalidSetting."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        raise ArchiveNotFound(
            f"no archive in '{path.parent}': '{path.name}' is missing; create one with 'holdfast init'"
        ) from None
    except PermissionError:
        raise Denied(f"not permitted to read '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read '{path}': {error}") from None
    return parse(table, path)


def parse(table: dict[str, Any], path: Path) -> Settings:
    rest = dict(table)
    number = rest.pop("format", None)
    if isinstance(number, int) and number > FORMAT:
        raise FormatTooNew(f"'{path}' has format {number}; this release reads {FORMAT}: use a later one")
    if number != FORMAT:
        raise InvalidSetting(f"'{path}' must say 'format = {FORMAT}', found {number!r}")
    _reject_unknown(rest, ["store", "records", "serve", "volume", "access"], path, "")
    store = _build(StoreSettings, rest.get("store", {}), path, "store")
    volumes = tuple(_volume(entry, path) for entry in _tables(rest, "volume", path))
    records = _checked(
        _build(RecordSettings, rest.get("records", {}), path, "records"), _RECORDS_LEAST, path, "records"
    )
    batch_name(records.collection)
    batch_name(records.batch)
    serve = _checked_serve(_build(ServeSettings, rest.get("serve", {}), path, "serve"), path)
    access = tuple(_access(entry, path) for entry in _tables(rest, "access", path))
    settings = Settings(_checked_store(store, path), volumes, records, serve, access)
    names = [volume.name for volume in volumes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSetting(f"'{path}' names volume {name!r} twice")
    return settings


def _tables(table: dict[str, Any], name: str, path: Path) -> list[dict[str, Any]]:
    entries = table.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidSetting(f"'{path}': {name} must be an array of tables: write [[{name}]]")
    return entries


def _access(entry: dict[str, Any], path: Path) -> AccessRule:
    if "rule" not in entry:
        raise InvalidSetting(f"'{path}': an [[access]] has no rule: write one of {', '.join(ACCESS_RULES)}")
    rule = _build(
        AccessRule, {"from_" if name == "from" else name: value for name, value in entry.items()}, path, "access"
    )
    if rule.rule not in ACCESS_RULES:
        raise InvalidSetting(f"'{path}': access.rule must be one of {', '.join(ACCESS_RULES)}, found {rule.rule!r}")
    if sum(map(bool, (rule.url, rule.prefix, rule.domain))) > 1:
        raise InvalidSetting(f"'{path}': an [[access]] has one of url, prefix and domain: write two rules")
    if rule.collection != "*":
        batch_name(rule.collection)
    for name, text in (("from", rule.from_), ("to", rule.to)):
        if text and not _TIME.fullmatch(text):
            raise InvalidSetting(f"'{path}': access.{name} must be a time such as 2020 or 2020-01-31, found {text!r}")
    if rule.embargo and not (_SPAN.fullmatch(rule.embargo) or _TIME.fullmatch(rule.embargo)):
        raise InvalidSetting(
            f"'{path}': access.embargo must be like '30 days' or '2 years', or a date, found {rule.embargo!r}"
        )
    return rule


def _volume(entry: dict[str, Any], path: Path) -> VolumeSettings:
    entry = dict(entry)
    state = entry.pop("state", VolumeState.WRITABLE.value)
    if state not in list(VolumeState):
        raise InvalidSetting(f"'{path}': volume.state must be one of {', '.join(VolumeState)}, found {state!r}")
    if "name" not in entry:
        raise InvalidSetting(f"'{path}': a [[volume]] has no name")
    volume = _build(VolumeSettings, entry, path, "volume")
    volume_name(volume.name)
    if volume.weight < 0:
        raise InvalidSetting(f"'{path}': volume.weight must not be negative, found {volume.weight!r}")
    return replace(volume, state=VolumeState(state), weight=float(volume.weight))


def _checked_store(store: StoreSettings, path: Path) -> StoreSettings:
    if store.content_bytes_max > CONTENT_BYTES_LIMIT:
        raise InvalidSetting(f"'{path}': store.content_bytes_max must be at most {CONTENT_BYTES_LIMIT}")
    return _checked(store, _STORE_LEAST, path, "store")


def _checked_serve(serve: ServeSettings, path: Path) -> ServeSettings:
    for name in ("port", "replay_port"):
        if (found := getattr(serve, name)) > 65535:
            raise InvalidSetting(f"'{path}': serve.{name} must be at most 65535, found {found}")
    for name in ("controls_url", "replay_url"):
        if (address := getattr(serve, name)) and not re.fullmatch(r"https?://[^/?#\s]+/?", address):
            raise InvalidSetting(
                f"'{path}': serve.{name} must be like 'https://archive.example.org', found {address!r}"
            )
    if serve.controls_url and serve.controls_url.rstrip("/") == serve.replay_url.rstrip("/"):
        raise InvalidSetting(
            f"'{path}': serve.replay_url must be another origin than serve.controls_url: archived scripts run there"
        )
    return _checked(serve, _SERVE_LEAST, path, "serve")


def _checked(settings: T, least: Mapping[str, float], path: Path, where: str) -> T:
    for name, minimum in least.items():
        if (found := getattr(settings, name)) < minimum:
            raise InvalidSetting(f"'{path}': {where}.{name} must be at least {minimum}, found {found}")
    return settings


def _build(kind: type[T], table: Any, path: Path, where: str) -> T:
    if not isinstance(table, dict):
        raise InvalidSetting(f"'{path}': {where} must be a table, found {table!r}")
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    _reject_unknown(table, list(known), path, where)
    for name, value in table.items():
        wanted = str(known[name].type)
        if wanted == "tuple[str, ...]":
            _reject_other_than_strings(value, path, f"{where}.{name}")
            continue
        accepted = (int, float) if wanted == "float" else int if wanted == "int" else str
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise InvalidSetting(f"'{path}': {where}.{name} must be of type {wanted}, found {value!r}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in table.items()})


def _reject_other_than_strings(value: Any, path: Path, name: str) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSetting(f"'{path}': {name} must be a list of strings, found {value!r}")


def _reject_unknown(table: dict[str, Any], known: list[str], path: Path, where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise InvalidSetting(f"'{path}': unknown setting {where + '.' if where else ''}{name}{hint}")
