"""`holdfast.toml` read: every value checked, and an unknown key named with the nearest known one."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.config.address import split_address
from holdfast.config.settings import (
    CONTENT_BYTES_LIMIT,
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
from holdfast.model import Pick, VolumeState, batch_name, volume_name

FORMAT = 1
SECTIONS = ("store", "records", "serve", "remote", "index", "query", "connector", "volume", "access", "uid")
ACCESS_RULES = ("allow", "block", "exclude")
UPDATES = ("incremental", "batch")
ROLES = ("update", "read")
KEEPS = ("all", "latest")
_TIME = re.compile(r"\d{4}(-?\d\d(-?\d\d([T ]?\d\d(:?\d\d(:?\d\d)?)?Z?)?)?)?", re.ASCII)
_URL = re.compile(r"s3://[^/?#\s]+(/\S*)?|file:///\S*")
_SPAN = re.compile(r"\d{1,6} ?(hour|day|week|month|year)s?", re.ASCII)

T = TypeVar("T")

_ACCEPTED: dict[str, type | tuple[type, ...]] = {"float": (int, float), "int": int, "bool": bool}

_STORE_LEAST = {
    "replicas": 1,
    "content_bytes_max": 1,
    "segment_bytes_max": 4096,
    "log_bytes_max": 4096,
    "bucket_buffer_bytes": 0,
    "stage_bytes_max": 1,
    "object_timeout_s": 0.1,
    "open_segments_max": 4,
    "object_cache_bytes": 0,
    "object_requests_max": 1,
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
    "streams_max": 1,
    "streams_per_client_max": 1,
    "stream_buffer_bytes": 0,
    "coherence_warning_s": 0,
    "cache_bytes": 0,
    "spool_bytes_max": 0,
}
_INDEX_LEAST = {
    "crawl_every_s": 1,
    "document_bytes_max": 4096,
    "document_seconds_max": 0.1,
    "worker_bytes_max": 256 << 20,
    "workers": 0,
    "writer_threads": 1,
    "writer_bytes": 16 << 20,
    "commit_records": 1,
}
_QUERY_LEAST = {
    "sql_seconds_max": 0,
    "sql_rows_max": 0,
    "sql_memory_bytes": 64 << 20,
    "sql_spill_bytes_max": 0,
    "sql_threads": 0,
}
_REMOTE_LEAST = {
    "connect_timeout_s": 0.01,
    "request_timeout_s": 0.01,
    "retry_s": 0,
    "down_s": 0,
    "connections_max": 1,
    "follow_s": 0.01,
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


def parse(table: dict[str, Any], path: Path, sections: Sequence[str] = SECTIONS) -> Settings:
    """The settings that a file holds, which has only these sections. Raises InvalidSetting or FormatTooNew."""
    rest = dict(table)
    number = rest.pop("format", None)
    if isinstance(number, int) and number > FORMAT:
        raise FormatTooNew(f"'{path}' has format {number}; this release reads {FORMAT}: use a later one")
    if number != FORMAT:
        raise InvalidSetting(f"'{path}' must say 'format = {FORMAT}', found {number!r}")
    _reject_unknown(rest, sections, path, "")
    store = _build(StoreSettings, rest.get("store", {}), path, "store")
    volumes = tuple(_volume(entry, path) for entry in _tables(rest, "volume", path))
    records = _checked(
        _build(RecordSettings, rest.get("records", {}), path, "records"), _RECORDS_LEAST, path, "records"
    )
    _reject_other_than(records.keep, KEEPS, path, "records.keep")
    _reject_other_than(records.pick, tuple(Pick), path, "records.pick")
    batch_name(records.collection)
    batch_name(records.batch)
    serve = _checked_serve(_build(ServeSettings, rest.get("serve", {}), path, "serve"), path)
    access = tuple(_access(entry, path) for entry in _tables(rest, "access", path))
    remote = _checked_remote(_build(RemoteSettings, rest.get("remote", {}), path, "remote"), path)
    index = _checked(_build(IndexSettings, rest.get("index", {}), path, "index"), _INDEX_LEAST, path, "index")
    query = _checked(_build(QuerySettings, rest.get("query", {}), path, "query"), _QUERY_LEAST, path, "query")
    connector = rest.get("connector", "")
    if not isinstance(connector, str):
        raise InvalidSetting(f"'{path}': connector must be the name of a file, found {connector!r}")
    uid = rest.get("uid", "")
    if not isinstance(uid, str):
        raise InvalidSetting(f"'{path}': uid must be a text, found {uid!r}")
    reject_twins(volumes, path)
    said = frozenset(f"{section}.{name}" for section in ("store", "remote") for name in rest.get(section, {}))
    store = _checked_store(store, path)
    return Settings(store, volumes, records, serve, remote, connector, access, index, query, uid, said)


def reject_twins(volumes: Sequence[VolumeSettings], path: Path) -> None:
    """Raises InvalidSetting if two volumes have the same name, or the same address: that is one volume."""
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
    _reject_other_than(volume.role, ("", *ROLES), path, "volume.role")
    try:
        check_place(volume)
    except InvalidSetting as error:
        raise InvalidSetting(f"'{path}': {error}") from None
    return replace(volume, state=VolumeState(state), weight=float(volume.weight))


def check_place(volume: VolumeSettings) -> None:
    """Raises InvalidSetting if what is said of where the volume is makes no sense."""
    if volume.address:
        split_address(volume.address)
        if volume.url or volume.path:
            other = "url" if volume.url else "path"
            raise InvalidSetting(f"volume {volume.name!r} has an address and a {other}: its server knows where it is")
    if volume.url and not _URL.fullmatch(volume.url):
        raise InvalidSetting(
            f"volume {volume.name!r} has a bad url {volume.url!r}: write s3://bucket/prefix or file:///directory"
        )


def _checked_remote(remote: RemoteSettings, path: Path) -> RemoteSettings:
    if bool(remote.tls_cert_file) != bool(remote.tls_key_file):
        missing = "tls_key_file" if remote.tls_cert_file else "tls_cert_file"
        raise InvalidSetting(f"'{path}': remote.{missing} is missing: a certificate and its key go together")
    if remote.tls_cert_file and not remote.tls_ca_file:
        raise InvalidSetting(f"'{path}': remote.tls_ca_file is missing: without it there is no TLS")
    return _checked(remote, _REMOTE_LEAST, path, "remote")


def _checked_store(store: StoreSettings, path: Path) -> StoreSettings:
    if store.content_bytes_max > CONTENT_BYTES_LIMIT:
        raise InvalidSetting(f"'{path}': store.content_bytes_max must be at most {CONTENT_BYTES_LIMIT}")
    _reject_other_than(store.update, UPDATES, path, "store.update")
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
        accepted = _ACCEPTED.get(wanted, str)
        if isinstance(value, bool) != (wanted == "bool") or not isinstance(value, accepted):
            raise InvalidSetting(f"'{path}': {where}.{name} must be of type {wanted}, found {value!r}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in table.items()})


def _reject_other_than_strings(value: Any, path: Path, name: str) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSetting(f"'{path}': {name} must be a list of strings, found {value!r}")


def _reject_other_than(value: str, known: Sequence[str], path: Path, name: str) -> None:
    if value not in known:
        words = ", ".join(filter(None, known))
        raise InvalidSetting(f"'{path}': {name} must be one of {words}, found {value!r}")


def _reject_unknown(table: dict[str, Any], known: Sequence[str], path: Path, where: str) -> None:
    for name in table:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise InvalidSetting(f"'{path}': unknown setting {where + '.' if where else ''}{name}{hint}")
