"""The block store of an archive: its volumes, the placement rule, and how a contentkey leads to its block.

A contentkey names the volume that its content was stored in. The block is looked up there first. If it was migrated, or
the volume is down, it is looked up in the others, where it is kept under its `home`: moved, or as a replica.

A volume that cannot be opened does not stop the others (W14): it is listed in `down` with the reason, nothing is stored
in it, and its contents are read from replicas. If no volume can be opened, opening the store fails. A volume that fails
later gets no new contents for a while. Remote volumes are opened again when they are back.

The connector may change while the store is open: `apply` adopts the change. Threads that are storing or reading
continue with the volumes they hold.

Blocks under one contentkey have roles:

- *Counted* blocks have references. There is usually one. Two clients may have made a second one under the same key;
  then both count. The first is the *original*: replicas repeat its counter.
- A *moving* block is the copy that a migration makes. Next to a counted block it has no effect. Without one, the
  migration has removed the original, and the copy is the block now.
- *Replicas* are copies that never count.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.errors import Damaged, DamagedBlock, HoldfastError, UnknownName, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import ContentKey, VolumeState
from holdfast.storage import placement
from holdfast.storage.audit import audit
from holdfast.storage.codec import ALIAS
from holdfast.storage.identity import VolumeNames
from holdfast.storage.placement import find_placement
from holdfast.storage.signature import find_signature
from holdfast.storage.store.bloom import BloomSync
from holdfast.storage.store.encoder import Encodings
from holdfast.storage.store.locks import MoveLock
from holdfast.storage.volume import (
    FAILURES,
    MOVING,
    Block,
    BlockFacts,
    BlockKey,
    DamageNoting,
    Effect,
    Operation,
    OperationResult,
    ReadableVolume,
    Recount,
    Remote,
    Volume,
)
from holdfast.storage.volumes.damage import DAMAGED_BLOCK
from holdfast.storage.volumes.organizations import open_volume, open_volume_reader

log = logging.getLogger("holdfast.storage")

FULL_S = 30.0  # during which a full volume gets no new contents
_RETIRED_S = 60.0  # during which a removed volume stays open for its readers
_MOVER_GRACE_S = (0.02, 0.1, 0.5)  # pauses in which another process may finish its move
_WARN_S = 60.0  # minimum interval between equal warnings
_THREADS_MAX = 32  # that wait for remote volumes

A = TypeVar("A")


class OpenedVolume(NamedTuple):
    """An open volume, and the lock that keeps other processes from writing to its directory."""

    volume: ReadableVolume
    lock: WriterLock | None = None

    def close(self) -> None:
        """Releases the lock even if closing fails."""
        try:
            self.volume.close()
        finally:
            if self.lock is not None:
                self.lock.release()


Opener = Callable[[VolumeSettings], OpenedVolume]


@dataclass(frozen=True, slots=True)
class VolumeOpener:
    """Opens the volumes of an archive. Raises VolumeDown, Busy, or the volume's own error."""

    root: Path
    settings: Settings
    env: Environment
    writable: bool
    names: VolumeNames  # of the remote volumes

    def __call__(self, volume: VolumeSettings) -> OpenedVolume:
        store = self.settings.store
        if volume.address:
            from holdfast.storage.volumes.remote.client import RemoteVolume

            remote = RemoteVolume(volume.name, volume.address, self.settings.remote, self.env, self.root)
            remote.expect(store.signature, self.names)
            return OpenedVolume(remote)
        directory = volume_path(self.root, volume)
        if volume.url:
            from holdfast.storage.volumes.object.volume import require_attached

            require_attached(volume, directory, self.env)
        if not self.writable:
            return OpenedVolume(open_volume_reader(volume.name, directory, store, self.env))
        # An archive and a volume server may share the directory: only one of them writes to it.
        lock = WriterLock(directory / paths.LOCK, "an archive", subject="volume") if directory.is_dir() else None
        try:
            return OpenedVolume(open_volume(volume.name, directory, store, self.env), lock)
        except BaseException:
            if lock is not None:
                lock.release()
            raise


def volume_path(root: Path, volume: VolumeSettings) -> Path:
    """The directory of a local volume."""
    return root / volume.path if volume.path else paths.volume_directory(root, volume.name)


class Responses(NamedTuple, Generic[A]):
    """The result of each volume, and the errors of those that failed."""

    results: dict[str, A]
    failed: dict[str, HoldfastError]


class BlockLocation(NamedTuple):
    """A block under a contentkey, and its volume."""

    volume: ReadableVolume
    facts: BlockFacts

    @property
    def references(self) -> int:
        """The counter, without the mark of a moving copy."""
        return self.facts.references - (MOVING if self.facts.moving else 0)


@dataclass(slots=True)
class BlockLocations:
    """All known blocks under a key."""

    key: ContentKey
    counted: list[BlockLocation] = field(default_factory=list)
    moving: list[BlockLocation] = field(default_factory=list)
    replicas: list[BlockLocation] = field(default_factory=list)
    away: list[str] = field(default_factory=list)  # volumes that are down and may have more

    def add(self, found: BlockLocation) -> None:
        facts = found.facts
        (self.replicas if facts.replica else self.moving if facts.moving else self.counted).append(found)

    @property
    def original(self) -> BlockLocation | None:
        """The block whose counter replicas repeat; a moving one only if nothing else can be the block."""
        if self.counted:
            return self.counted[0]
        return self.moving[0] if self.moving and not self.away else None

    @property
    def blocks(self) -> list[BlockLocation]:
        """All blocks, in order of preference for reading."""
        return [*self.counted, *self.moving, *self.replicas]

    @property
    def lost(self) -> bool:
        """True if there are replicas and certainly nothing else."""
        return bool(self.replicas) and not self.counted and not self.moving and not self.away

    @property
    def names(self) -> set[str]:
        return {found.volume.name for found in self.blocks}

    def at(self, name: str) -> BlockLocation | None:
        """The block in one of the volumes."""
        return next((found for found in self.blocks if found.volume.name == name), None)


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
        """`opener` opens a volume; the default opens it by its settings."""
        self.root = root
        self.settings = settings
        self.env = env
        self.writable = writable
        self.signature = find_signature(settings.store.signature)
        self._place = find_placement(settings.store.placement)
        self._opener = opener
        self._opened: dict[str, OpenedVolume] = {}
        self._retired: list[tuple[OpenedVolume, float]] = []  # and since when
        self.remote: dict[str, Remote] = {}  # the remote ones among `volumes`
        self._names = VolumeNames()
        self._backing_off: dict[str, float] = {}  # volumes that get no new contents, and until when
        self._warned: dict[str, float] = {}
        self._bereft: deque[ContentKey] = deque()
        self._connector_lock = threading.RLock()
        self._audit_lock = threading.Lock()
        self._reloaded_s = env.monotonic()
        self.volumes: dict[str, ReadableVolume] = {}  # never changed in place: threads iterate over it
        self._candidates_of: tuple[Settings | None, object, list[VolumeSettings]] = (None, None, [])
        self.down: dict[str, HoldfastError] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = threading.Lock()
        self.encodings = Encodings(lambda: self.volumes, self.content)
        self.move_lock = MoveLock()
        self._bloom = BloomSync(env, root / paths.FILTERS, lambda: self.volumes, self.each)
        for each in settings.volume:
            self._open(each)
        if self.down and not self.volumes:
            raise next(iter(self.down.values()))

    # -- opening and closing --------------------------------------------------------------------------------------

    def _open(self, settings: VolumeSettings) -> None:
        try:
            opener = self._opener or VolumeOpener(self.root, self.settings, self.env, self.writable, self._names)
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
            self._retired.append((opened, self.env.monotonic()))

    def add(self, settings: VolumeSettings) -> None:
        """Opens a volume that was added to the connector."""
        self.apply(replace(self.settings, volume=(*self.settings.volume, settings)))

    def apply(self, settings: Settings) -> None:
        """Adopts a changed connector: states, weights, and volumes that were added, removed, or moved elsewhere."""
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
        """Changes whether the volume takes new contents."""
        with self._connector_lock:
            volumes = tuple(replace(each, state=state) if each.name == name else each for each in self.settings.volume)
            self.settings = replace(self.settings, volume=volumes)

    def reload_if_due(self) -> None:
        """Opens volumes that were down and closes removed ones; at most every `remote.follow_s` seconds."""
        now_s = self.env.monotonic()
        if now_s - self._reloaded_s < self.settings.remote.follow_s or not self._connector_lock.acquire(blocking=False):
            return
        try:
            self._reloaded_s = now_s
            for each in self.settings.volume:
                if each.name in self.down and (each.address or each.url):
                    self._open(each)
            while self._retired and now_s - self._retired[0][1] > _RETIRED_S:
                self._retired.pop(0)[0].close()
        finally:
            self._connector_lock.release()

    def directory(self, settings: VolumeSettings) -> Path:
        return volume_path(self.root, settings)

    def close(self) -> None:
        """Closes every volume, even if others fail; raises the first failure."""
        failures: list[HoldfastError] = []
        try:
            if self.writable:
                self._bloom.save()
        except HoldfastError as error:
            log.warning("the filter was not saved and will be rebuilt: %s", error)
        for opened in [*(retired for retired, _ in self._retired), *self._opened.values()]:
            try:
                opened.close()
            except HoldfastError as error:
                failures.append(error)
        if self._pool is not None:
            self._pool.shutdown()
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
        """The volume, for any change. The store must be open for writing."""
        assert self.writable, "the store is open for reading only"
        return self.volume(name)  # type: ignore[return-value]

    def chosen(self, name: str) -> Volume:
        """The volume that the caller chose for new contents. Raises VolumeReadOnly, UnknownName or VolumeDown."""
        found = self.writer(name)
        settings = self.settings.volume_settings(name)
        if settings is None or settings.state is not VolumeState.WRITABLE:
            raise VolumeReadOnly(
                f"volume {name!r} is read-only; set it writable ('holdfast volume set-state') or choose another"
            )
        return found

    def is_up(self, name: str) -> bool:
        """True if the volume is open and, as far as is known, reachable."""
        remote = self.remote.get(name)
        return name in self.volumes if remote is None else remote.available

    def is_accepting(self, name: str) -> bool:
        """True if the volume is up and is not backing off."""
        return self.is_up(name) and self._backing_off.get(name, 0.0) <= self.env.monotonic()

    def is_shared(self, name: str) -> bool:
        """True if other processes may write to the volume too."""
        return name in self.remote

    def back_off(self, name: str, error: HoldfastError) -> None:
        """Stops storing new contents in a volume that failed, for a while."""
        pause_s = FULL_S if isinstance(error, VolumeFull) else self.settings.remote.down_s
        self.warn(f"volume {name!r}", f"volume {name!r} gets no new contents for {pause_s:g} s: {error}")
        self._backing_off[name] = self.env.monotonic() + pause_s

    def warn(self, subject: str, text: str) -> None:
        """Logs a warning, at most every `_WARN_S` seconds per subject."""
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
        """Where a block of a volume belongs: all writable volumes, up or down, the best first."""
        writable = placement.like(self.settings, name)
        return self._place(signature, writable) if writable else []

    @property
    def writable_count(self) -> int:
        """The number of volumes in the connector that take new contents, up or down."""
        return len(placement.for_new(self.settings))

    def _candidates(self) -> list[VolumeSettings]:
        """The open volumes that take new contents, cached until settings or volumes change."""
        settings, volumes, candidates = self._candidates_of
        if settings is not self.settings or volumes is not self.volumes:
            settings, volumes = self.settings, self.volumes
            candidates = self._up(placement.for_new(settings))
            self._candidates_of = settings, volumes, candidates
        return candidates

    def _up(self, volumes: list[VolumeSettings]) -> list[VolumeSettings]:
        return [each for each in volumes if each.name in self.volumes]

    def _accepting(self, candidates: list[VolumeSettings]) -> list[VolumeSettings]:
        """The volumes that are up and not backing off. If all are backing off, they are tried again, for the error."""
        up = [each for each in candidates if self.is_up(each.name)]
        if candidates and not up:
            raise VolumeDown(f"no writable volume is up: {', '.join(each.name for each in candidates)} are down")
        now_s = self.env.monotonic()
        for name in [name for name, until_s in self._backing_off.items() if until_s <= now_s]:
            self._backing_off.pop(name, None)
        return [each for each in up if each.name not in self._backing_off] or up

    def others(self, signature: bytes, name: str) -> list[str]:
        """The volumes other than `name` that may hold the signature."""
        volumes = self.volumes
        if len(volumes) < 2 and name in volumes:
            return []
        if not self.writable:
            return [other for other in volumes if other != name]
        named = self._bloom.may_hold(signature, self.settings.remote.follow_s)
        return [other for other in named if other != name and other in volumes]

    @property
    def is_incomplete(self) -> bool:
        """True if a shared volume is down, so that what others stored there is unknown."""
        if self.down and any(each.address for each in self.settings.volume if each.name in self.down):
            return True
        return len(self.volumes) > 1 and bool(self._bloom.behind)

    def is_new(self, signature: bytes, name: str) -> bool:
        """True if a shared volume does not hold the signature, by the filter; others may have stored it since.

        False if the filter is not loaded yet.
        """
        return self.are_new([signature], name)[0]

    def are_new(self, signatures: Sequence[bytes], name: str) -> list[bool]:
        """As `is_new` for each."""
        if len(self.volumes) < 2 and not self._bloom.is_loaded(len(signatures)):
            return [False] * len(signatures)
        return self._bloom.lacks(signatures, name, self.settings.remote.follow_s)

    def may_hold(self, signature: bytes) -> list[str]:
        """All volumes that may hold the signature; empty if there is only one volume."""
        return self._bloom.may_hold(signature, self.settings.remote.follow_s) if len(self.volumes) > 1 else []

    # -- requests to several volumes -------------------------------------------------------------------------------

    def each(self, names: Sequence[str], request: Callable[[str], A]) -> Responses[A]:
        """Calls `request` for each volume. A volume that fails does not stop the others; any other error is raised.

        Requests to remote volumes are round trips and run in parallel. Local volumes are called one after the other,
        which is faster than a hand-over to a thread.
        """
        responses: Responses[A] = Responses({}, {})
        calls: dict[str, Callable[[], A]]
        if len(names) > 1 and sum(name in self.remote for name in names) > 1:
            with self._pool_lock:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="holdfast-request")
            calls = {name: self._pool.submit(request, name).result for name in names}
        else:
            calls = {name: partial(request, name) for name in names}
        for name, call in calls.items():
            try:
                responses.results[name] = call()
            except FAILURES as error:
                responses.failed[name] = error
            except UnknownName as error:  # it was just removed from the connector
                responses.failed[name] = VolumeDown(str(error))
        return responses

    def commit_each(
        self, plans: Mapping[str, Sequence[tuple[A, Operation]]]
    ) -> Responses[list[tuple[A, Operation, OperationResult]]]:
        """One commit to each volume; returns each operation with its subject and its result."""

        def commit(name: str) -> list[tuple[A, Operation, OperationResult]]:
            outcomes = self.writer(name).commit([operation for _, operation in plans[name]])
            return [(*planned, outcome) for planned, outcome in zip(plans[name], outcomes, strict=True)]

        return self.each(list(plans), commit)

    # -- finding blocks -----------------------------------------------------------------------------------------

    def find(self, key: ContentKey) -> BlockLocations:
        """All blocks under the key."""
        return self.find_batch([key])[0]

    def find_batch(self, keys: Sequence[ContentKey], *, everywhere: bool = False) -> list[BlockLocations]:
        """All blocks under each key, with one probe of each volume; `everywhere` ignores the filter.

        Raises UnknownName if a key names a volume that is not in the connector.
        """
        wanted: dict[str, dict[bytes, None]] = {}
        for key in keys:
            if key.volume not in self.volumes and key.volume not in self.down:
                self.volume(key.volume)
            named = self.volumes if everywhere else (key.volume, *self.others(key.signature, key.volume))
            for name in named:
                wanted.setdefault(name, {})[key.signature] = None
        asked = [name for name in wanted if name in self.volumes and self.is_up(name)]
        responses = self.each(asked, lambda name: self.volume(name).probe(list(wanted[name])))
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
        """The content, from any block that can be read. Raises VolumeDown or DamagedBlock."""
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
        """The damage that hides a block: a volume has one under this key, but cannot even read its counter."""
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
        """The content of a block. Raises DamagedBlock if it cannot be decoded, and remembers the damage."""
        try:
            return self.encodings.decode(block, volume)
        except Damaged:
            if block.encoded.codec != ALIAS:  # else another block is damaged
                self.note_damaged(volume, block.key)
            raise

    def note_damaged(self, volume: ReadableVolume, key: BlockKey) -> None:
        """Remembers a block that cannot be decoded though its checksum is right, which its volume cannot see."""
        if isinstance(volume, DamageNoting):
            with suppress(VolumeDown):
                volume.note_damaged([key])

    def report_healed(self, name: str, outcomes: Sequence[OperationResult]) -> None:
        """Logs the damaged blocks of the volume that were healed, also in the audit log."""
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
        """Makes a moving block whose original is gone the block. True if there was one: then look again."""
        if held.counted or not held.moving or held.away:
            return False
        (again,) = self.find_batch([held.key], everywhere=True)
        for pause_s in _MOVER_GRACE_S if self.remote else ():  # another process is probably still moving it
            if not again.counted:
                self.env.sleep(pause_s)
                (again,) = self.find_batch([held.key], everywhere=True)
        if not again.counted and again.moving and not again.away:
            found = max(again.moving, key=lambda each: each.references)  # rather one too many than one too few
            counted = Recount(found.facts.key, found.references, found.facts.references, replica=False)
            self.writer(found.volume.name).commit([counted])
        return True

    # -- removed blocks whose replicas may be left ----------------------------------------------------------------

    def note_bereft(self, keys: Iterable[ContentKey]) -> None:
        """These blocks were removed, and replicas may be left."""
        self._bereft += keys

    @property
    def has_bereft(self) -> bool:
        return bool(self._bereft)

    def bereft(self) -> list[ContentKey]:
        """The contents noted since the last call, and those whose block a rollback removed.

        None while a volume is down, which may have replicas.
        """
        for name, remote in list(self.remote.items()):
            if removed := remote.rolled_back():
                self.note_bereft([self.content_key(self.volumes[name], key) for key in removed])
        if not self._bereft or self.down or not all(map(self.is_up, self.volumes)):
            return []
        found: list[ContentKey] = []
        with suppress(IndexError):  # another thread may take some
            while True:
                found.append(self._bereft.popleft())
        return found

    def content_key(self, volume: ReadableVolume, key: BlockKey) -> ContentKey:
        """The contentkey of a block of the volume."""
        return ContentKey(key.home.decode() or volume.name, key.signature, key.overflow)

    def note(self, signatures: Sequence[bytes], name: str) -> None:
        """Adds signatures of the volume to the filter; called after the commit and before the caller returns."""
        if len(self.volumes) > 1 or name in self.remote:
            self._bloom.note(signatures, name)


def block_key(key: ContentKey, name: str) -> BlockKey:
    """The key under which a volume holds the content."""
    return BlockKey(key.signature, key.overflow, b"" if name == key.volume else key.volume.encode())


def _location(settings: VolumeSettings) -> tuple[str, str, str]:
    return settings.address, settings.url, settings.path
