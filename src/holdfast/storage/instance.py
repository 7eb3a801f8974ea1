"""An instance: the volumes of an archive, the rule that picks among them, and how a contentkey finds its block.

A contentkey names the volume that its content was stored in. The block is looked for there first, then, if the volume
was migrated or is down, in the others, where it stands under its `home`: as a moved block, or as a replica.

A volume that cannot be opened does not stop the others (W14): it is listed in `down` with the reason, nothing is stored
in it, and its contents are read from replicas. If no volume can be opened, opening the instance fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment
from holdfast.errors import HoldfastError, UnknownName, VolumeDown, VolumeReadOnly
from holdfast.model import ContentKey, VolumeState
from holdfast.storage import layout
from holdfast.storage.encoding import Encodings
from holdfast.storage.filter import VolumeFilter, build_filter
from holdfast.storage.gate import Gate
from holdfast.storage.organizations import open_volume, open_volume_reader
from holdfast.storage.placement import find_placement
from holdfast.storage.signature import find_signature
from holdfast.storage.volume import BlockFacts, BlockKey, ReadableVolume, Volume

log = logging.getLogger("holdfast.storage")


class Found(NamedTuple):
    """A block that answers to a contentkey, and the volume it stands in."""

    volume: ReadableVolume
    facts: BlockFacts


class Instance:
    """Open volumes, for reading or for writing. Any thread may call any method."""

    def __init__(self, root: Path, settings: Settings, env: Environment, *, writable: bool) -> None:
        self.root = root
        self.settings = settings
        self.env = env
        self.writable = writable
        self.signature = find_signature(settings.store.signature)
        self._place = find_placement(settings.store.placement)
        self._writable_cache: tuple[Settings | None, list[VolumeSettings]] = None, []
        self._filter: VolumeFilter | None = None
        self._filter_lock = threading.Lock()
        self.volumes: dict[str, ReadableVolume] = {}
        self.encodings = Encodings(self.volumes)
        self.gate = Gate()
        self.down: dict[str, HoldfastError] = {}
        for each in settings.volume:
            self._open(each)
        self._require_one()

    def _open(self, settings: VolumeSettings) -> None:
        opener = open_volume if self.writable else open_volume_reader
        try:
            self.volumes[settings.name] = opener(settings.name, self.directory(settings), self.settings.store, self.env)
        except HoldfastError as error:
            self.down[settings.name] = error
            log.warning("volume %r is down: %s", settings.name, error)
        except BaseException:
            self.close()
            raise

    def add(self, settings: VolumeSettings) -> None:
        """Opens a volume that was added to the connector."""
        with self._filter_lock:
            self._open(settings)
            self._filter = None  # it has no bit for the new volume
        self.settings = replace(self.settings, volume=(*self.settings.volume, settings))

    def _require_one(self) -> None:
        if self.down and not self.volumes:
            raise next(iter(self.down.values()))

    def directory(self, settings: VolumeSettings) -> Path:
        return self.root / settings.path if settings.path else layout.volume_directory(self.root, settings.name)

    # -- choosing volumes ---------------------------------------------------------------------------------------

    def volume(self, name: str) -> ReadableVolume:
        """Raises UnknownName or VolumeDown."""
        found = self.volumes.get(name)
        if found is not None:
            return found
        if name in self.down:
            raise VolumeDown(f"volume {name!r} is down: {self.down[name]}")
        raise UnknownName(f"unknown volume {name!r}: known are {', '.join(each.name for each in self.settings.volume)}")

    def writer(self, name: str) -> Volume:
        """The volume, for any change. The caller has opened the instance for writing."""
        assert self.writable, "the instance is open for reading only"
        return self.volume(name)  # type: ignore[return-value]

    def chosen(self, name: str) -> Volume:
        """The volume, for new contents, as the caller asked."""
        found = self.writer(name)
        settings = self.settings.volume_settings(name)
        if settings is None or settings.state is not VolumeState.WRITABLE:
            raise VolumeReadOnly(
                f"volume {name!r} is read-only; set it writable ('holdfast volume set-state') or choose another"
            )
        return found

    def places(self, signature: bytes) -> list[str]:
        """The volumes for a new content, in order of preference. Never empty."""
        candidates = self._candidates()
        if not candidates:
            raise VolumeReadOnly("no writable volume is up; add one ('holdfast volume add') or set one writable")
        if len(candidates) == 1:
            return [candidates[0].name]
        return self._place(signature, candidates)

    def _candidates(self) -> list[VolumeSettings]:
        settings, candidates = self._writable_cache
        if settings is not self.settings:
            settings = self.settings
            candidates = [
                each for each in settings.volume if each.state is VolumeState.WRITABLE and each.name in self.volumes
            ]
            self._writable_cache = settings, candidates
        return candidates

    def others(self, signature: bytes, name: str) -> list[str]:
        """The volumes beside `name` that may hold the signature."""
        if len(self.volumes) < 2 and name in self.volumes:
            return []
        if not self.writable:
            return [other for other in self.volumes if other != name]
        return [other for other in self._current_filter().may_hold(signature) if other != name]

    # -- finding blocks -----------------------------------------------------------------------------------------

    def find(self, key: ContentKey) -> Iterator[Found]:
        """All blocks that answer to the key, the one whose counter is in force first."""
        own = self.volumes.get(key.volume)
        if own is not None:
            yield from self._matching(own, BlockKey(key.signature, key.overflow))
        elif key.volume not in self.down:
            self.volume(key.volume)
        home = BlockKey(key.signature, key.overflow, key.volume.encode())
        hosted = [
            found
            for name in self.others(key.signature, key.volume)
            for found in self._matching(self.volumes[name], home)
        ]
        yield from sorted(hosted, key=lambda found: found.facts.replica)

    def _matching(self, volume: ReadableVolume, wanted: BlockKey) -> list[Found]:
        (facts,) = volume.probe([wanted.signature])
        return [Found(volume, each) for each in facts if each.key == wanted]

    def content_key(self, volume: ReadableVolume, key: BlockKey) -> ContentKey:
        """The contentkey that leads to a block of the volume."""
        return ContentKey(key.home.decode() or volume.name, key.signature, key.overflow)

    # -- the filter ---------------------------------------------------------------------------------------------

    def note(self, signature: bytes, name: str) -> None:
        """The volume holds the signature: to be called after the commit and before the caller is told."""
        if len(self.volumes) < 2:
            return
        self._current_filter()
        with self._filter_lock:  # a filter that is being built misses nothing: this waits for it
            if self._filter is None:  # a volume was added just now: the next one will be built from what is stored
                return
            if self._filter.crowded:
                self._filter = self._build_filter()
            self._filter.add(signature, name)

    def _current_filter(self) -> VolumeFilter:
        current = self._filter
        if current is None:
            with self._filter_lock:
                current = self._filter
                if current is None:
                    positions = self._positions()
                    loaded = VolumeFilter.load(self.env, self.root / layout.FILTERS, positions)
                    current = self._filter = loaded or self._build_filter()
        return current

    def _build_filter(self) -> VolumeFilter:
        return build_filter({name: volume.signatures for name, volume in self.volumes.items()})

    def _positions(self) -> Mapping[str, int]:
        return {name: self.writer(name).position() for name in self.volumes}

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes every volume, whatever happens to the others; raises the first failure."""
        failures: list[HoldfastError] = []
        self.encodings.close()
        try:
            if self.writable and self._filter is not None:
                self._filter.save(self.env, self.root / layout.FILTERS, self._positions())
        except HoldfastError as error:
            log.warning("the filter was not saved and will be built anew: %s", error)
        for volume in self.volumes.values():
            try:
                volume.close()
            except HoldfastError as error:
                failures.append(error)
        if failures:
            raise failures[0]
