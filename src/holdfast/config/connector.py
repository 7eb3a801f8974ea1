"""Connectors: files that list the volumes of a store, read by all of its clients (W9).

    format = 1                                 or Webstore's XML (`connector_xml`)
    [store]      [remote]      [[volume]]

A connector lists volumes outside the archive: on volume servers (`address`), in object stores (`url`), in directories
(`path`). An archive names its connector in `holdfast.toml` and uses the connector's volumes with its own; a client
without an archive needs only a connector.

Paths in a connector are relative to it; here they become absolute.
"""

from __future__ import annotations

import codecs
import logging
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.config.read import FORMAT, load, parse, reject_twins
from holdfast.config.settings import RemoteSettings, Settings, StoreSettings, VolumeSettings
from holdfast.errors import Denied, HoldfastError, InvalidSetting, NotFound

log = logging.getLogger("holdfast.config")

CONNECTOR_BYTES_MAX = 4 << 20
SECTIONS = ("store", "remote", "volume")
_FILES = ("secret_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
_TICK_S = 2.0  # a file changed within this time may change again under the same stamp
S = TypeVar("S", StoreSettings, RemoteSettings)
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def load_connector(path: str | Path) -> Settings:
    """The settings of a connector. Raises NotFound, Denied, FormatTooNew or InvalidSetting."""
    path = Path(path)
    data = _read(path)
    settings = _settings_of_xml(data, path) if is_xml(data) else _settings_of_toml(data, path)
    directory = path.absolute().parent
    volumes = tuple(_placed(volume, directory, path) for volume in settings.volume)
    return replace(settings, volume=volumes, remote=resolved(settings.remote, directory))


def merged(settings: Settings, path: str | Path) -> Settings:
    """The settings of an archive, read from `path`, with the volumes of its connector after its own.

    The archive's own `[store]` and `[remote]` override the connector's. Raises as `load_connector`, and InvalidSetting
    if both name the same volume or disagree on the signature.
    """
    path = Path(path)
    own = resolved(settings.remote, path.absolute().parent)
    if not settings.connector:
        return replace(settings, remote=own)
    named = path.parent / settings.connector
    file = named.parent.resolve() / named.name
    connector = load_connector(file)
    if connector.store.signature not in (settings.store.signature, Settings().store.signature):
        raise InvalidSetting(
            f"'{file}' is for signature {connector.store.signature!r}, the archive has {settings.store.signature!r}"
        )
    for volume in connector.volume:
        if settings.volume_settings(volume.name) is not None:
            raise InvalidSetting(f"volume {volume.name!r} is named both in '{path}' and in its connector '{file}'")
    volumes = (*settings.volume, *connector.volume)
    reject_twins(volumes, path)
    store = replace(_over(settings, "store", settings.store, connector.store), signature=settings.store.signature)
    return replace(settings, volume=volumes, store=store, remote=_over(settings, "remote", own, connector.remote))


def _over(settings: Settings, section: str, own: S, others: S) -> S:
    """A section of the connector, overridden by the archive's own keys."""
    said = [name for place, _, name in (each.partition(".") for each in settings.said) if place == section]
    return replace(others, **{name: getattr(own, name) for name in said})


def resolved(remote: RemoteSettings, directory: Path) -> RemoteSettings:
    """The settings with paths made absolute, relative to the directory of their file."""
    paths: dict[str, Any] = {name: str(directory / given) for name in _FILES if (given := getattr(remote, name))}
    return replace(remote, **paths)


def is_xml(data: bytes) -> bool:
    return data.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<") or data.startswith(_WIDE)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(CONNECTOR_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no connector '{path}': the file is missing") from None
    except PermissionError:
        raise Denied(f"not permitted to read the connector '{path}'") from None
    except OSError as error:
        raise InvalidSetting(f"cannot read the connector '{path}': {error.strerror or error}") from None
    if len(data) > CONNECTOR_BYTES_MAX:
        raise InvalidSetting(f"'{path}' is not a connector: it has more than {CONNECTOR_BYTES_MAX} bytes")
    return data


def _settings_of_toml(data: bytes, path: Path) -> Settings:
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSetting(f"cannot read the connector '{path}': {error}") from None
    return parse(table, path, SECTIONS)


def _settings_of_xml(data: bytes, path: Path) -> Settings:
    from holdfast.config.connector_xml import read_instance  # rarely needed

    try:
        volumes, sections = read_instance(data)
    except InvalidSetting as error:
        raise InvalidSetting(f"cannot read the connector '{path}': {error}") from None
    reject_twins(volumes, path)
    return replace(parse({"format": FORMAT, **sections}, path, SECTIONS), volume=tuple(volumes))


def _placed(volume: VolumeSettings, directory: Path, path: Path) -> VolumeSettings:
    """The volume with an absolute path, if it has one."""
    if not (volume.address or volume.url or volume.path):
        raise InvalidSetting(f"'{path}': volume {volume.name!r} has no place: give its address, url or path")
    if volume.address:
        return volume
    return replace(volume, path=str(directory / (volume.path or f"volumes/{volume.name}")))


class _Stamp(NamedTuple):
    inode: int
    size: int
    changed_ns: int


class SettingsWatch:
    """Detects changed settings by watching their files. Thread-safe.

    A missing or invalid file is logged once; the previous settings stay until it is valid again.
    """

    def __init__(
        self,
        load: Callable[[], Settings],
        paths: Callable[[Settings], Sequence[Path]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Loads the settings; `paths` returns their files. Raises as `load`."""
        self._load = load
        self._paths = paths
        self._clock = clock
        self._lock = threading.Lock()
        self._logged = ""
        self.settings = load()
        self._files = tuple(paths(self.settings))
        self._seen: tuple[_Stamp | None, ...] | None = None  # None: read again, whatever the stamps

    def poll(self) -> Settings | None:
        """The settings if they changed since the last call, else None. Cheap while nothing changes."""
        with self._lock:
            stamps = tuple(map(_stamp, self._files))
            if stamps == self._seen:
                return None
            self._seen = stamps if self._are_settled(stamps) else None
            try:
                settings = self._load()
            except HoldfastError as error:
                self._warn(str(error))
                return None
            self._logged = ""
            if (files := tuple(self._paths(settings))) != self._files:
                self._files, self._seen = files, None
            changed = settings != self.settings
            self.settings = settings
            return settings if changed else None

    def _are_settled(self, stamps: Sequence[_Stamp | None]) -> bool:
        """True if a later change would show: clocks of file systems are coarse."""
        newest_s = max((stamp.changed_ns for stamp in stamps if stamp is not None), default=0) / 1e9
        return abs(self._clock() - newest_s) > _TICK_S

    def _warn(self, fault: str) -> None:
        if fault != self._logged:
            self._logged = fault
            log.warning("keeping the previous settings: %s", fault)


def watch_connector(path: str | Path, clock: Callable[[], float] = time.time) -> SettingsWatch:
    """For a client without an archive. Raises as `load_connector`."""
    return SettingsWatch(lambda: load_connector(path), lambda settings: [Path(path)], clock)


def watch_settings(path: Path, clock: Callable[[], float] = time.time) -> SettingsWatch:
    """For an archive: its `holdfast.toml` and its connector. Raises as `load` and `merged`."""

    def files(settings: Settings) -> list[Path]:
        return [path, path.parent / settings.connector] if settings.connector else [path]

    return SettingsWatch(lambda: merged(load(path), path), files, clock)


def _stamp(path: Path) -> _Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return _Stamp(facts.st_ino, facts.st_size, facts.st_mtime_ns)
