"""Settings: one tree of frozen dataclasses, read from `holdfast.toml`.

Flags win over the environment, the environment over the file, the file over the defaults beside the fields.
An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import ArchiveNotFound, Denied, FormatTooNew, InvalidSetting
from holdfast.model import VolumeState, batch_name, volume_name

FORMAT = 1
CONTENT_BYTES_LIMIT = 10**12 - 1  # twelve digits in a block's header
ARCHIVE_VARIABLE = "HOLDFAST_ARCHIVE"

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
    # limits
    piece_bytes_max: int = 32 << 20  # larger payloads are kept in pieces of this size; memory is a few times that
    inline_bytes_max: int = 8 << 10  # smaller requests and metadata are kept with their record, not as contents
    # performance
    frame_bytes: int = 64 << 10  # of entries compressed together; larger ones compress better and read slower
    file_bytes_max: int = 256 << 20  # of one journal file; a removal rewrites whole files
    catalog_cache_bytes: int = 64 << 20  # more speeds up random look-ups in large catalogs


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
class Settings:
    """The whole of `holdfast.toml`."""

    store: StoreSettings = field(default_factory=StoreSettings)
    volume: tuple[VolumeSettings, ...] = ()
    records: RecordSettings = field(default_factory=RecordSettings)

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
    _reject_unknown(rest, ["store", "records", "volume"], path, "")
    store = _build(StoreSettings, rest.get("store", {}), path, "store")
    entries = rest.get("volume", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidSetting(f"'{path}': volume must be an array of tables: write [[volume]]")
    volumes = tuple(_volume(entry, path) for entry in entries)
    records = _checked(
        _build(RecordSettings, rest.get("records", {}), path, "records"), _RECORDS_LEAST, path, "records"
    )
    batch_name(records.collection)
    batch_name(records.batch)
    settings = Settings(_checked_store(store, path), volumes, records)
    names = [volume.name for volume in volumes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSetting(f"'{path}' names volume {name!r} twice")
    return settings


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


def _checked(settings: T, least: dict[str, int], path: Path, where: str) -> T:
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
        accepted = (int, float) if wanted == "float" else int if wanted == "int" else str
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise InvalidSetting(f"'{path}': {where}.{name} must be of type {wanted}, found {value!r}")
    return kind(**table)


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


def _differences(settings: StoreSettings | RecordSettings | VolumeSettings) -> dict[str, Any]:
    return {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.name not in ("name", "state") and getattr(settings, each.name) != each.default
    }
