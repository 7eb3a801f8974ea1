"""The block store of an archive: its volumes, the rule that picks among them, and how a contentkey finds its block.

A contentkey names the volume that its content was stored in. The block is looked for there first. If it was migrated,
or the volume is down, it is looked for in the others, where it stands under its `home`: moved, or as a replica.

A volume that cannot be opened does not stop the others (W14): it is listed in `down` with the reason, nothing is stored
in it, and its contents are read from replicas. If no volume can be opened, opening the store fails. A volume that fails
later gets no new contents for a while; those on other machines are opened again when they are back.

The connector may change while the store is open: `apply` adopts the change, and threads that are storing or reading
continue with the volumes that they hold.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import Damaged, DamagedBlock, HoldfastError, UnknownName, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import ContentKey, VolumeState
from holdfast.storage import placement
from holdfast.storage.audit import audit
from holdfast.storage.codec import ALIAS
from holdfast.storage.identity import VolumeNames
from holdfast.storage.placement import find_placement
from holdfast.storage.signature import find_signature
from holdfast.storage.store.bloom_sync import BloomSync
from holdfast.storage.store.encoder import Encodings
from holdfast.storage.store.fan_out import FanOut
from holdfast.storage.store.locate import BlockLocation, BlockLocations
from holdfast.storage.store.locks import MoveLock
from holdfast.storage.store.open import OpenedVolume, Opener, VolumeOpener, volume_path
from holdfast.storage.volume import (
    Block,
    BlockFacts,
    BlockKey,
    DamageNoting,
    Effect,
    OperationResult,
    ReadableVolume,
    Recount,
    Remote,
    Volume,
)
from holdfast.storage.volumes.faults import DAMAGED_BLOCK

log = logging.getLogger("holdfast.storage")

FULL_S = 30.0  # for how long a full volume gets no new contents
_RETIRED_S = 60.0  # for how long a volume that was taken out stays open for its readers
_MOVER_GRACE_S = (0.02, 0.1, 0.5)  # pauses in which another process may finish its own move
_WARN_S = 60.0  # the same warning is logged no more often than this


class _Retired(NamedTuple):
    opened: OpenedVolume
    since_s: float


class _Writable(NamedTuple):
    """The volumes that take new contents, and the settings and volumes they were computed from."""

    settings: Settings | None
    volumes: dict[str, ReadableVolume]
    candidates: list[VolumeSettings]


class BlockStore:
    """Open volumes, for reading or for writing. Any thread may call any method."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        env: Environment,
        *,
        writable: bool,
        opener: Opener | None = None,
    ) -> None:
        """`opener` opens a volume; without one, it is opened as its settings say."""
        self.root = root
        self.settings = settings
        self.env = env
        self.writable = writable
        self.signature = find_signature(settings.store.signature)
        self._place = find_placement(settings.store.placement)
        self._opener = opener
        self._opened: dict[str, OpenedVolume] = {}
        self._retired: list[_Retired] = []
        self.remote: dict[str, Remote] = {}  # those of `volumes` that are on other machines
        self._names = VolumeNames()
        self._backing_off: dict[str, float] = {}  # volumes that get no new contents, and until when
        self._warned: dict[str, float] = {}
        self._connector_lock = threading.RLock()
        self._audit_lock = threading.Lock()
        self._reloaded_s = env.monotonic()
        self.volumes: dict[str, ReadableVolume] = {}  # never changed in place: threads iterate over it
        self._writable_cache = _Writable(None, self.volumes, [])
        self.down: dict[str, HoldfastError] = {}
        self.fan_out = FanOut(self.remote.__contains__)
        self.encodings = Encodings(lambda: self.volumes, self.content)
        self.move_lock = MoveLock()
        self._bloom = BloomSync(env, root / paths.FILTERS, lambda: self.volumes, self.fan_out)
        for each in settings.volume:
            self._open(each)
        self._require_one()

    # -- opening and closing --------------------------------------------------------------------------------------

    def _open(self, settings: VolumeSettings) -> None:
        try:
            store, remote = self.settings.store, self.settings.remote
            opener = self._opener or VolumeOpener(self.root, store, remote, self.env, self.writable, self._names)
            opened = opener(settings)
        except HoldfastError as error:
            if settings.name not in self.down:
                log.warning("volume %r is down: %s", settings.name, error)
            self.down = self.down | {settings.name: error}
            return
        except BaseException:
            self.close()
            raise
        self._opened[settings.name] = opened
        if isinstance(opened.volume, Remote):
            self.remote[settings.name] = opened.volume
        self.volumes = self.volumes | {settings.name: opened.volume}
        self.down = {name: reason for name, reason in self.down.items() if name != settings.name}

    def _take_out(self, name: str) -> None:
        self.volumes = {other: volume for other, volume in self.volumes.items() if other != name}
        self.down = {other: reason for other, reason in self.down.items() if other != name}
        self.remote.pop(name, None)
        self._names.release(name)
        self._bloom.forget(name)
        self.encodings.forget(name)
        if opened := self._opened.pop(name, None):
            self._retired.append(_Retired(opened, self.env.monotonic()))

    def add(self, settings: VolumeSettings) -> None:
        """Opens a volume that was added to the connector."""
        self.apply(replace(self.settings, volume=(*self.settings.volume, settings)))

    def apply(self, settings: Settings) -> None:
        """Adopts a changed connector: states and weights, volumes that were added, removed, or moved elsewhere."""
        with self._connector_lock:
            before = {each.name: each for each in self.settings.volume}
            after = {each.name: each for each in settings.volume}
            for name, old in before.items():
                if name not in after or _location(after[name]) != _location(old):
                    self._take_out(name)
            self.settings = settings
            for name, new in after.items():
                if name not in self.volumes and (name not in before or _location(new) != _location(before[name])):
                    self._open(new)

    def set_state(self, name: str, state: VolumeState) -> None:
        """The volume takes new contents from now on, or no more."""
        with self._connector_lock:
            volumes = tuple(replace(each, state=state) if each.name == name else each for each in self.settings.volume)
            self.settings = replace(self.settings, volume=volumes)

    def reload_if_due(self) -> None:
        """Opens volumes that were down, closes those that were taken out; at most every `remote.follow_s` seconds."""
        now_s = self.env.monotonic()
        if now_s - self._reloaded_s < self.settings.remote.follow_s or not self._connector_lock.acquire(blocking=False):
            return
        try:
            self._reloaded_s = now_s
            for each in self.settings.volume:
                if each.name in self.down and (each.address or each.url):
                    self._open(each)
            while self._retired and now_s - self._retired[0].since_s > _RETIRED_S:
                self._retired.pop(0).opened.close()
        finally:
            self._connector_lock.release()

    def _require_one(self) -> None:
        if self.down and not self.volumes:
            raise next(iter(self.down.values()))

    def directory(self, settings: VolumeSettings) -> Path:
        return volume_path(self.root, settings)

    def close(self) -> None:
        """Closes every volume, whatever happens to the others; raises the first failure."""
        failures: list[HoldfastError] = []
        self.encodings.close()
        try:
            if self.writable:
                self._bloom.save()
        except HoldfastError as error:
            log.warning("the filter was not saved and will be rebuilt: %s", error)
        for opened in [*(retired.opened for retired in self._retired), *self._opened.values()]:
            try:
                opened.close()
            except HoldfastError as error:
                failures.append(error)
        self.fan_out.close()
        if failures:
            raise failures[0]

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
        """The volume, for any change. The caller has opened the store for writing."""
        assert self.writable, "the store is open for reading only"
        return self.volume(name)  # type: ignore[return-value]

    def chosen(self, name: str) -> Volume:
        """The volume, for new contents, as the caller chose. Raises VolumeReadOnly, UnknownName or VolumeDown."""
        found = self.writer(name)
        settings = self.settings.volume_settings(name)
        if settings is None or settings.state is not VolumeState.WRITABLE:
            raise VolumeReadOnly(
                f"volume {name!r} is read-only; set it writable ('holdfast volume set-state') or choose another"
            )
        return found

    def is_up(self, name: str) -> bool:
        """Whether the volume can be reached, as far as is known."""
        remote = self.remote.get(name)
        return name in self.volumes if remote is None else remote.available

    def is_accepting(self, name: str) -> bool:
        """Whether the volume is up and has not failed just now."""
        return self.is_up(name) and self._backing_off.get(name, 0.0) <= self.env.monotonic()

    def is_shared(self, name: str) -> bool:
        """Whether other processes may write to the volume too."""
        return name in self.remote

    def back_off(self, name: str, error: HoldfastError) -> None:
        """The volume has failed: it gets no new contents for a while."""
        pause_s = FULL_S if isinstance(error, VolumeFull) else self.settings.remote.down_s
        self.warn(f"volume {name!r}", f"volume {name!r} gets no new contents for {pause_s:g} s: {error}")
        self._backing_off[name] = self.env.monotonic() + pause_s

    def warn(self, subject: str, text: str) -> None:
        """Logs a warning, unless there was one on this subject just now."""
        now_s = self.env.monotonic()
        if now_s - self._warned.get(subject, -_WARN_S) >= _WARN_S:
            self._warned[subject] = now_s
            log.warning("%s", text)

    def places(self, signature: bytes, beside: str = "") -> list[str]:
        """The volumes for a new content, or for a block of volume `beside`, in order of preference. Never empty."""
        self.reload_if_due()
        candidates = self._candidates() if not beside else self._up(placement.like(self.settings, beside))
        if self.remote or self._backing_off:
            candidates = self._accepting(candidates)
        if not candidates:
            kind = "update volume" if self.settings.store.update == placement.BATCH else "volume"
            raise VolumeReadOnly(f"no writable {kind} is up; add one ('holdfast volume add') or set one writable")
        if len(candidates) == 1:
            return [candidates[0].name]
        return self._place(signature, candidates)

    def placement(self, signature: bytes, name: str) -> list[str]:
        """Where a block of a volume belongs, whether or not the volumes are up: all writable ones, the best first."""
        writable = placement.like(self.settings, name)
        return self._place(signature, writable) if writable else []

    @property
    def writable_count(self) -> int:
        """How many volumes of the connector take new contents, up or not."""
        return len(placement.for_new(self.settings))

    def _candidates(self) -> list[VolumeSettings]:
        cached, settings, volumes = self._writable_cache, self.settings, self.volumes
        if cached.settings is not settings or cached.volumes is not volumes:
            self._writable_cache = cached = _Writable(settings, volumes, self._up(placement.for_new(settings)))
        return cached.candidates

    def _up(self, volumes: list[VolumeSettings]) -> list[VolumeSettings]:
        return [each for each in volumes if each.name in self.volumes]

    def _accepting(self, candidates: list[VolumeSettings]) -> list[VolumeSettings]:
        """Those that are up and have not failed just now; if all have, they are tried again, for the error."""
        up = [each for each in candidates if self.is_up(each.name)]
        if candidates and not up:
            raise VolumeDown(f"no writable volume is up: {', '.join(each.name for each in candidates)} are down")
        now_s = self.env.monotonic()
        for name in [name for name, until_s in self._backing_off.items() if until_s <= now_s]:
            self._backing_off.pop(name, None)
        return [each for each in up if each.name not in self._backing_off] or up

    def others(self, signature: bytes, name: str) -> list[str]:
        """The volumes beside `name` that may hold the signature."""
        volumes = self.volumes
        if len(volumes) < 2 and name in volumes:
            return []
        if not self.writable:
            return [other for other in volumes if other != name]
        named = self._bloom.may_hold(signature, self.settings.remote.follow_s)
        return [other for other in named if other != name and other in volumes]

    @property
    def is_incomplete(self) -> bool:
        """Whether a volume that others write to is down, so that what they have put there is unknown."""
        remote = any(each.address for each in self.settings.volume if each.name in self.down)
        return remote or bool(self._bloom.behind)

    def may_hold(self, signature: bytes) -> list[str]:
        """All volumes that may hold the signature; empty if there is only one volume."""
        return self._bloom.may_hold(signature, self.settings.remote.follow_s) if len(self.volumes) > 1 else []

    # -- finding blocks -----------------------------------------------------------------------------------------

    def find(self, key: ContentKey) -> BlockLocations:
        """All blocks that answer to the key."""
        return self.find_batch([key])[0]

    def find_batch(self, keys: Sequence[ContentKey], *, everywhere: bool = False) -> list[BlockLocations]:
        """All blocks that answer to each key, with one probe of each volume; `everywhere` does not trust the filter.

        Raises UnknownName if a key names no volume of the connector.
        """
        wanted: dict[str, dict[bytes, None]] = {}
        for key in keys:
            if key.volume not in self.volumes and key.volume not in self.down:
                self.volume(key.volume)
            named = self.volumes if everywhere else (key.volume, *self.others(key.signature, key.volume))
            for name in named:
                wanted.setdefault(name, {})[key.signature] = None
        asked = [name for name in wanted if name in self.volumes and self.is_up(name)]
        responses = self.fan_out.each(asked, lambda name: self.volume(name).probe(list(wanted[name])))
        found_by = {name: dict(zip(wanted[name], facts, strict=True)) for name, facts in responses.results.items()}
        away = {name: wanted.get(name, {}) for name in (*wanted, *self.down) if name not in found_by}
        return [self._locations_of(key, found_by, away) for key in keys]

    def _locations_of(
        self,
        key: ContentKey,
        found_by: dict[str, dict[bytes, tuple[BlockFacts, ...]]],
        away: dict[str, dict[bytes, None]],
    ) -> BlockLocations:
        held = BlockLocations(
            key, away=[name for name, asked in away.items() if name in self.down or key.signature in asked]
        )
        own, hosted = BlockKey(key.signature, key.overflow), BlockKey(key.signature, key.overflow, key.volume.encode())
        for name in (key.volume, *(each.name for each in self.settings.volume if each.name != key.volume)):
            wanted = own if name == key.volume else hosted
            for facts in found_by.get(name, {}).get(key.signature, ()):
                if facts.key == wanted:
                    held.add(BlockLocation(self.volume(name), facts))
        return held

    def content(self, key: ContentKey) -> bytes:
        """The content, from whichever block can be read. Raises VolumeDown or DamagedBlock."""
        problem: HoldfastError = DamagedBlock(f"no block of {key} can be read; run 'holdfast check'")
        for found in self.find_batch([key], everywhere=True)[0].blocks:
            try:
                (block,) = found.volume.fetch([found.facts.key])
                if block is not None:
                    return self.decoded(block, found.volume)
            except (Damaged, VolumeDown) as error:
                problem = error
        raise problem

    def damage_of(self, key: ContentKey) -> Damaged | None:
        """Why no block was found under the key: there is one in some volume, but not even its counter can be read."""
        for name, volume in self.volumes.items():
            if self.is_up(name):
                try:
                    volume.fetch([block_key(key, name)])
                except Damaged as error:
                    return error
                except VolumeDown:
                    continue
        return None

    def decoded(self, block: Block, volume: ReadableVolume) -> bytes:
        """The content of a block. Raises DamagedBlock if nothing decodes it, and remembers that."""
        try:
            return self.encodings.decode(block, volume)
        except Damaged:
            if block.encoded.codec != ALIAS:  # else it is another block that is damaged
                self.note_damaged(volume, block.key)
            raise

    def note_damaged(self, volume: ReadableVolume, key: BlockKey) -> None:
        """The block cannot be decoded, though its checksum is right: a volume by itself does not see that."""
        if isinstance(volume, DamageNoting):
            with suppress(VolumeDown):
                volume.note_damaged([key])

    def report_healed(self, name: str, outcomes: Sequence[OperationResult]) -> None:
        """Logs, also in the audit log, which damaged blocks of the volume have sound data again."""
        volume = self.volume(name)
        keys = [self.content_key(volume, each.key) for each in outcomes if each.effect is Effect.HEALED]
        if not keys:
            return
        for key in keys:
            log.warning("healed %s in volume %r: its block was damaged", key, name)
        events = [{"event": "healed", "volume": name, "fault": DAMAGED_BLOCK, "contentkey": str(key)} for key in keys]
        try:
            with self._audit_lock:
                audit(self.root, self.env, events)
        except (HoldfastError, FileNotFoundError) as error:
            log.warning("the audit log does not mention it: %s", error)

    def finish_move(self, held: BlockLocations) -> bool:
        """A moving block whose original is gone becomes the block. True if there was one: then look again."""
        if held.counted or not held.moving or held.away:
            return False
        (again,) = self.find_batch([held.key], everywhere=True)
        for pause_s in _MOVER_GRACE_S if self.remote else ():  # its mover, in another process, is most likely at work
            if not again.counted:
                self.env.sleep(pause_s)
                (again,) = self.find_batch([held.key], everywhere=True)
        if not again.counted and again.moving and not again.away:
            found = max(again.moving, key=lambda each: each.references)  # rather one too many than one too few
            counted = Recount(found.facts.key, found.references, found.facts.references, replica=False)
            self.writer(found.volume.name).commit([counted])
        return True

    def content_key(self, volume: ReadableVolume, key: BlockKey) -> ContentKey:
        """The contentkey that leads to a block of the volume."""
        return ContentKey(key.home.decode() or volume.name, key.signature, key.overflow)

    def note(self, signature: bytes, name: str) -> None:
        """The volume holds the signature: to be called after the commit and before the caller returns."""
        if len(self.volumes) > 1:
            self._bloom.note(signature, name)


def block_key(key: ContentKey, name: str) -> BlockKey:
    """Under which key a volume holds the content."""
    return BlockKey(key.signature, key.overflow, b"" if name == key.volume else key.volume.encode())


def _location(settings: VolumeSettings) -> tuple[str, str, str]:
    return settings.address, settings.url, settings.path
