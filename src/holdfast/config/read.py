"""Reads `holdfast.toml`. Every value is checked; the error of an unknown key names the nearest known one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.arguments import nearest
from holdfast.config.address import split_address
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
from holdfast.errors import ArchiveNotFound, Denied, FormatTooNew, InvalidSetting
from holdfast.model import batch_name, volume_name

FORMAT = 1
_KINDS: dict[str, type[Any]] = {
    "store": StoreSettings,
    "records": RecordSettings,
    "serve": ServeSettings,
    "remote": RemoteSettings,
    "index": IndexSettings,
    "query": QuerySettings,
}
SECTIONS = (*_KINDS, "connector", "volume", "access", "uid")
_TIME = re.compile(r"\d{4}(-?\d\d(-?\d\d([T ]?\d\d(:?\d\d(:?\d\d)?)?Z?)?)?)?", re.ASCII)
_URL = re.compile(r"s3://[^/?#\s]+(/\S*)?|file:///\S*")
_SPAN = re.compile(r"\d{1,6} ?(hour|day|week|month|year)s?", re.ASCII)

T = TypeVar("T")

_ACCEPTED: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "bool": (bool,)}


def load(path: Path) -> Settings:
    """Raises ArchiveNotFound, FormatTooNew or InvalidSetting."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        raise ArchiveNotFound(
            f"no archive in '{path.parent}': '{path.name}' is missing; create one with 'holdfast init', "
            "or name another with -a"
        ) from None
    except PermissionError:
        raise Denied(f"not permitted to read '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read '{path}': {error}") from None
    return parse(table, path)


def parse(table: dict[str, Any], path: Path, sections: Sequence[str] = SECTIONS) -> Settings:
    """The settings in a file that may have only these sections. Raises InvalidSetting or FormatTooNew."""
    rest = dict(table)
    number = rest.pop("format", None)
    if isinstance(number, int) and number > FORMAT:
        raise FormatTooNew(f"'{path}' has format {number}; this release reads {FORMAT}: use a later one")
    if number != FORMAT:
        raise InvalidSetting(f"'{path}' must say 'format = {FORMAT}', found {number!r}")
    _reject_unknown(rest, sections, path, "")
    built: dict[str, Any] = {name: _build(kind, rest.get(name, {}), path, name) for name, kind in _KINDS.items()}
    batch_name(built["records"].collection)
    batch_name(built["records"].batch)
    _check_serve(built["serve"], path)
    _check_remote(built["remote"], path)
    for name in ("connector", "uid"):
        built[name] = rest.get(name, "")
        if not isinstance(built[name], str):
            raise InvalidSetting(f"'{path}': {name} must be a string, found {built[name]!r}")
    built["volume"] = tuple(_volume(entry, path) for entry in _tables(rest, "volume", path))
    built["access"] = tuple(_access(entry, path) for entry in _tables(rest, "access", path))
    reject_twins(built["volume"], path)
    said = frozenset(f"{section}.{name}" for section in _KINDS for name in rest.get(section, {}))
    return Settings(**built, said=said)


def reject_twins(volumes: Sequence[VolumeSettings], path: Path) -> None:
    """Raises InvalidSetting if two volumes have the same name or the same address."""
    names: set[str] = set()
    addresses: dict[str, str] = {}
    for volume in volumes:
        if volume.name in names:
            raise InvalidSetting(f"'{path}' names volume {volume.name!r} twice")
        names.add(volume.name)
        if volume.address and (other := addresses.setdefault(volume.address, volume.name)) != volume.name:
            raise InvalidSetting(f"'{path}': volumes {other!r} and {volume.name!r} have the same address")


def _tables(table: dict[str, Any], name: str, path: Path) -> list[dict[str, Any]]:
    entries = table.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidSetting(f"'{path}': {name} must be an array of tables: write [[{name}]]")
    return entries


def _access(entry: dict[str, Any], path: Path) -> AccessRule:
    if "rule" not in entry:
        raise InvalidSetting(f"'{path}': an [[access]] has no rule: write allow, block or exclude")
    rule = _build(
        AccessRule, {"from_" if name == "from" else name: value for name, value in entry.items()}, path, "access"
    )
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
    if "name" not in entry:
        raise InvalidSetting(f"'{path}': a [[volume]] has no name")
    volume = _build(VolumeSettings, entry, path, "volume")
    volume_name(volume.name)
    try:
        check_place(volume)
    except InvalidSetting as error:
        raise InvalidSetting(f"'{path}': {error}") from None
    return replace(volume, weight=float(volume.weight))


def check_place(volume: VolumeSettings) -> None:
    """Raises InvalidSetting if address, url and path contradict each other."""
    if volume.address:
        split_address(volume.address)
        if volume.url or volume.path:
            other = "url" if volume.url else "path"
            raise InvalidSetting(f"volume {volume.name!r} has an address and a {other}: its server knows where it is")
    if volume.url and not _URL.fullmatch(volume.url):
        raise InvalidSetting(
            f"volume {volume.name!r} has a bad url {volume.url!r}: write s3://bucket/prefix or file:///directory"
        )


def _check_remote(remote: RemoteSettings, path: Path) -> None:
    if bool(remote.tls_cert_file) != bool(remote.tls_key_file):
        missing = "tls_key_file" if remote.tls_cert_file else "tls_cert_file"
        raise InvalidSetting(f"'{path}': remote.{missing} is missing: a certificate and its key go together")
    if remote.tls_cert_file and not remote.tls_ca_file:
        raise InvalidSetting(f"'{path}': remote.tls_ca_file is missing: without it there is no TLS")


def _check_serve(serve: ServeSettings, path: Path) -> None:
    for name in ("controls_url", "replay_url"):
        if (address := getattr(serve, name)) and not re.fullmatch(r"https?://[^/?#\s]+/?", address):
            raise InvalidSetting(
                f"'{path}': serve.{name} must be like 'https://archive.example.org', found {address!r}"
            )
    if serve.controls_url and serve.controls_url.rstrip("/") == serve.replay_url.rstrip("/"):
        raise InvalidSetting(
            f"'{path}': serve.replay_url must be another origin than serve.controls_url: archived scripts run there"
        )


def _build(kind: type[T], table: Any, path: Path, where: str) -> T:
    """A section, its values checked against type, bounds and choices."""
    if not isinstance(table, dict):
        raise InvalidSetting(f"'{path}': {where} must be a table, found {table!r}")
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    _reject_unknown(table, list(known), path, where)
    values = {name: _value(known[name], value, path, f"{where}.{name}") for name, value in table.items()}
    return kind(**values)


def _value(setting: Field[Any], value: Any, path: Path, name: str) -> Any:
    wanted, facts = str(setting.type), setting.metadata
    if wanted == "tuple[str, ...]":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise InvalidSetting(f"'{path}': {name} must be a list of strings, found {value!r}")
        return tuple(value)
    if choices := facts.get("choices"):
        if value not in choices:
            words = ", ".join(filter(None, choices))
            raise InvalidSetting(f"'{path}': {name} must be one of {words}, found {value!r}")
        return choices[choices.index(value)]
    if isinstance(value, bool) != (wanted == "bool") or not isinstance(value, _ACCEPTED.get(wanted, (str,))):
        raise InvalidSetting(f"'{path}': {name} must be of type {wanted}, found {value!r}")
    if isinstance(value, int | float):
        if value < (least := facts.get("least", 0)):
            raise InvalidSetting(f"'{path}': {name} must be at least {least}, found {value}")
        if (most := facts.get("most")) is not None and value > most:
            raise InvalidSetting(f"'{path}': {name} must be at most {most}, found {value}")
    return value


def _reject_unknown(table: dict[str, Any], known: Sequence[str], path: Path, where: str) -> None:
    for name in table:
        if name not in known:
            place = f"{where}." if where else ""
            raise InvalidSetting(f"'{path}': unknown setting {place}{name}{nearest(name, known)}")
