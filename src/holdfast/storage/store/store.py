"""An instance: the volumes of an archive, the rule that picks among them, and how a contentkey finds its block.

A contentkey names the volume that its content was stored in. The block is looked for there first, then, if the volume
was migrated or is down, in the others, where it stands under its `home`: as a moved block, or as a replica.

A volume that cannot be opened does not stop the others (W14): it is listed in `down` with the reason, nothing is stored
in it, and its contents are read from replicas. If no volume can be opened, opening the instance fails. One that fails
later is left alone for a while; those on other machines are opened again when they are back.

The connector may change while the instance is open: `apply` takes the change over, and threads that are storing or
reading go on with the volumes that they have at hand.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import Damaged, DamagedBlock, HoldfastError, UnknownName, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import ContentKey, VolumeState
from holdfast.storage import placement
from holdfast.storage.audit import audit
from holdfast.storage.codec import ALIAS
from holdfast.storage.placement import find_placement
from holdfast.storage.signature import find_signature
from holdfast.storage.store.bloom_sync import BloomSync
from holdfast.storage.store.encoder import Encodings
from holdfast.storage.store.fan_out import FanOut
from holdfast.storage.store.locate import BlockLocation, BlockLocations, Roster
from holdfast.storage.store.locks import MoveLock
from holdfast.storage.store.open import OpenedVolumes, Opener, VolumeOpener, volume_path
from holdfast.storage.volume import Block, BlockFacts, BlockKey, DamageNoting, ReadableVolume, Recount, Remote, Volume
from holdfast.storage.volumes.faults import DAMAGED_BLOCK

log = logging.getLogger("holdfast.storage")

FULL_S = 30.0  # for how long a full volume gets no new contents
_RETIRED_S = 60.0  # for how long a volume that was taken out stays open for those who are still reading
_SETTLE_S = (0.02, 0.1, 0.5)  # pauses before a copy that a migration left alone is put in force by somebody else
_WARN_S = 60.0  # the same warning comes no more often than this


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What an instance is given beside its settings."""

    opener: Opener | None = None  # how to open a volume; None: as its settings say
    watch: Callable[[], Settings | None] | None = None  # asked now and then: the settings, if they have changed


class _Retired(NamedTuple):
    opened: OpenedVolumes
    since_s: float


class _Writable(NamedTuple):
    """The volumes that take new contents, and what that was concluded from."""

    settings: Settings | None
    volumes: dict[str, ReadableVolume]
    candidates: list[VolumeSettings]


_ALONE = StoreContext()


class BlockStore:
    """Open volumes, for reading or for writing. Any thread may call any method."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        env: Environment,
        surroundings: StoreContext = _ALONE,
        *,
        writable: bool,
    ) -> None:
        self.root = root
        self.settings = settings
        self.env = env
        self.writable = writable
        self.signature = find_signature(settings.store.signature)
        self._place = find_placement(settings.store.placement)
        self._surroundings = surroundings
        self._opened: dict[str, OpenedVolumes] = {}
        self._retired: list[_Retired] = []
        self.remote: dict[str, Remote] = {}  # those of `volumes` that are on other machines
        self._roster = Roster()
        self._resting: dict[str, float] = {}  # volumes that get no new contents, and until when
        self._warned: dict[str, float] = {}
        self._connector_lock = threading.RLock()
        self._audit_lock = threading.Lock()
        self._looked_s = env.monotonic()
        self.volumes: dict[str, ReadableVolume] = {}  # never changed in place: threads iterate over it
        self._writable_cache = _Writable(None, self.volumes, [])
        self.down: dict[str, HoldfastError] = {}
        self.asking = FanOut(self.remote.__contains__)
        self.encodings = Encodings(lambda: self.volumes, self.content)
        self.gate = MoveLock()
        self._following = BloomSync(env, root / paths.FILTERS, lambda: self.volumes, self.asking)
        for each in settings.volume:
            self._open(each)
        self._require_one()

    # -- opening and closing --------------------------------------------------------------------------------------

    def _opener(self) -> Opener:
        if self._surroundings.opener is not None:
            return self._surroundings.opener
        settings = self.settings
        return VolumeOpener(self.root, settings.store, settings.remote, self.env, self.writable, self._roster)

    def _open(self, settings: VolumeSettings) -> None:
        try:
            opened = self._opener()(settings)
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
        self._roster.leave(name)
        self._following.forget(name)
        self.encodings.forget(name)
        if opened := self._opened.pop(name, None):
            self._retired.append(_Retired(opened, self.env.monotonic()))

    def add(self, settings: VolumeSettings) -> None:
        """Opens a volume that was added to the connector."""
        self.apply(replace(self.settings, volume=(*self.settings.volume, settings)))

    def apply(self, settings: Settings) -> None:
        """Takes a changed connector over: states and weights, volumes that came, went, or are elsewhere now."""
        with self._connector_lock:
            before = {each.name: each for each in self.settings.volume}
            after = {each.name: each for each in settings.volume}
            for name, old in before.items():
                if name not in after or _place_of(after[name]) != _place_of(old):
                    self._take_out(name)
            self.settings = settings
            for name, new in after.items():
                if name not in self.volumes and (name not in before or _place_of(new) != _place_of(before[name])):
                    self._open(new)

    def look_around(self) -> None:
        """Sees to the connector and to volumes that were down, at most every `remote.follow_s` seconds."""
        now_s = self.env.monotonic()
        if now_s - self._looked_s < self.settings.remote.follow_s or not self._connector_lock.acquire(blocking=False):
            return
        try:
            self._looked_s = now_s
            if self._surroundings.watch is not None and (changed := self._surroundings.watch()) is not None:
                self.apply(changed)
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
                self._following.save()
        except HoldfastError as error:
            log.warning("the filter was not saved and will be built anew: %s", error)
        for opened in [*(retired.opened for retired in self._retired), *self._opened.values()]:
            try:
                opened.close()
            except HoldfastError as error:
                failures.append(error)
        self.asking.close()
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

    def is_up(self, name: str) -> bool:
        """Whether the volume can be asked, as far as is known."""
        remote = self.remote.get(name)
        return name in self.volumes if remote is None else remote.available

    def takes(self, name: str) -> bool:
        """Whether the volume is up and has not failed just now."""
        return self.is_up(name) and self._resting.get(name, 0.0) <= self.env.monotonic()

    def is_shared(self, name: str) -> bool:
        """Whether other processes may write to the volume too."""
        return name in self.remote

    def rest(self, name: str, error: HoldfastError) -> None:
        """The volume has failed: for a while it gets no new contents."""
        rest_s = FULL_S if isinstance(error, VolumeFull) else self.settings.remote.down_s
        self.warn(f"volume {name!r}", f"volume {name!r} gets no new contents for {rest_s:g} s: {error}")
        self._resting[name] = self.env.monotonic() + rest_s

    def warn(self, subject: str, text: str) -> None:
        """Logs a warning, unless there was one on this subject just now."""
        now_s = self.env.monotonic()
        if now_s - self._warned.get(subject, -_WARN_S) >= _WARN_S:
            self._warned[subject] = now_s
            log.warning("%s", text)

    def places(self, signature: bytes, beside: str = "") -> list[str]:
        """The volumes for a new content, or for a block of volume `beside`, in order of preference. Never empty."""
        self.look_around()
        candidates = self._candidates() if not beside else self._up(placement.like(self.settings, beside))
        if self.remote or self._resting:
            candidates = self._awake(candidates)
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

    def _awake(self, candidates: list[VolumeSettings]) -> list[VolumeSettings]:
        """Those that are up and do not rest; if all rest, they are asked again, for the reason."""
        up = [each for each in candidates if self.is_up(each.name)]
        if candidates and not up:
            raise VolumeDown(f"no writable volume is up: {', '.join(each.name for each in candidates)} are down")
        now_s = self.env.monotonic()
        for name in [name for name, until_s in self._resting.items() if until_s <= now_s]:
            self._resting.pop(name, None)
        return [each for each in up if each.name not in self._resting] or up

    def others(self, signature: bytes, name: str) -> list[str]:
        """The volumes beside `name` that may hold the signature."""
        volumes = self.volumes
        if len(volumes) < 2 and name in volumes:
            return []
        if not self.writable:
            return [other for other in volumes if other != name]
        named = self._following.may_hold(signature, self.settings.remote.follow_s)
        return [other for other in named if other != name and other in volumes]

    @property
    def is_behind(self) -> bool:
        """Whether a volume that others write to is down, so that nobody knows what they have put there."""
        remote = any(each.address for each in self.settings.volume if each.name in self.down)
        return remote or bool(self._following.behind)

    def named(self, signature: bytes) -> list[str]:
        """All volumes that may hold the signature; of a single one that is not said."""
        return self._following.may_hold(signature, self.settings.remote.follow_s) if len(self.volumes) > 1 else []

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
        answers = self.asking.each(asked, lambda name: self.volume(name).probe(list(wanted[name])))
        told = {name: dict(zip(wanted[name], facts, strict=True)) for name, facts in answers.given.items()}
        away = {name: wanted.get(name, {}) for name in (*wanted, *self.down) if name not in told}
        return [self._holdings(key, told, away) for key in keys]

    def _holdings(
        self,
        key: ContentKey,
        told: dict[str, dict[bytes, tuple[BlockFacts, ...]]],
        away: dict[str, dict[bytes, None]],
    ) -> BlockLocations:
        held = BlockLocations(
            key, away=[name for name, asked in away.items() if name in self.down or key.signature in asked]
        )
        own, hosted = BlockKey(key.signature, key.overflow), BlockKey(key.signature, key.overflow, key.volume.encode())
        for name in (key.volume, *(each.name for each in self.settings.volume if each.name != key.volume)):
            wanted = own if name == key.volume else hosted
            for facts in told.get(name, {}).get(key.signature, ()):
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
        """Why no block answers to the key: one is there, in whichever volume, and not even its counter can be read."""
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

    def healed(self, name: str, keys: Sequence[ContentKey]) -> None:
        """Damaged blocks of the volume have sound data again: the audit log names them."""
        for key in keys:
            log.warning("healed %s in volume %r: its block was damaged", key, name)
        events = [{"event": "healed", "volume": name, "fault": DAMAGED_BLOCK, "contentkey": str(key)} for key in keys]
        try:
            with self._audit_lock:
                audit(self.root, self.env, events)
        except (HoldfastError, FileNotFoundError) as error:
            log.warning("the audit log does not tell of it: %s", error)

    def settle(self, held: BlockLocations) -> bool:
        """A moving block that is left alone becomes the block. True if there was one: then look again."""
        if held.counted or not held.moving or held.away:
            return False
        (again,) = self.find_batch([held.key], everywhere=True)
        for pause_s in _SETTLE_S if self.remote else ():  # who moves it, in another process, is most likely at it
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
        """The volume holds the signature: to be called after the commit and before the caller is told."""
        if len(self.volumes) > 1:
            self._following.note(signature, name)


def block_key(key: ContentKey, name: str) -> BlockKey:
    """Under which key a volume holds the content."""
    return BlockKey(key.signature, key.overflow, b"" if name == key.volume else key.volume.encode())


def _place_of(settings: VolumeSettings) -> tuple[str, str, str]:
    return settings.address, settings.url, settings.path
