"""Settings: one tree of frozen dataclasses, read from `holdfast.toml`.

Flags win over the environment, the environment over the file, the file over the defaults beside the fields.
An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import ArchiveNotFound, Denied, FormatTooNew, InvalidSetting
from holdfast.model import VolumeState, batch_name, volume_name

FORMAT = 1
CONTENT_BYTES_LIMIT = 10**12 - 1  # twelve digits in a block's header
ARCHIVE_VARIABLE = "HOLDFAST_ARCHIVE"

# Names seen in the wild: jQuery's `_`, the usual spellings of "no cache", of a random number and
# of the time; and marks of where a visitor came from.
DEFAULT_BUSTERS = (
    *("_", "_t", "_ts", "__t", "t", "ts", "timestamp", "_rand", "rand", "random", "rnd", "ord", "cb", "cacheb", "bust"),
    *("buster", "cachebust", "cachebuster", "nc", "nocache", "_nocache", "no_cache", "no-cache"),
    *("utm_*", "fbclid", "gclid"),
)

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
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`[store]`: how contents are kept."""

    # behaviour
    signature: str = "sha256"  # fixed once the archive exists
    codec: str = "auto"  # for stores that name none; `auto` chooses by type and uses a dictionary where there is one
    placement: str = "mod"  # mod: signature mod n; weighted: in proportion to the volumes' weights
    replicas: int = 1  # copies of every content, in distinct volumes
    train_after: int = 1000  # compressible contents after which a volume trains its first dictionary; 0: never
    # limits
    content_bytes_max: int = 2 << 30  # one content; it passes through memory
    segment_bytes_max: int = 256 << 20  # compaction needs this much extra disk at a time
    # performance
    keydir_cache_bytes: int = 64 << 20  # per volume; more speeds up random reads of large volumes
    open_segments_max: int = 256  # open files per volume
    dictionary_bytes: int = 112 << 10  # larger ones compress a little better and load slower


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """`[records]`: how records are kept, in batches and in the catalog."""

    # behaviour
    collection: str = "main"  # for records that name none
    batch: str = "month"  # month: one batch for each month of the record's arrival; any other word names the batch
    warc_paths: tuple[
        str, ...
    ] = ()  # where the files lie that records by reference point into; relative to the archive
    # limits
    piece_bytes_max: int = 32 << 20  # larger payloads are kept in pieces of this size; memory is a few times that
    inline_bytes_max: int = 8 << 10  # smaller requests and metadata are kept with their record, not as contents
    # performance
    frame_bytes: int = 64 << 10  # of entries compressed together; larger ones compress better and read slower
    file_bytes_max: int = 256 << 20  # of one journal file; a removal rewrites whole files
    catalog_cache_bytes: int = 64 << 20  # more speeds up random look-ups in large catalogs


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """`[serve]`: how the archive is shown and what a request may cost. Limits hold for each worker."""

    # behaviour
    host: str = "127.0.0.1"  # address to listen on; this machine only unless another is named
    port: int = 8080  # of the pages with controls; 0: any free one
    replay_port: int = 0  # of the archived pages; 0: the one after `port`, or any free one if that is 0
    workers: int = 0  # processes; 0: one for each core
    controls_url: str = ""  # public address behind a proxy, such as https://archive.example.org; empty: host and port
    replay_url: str = ""  # of the archived pages; must be another origin
    hosts: tuple[str, ...] = ()  # names accepted in `Host` besides `host`, the public addresses and loopback
    read_token_file: str = ""  # relative to the archive; one token a line, any of which is needed to read; empty: none
    write_token_file: str = ""  # the same for writing; empty: nobody may write, except with `serve --write`
    access_log: str = ""  # file, relative to the archive; -: standard error; empty: none
    coherence_warning_s: int = 30 * 86400  # spread of a page's resources beyond which the banner warns
    busters: tuple[str, ...] = DEFAULT_BUSTERS  # parameters that only defeat caches; * and ? stand for characters
    # limits
    header_bytes_max: int = 64 << 10  # of a request's head
    header_count_max: int = 100
    target_bytes_max: int = 32 << 10  # of a request's address
    body_bytes_max: int = 64 << 20  # of a request's body
    rewrite_bytes_max: int = 32 << 20  # larger scripts and styles are served as they are
    request_timeout_s: float = 10.0  # until a request's head is complete
    body_timeout_s: float = 30.0  # without a byte of the body
    write_stall_s: float = 60.0  # without a byte taken by a client that does not read
    keep_alive_s: float = 15.0  # between two requests of a connection
    stop_s: float = 10.0  # for requests under way when the server stops
    query_seconds_max: float = 30.0  # of one look through the catalog
    connections_max: int = 1000
    cdx_limit: int = 1_000_000  # lines of one answer of the CDX server; a resume key goes on
    timemap_mementos_max: int = 5000  # of one page of a TimeMap
    download_records_max: int = 100_000  # captures of one WARC that is made for a client
    download_bytes_max: int = 10 << 30  # payloads of these
    # performance
    cache_bytes: int = 64 << 20  # of rewritten answers


@dataclass(frozen=True, slots=True)
class VolumeSettings:
    """`[[volume]]`: one line of the connector (W9)."""

    name: str
    organization: str = "log"
    state: VolumeState = VolumeState.WRITABLE
    weight: float = 1.0  # share of new contents under weighted placement
    depth: int = 3  # of the directory tree, for organization tree
    path: str = ""  # relative to the archive; empty: volumes/<name>


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`[[access]]`: what may be seen. The first rule that fits a capture decides; without one it may be seen."""

    rule: str  # allow; block: listed, but not shown; exclude: as if it were not there
    collection: str = "*"  # *: all of them
    url: str = ""  # this URL; http or https, with or without www
    prefix: str = ""  # URLs that begin with it
    domain: str = ""  # hosts of this name, and below it
    from_: str = ""  # `from` in the file: captures of this time and later; partial times are padded
    to: str = ""  # and up to this time
    embargo: str = ""  # captures younger than '30 days', '1 year'; or any, until a date such as '2030-01-01'


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole of `holdfast.toml`."""

    store: StoreSettings = field(default_factory=StoreSettings)
    volume: tuple[VolumeSettings, ...] = ()
    records: RecordSettings = field(default_factory=RecordSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    access: tuple[AccessRule, ...] = ()

    def volume_settings(self, name: str) -> VolumeSettings | None:
        return next((volume for volume in self.volume if volume.name == name), None)


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


# -- changing the file: comments and order that people gave it are kept ------------------------------------------------


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
