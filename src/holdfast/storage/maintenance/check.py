"""Check of an archive's store (N10); `repair` builds on it.

`check` reads every volume from end to end, by its organization's own checker, then compares volumes: a replica without
its block is a fault; what a crash left unfinished (an outdated counter of a replica, too few copies, a migration) is
harmless and noted. It changes nothing and works while another process writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.arguments import check_fields, read_text_field
from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import HoldfastError, VolumeDown
from holdfast.model import ContentKey, Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.identity import VolumeNames
from holdfast.storage.maintenance.merge import find_doubled
from holdfast.storage.store.store import BlockLocations, BlockStore, VolumeOpener, volume_path
from holdfast.storage.volume import MOVING, Block, ReadableVolume
from holdfast.storage.volumes.damage import UNDECODABLE, UNLIKE, CheckProgress, KnownDamage, SelfChecking, note_faults
from holdfast.storage.volumes.organizations import find_organization, volume_spec

DOUBLED = "contents that have a block in another volume too"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How thorough a check is."""

    repair: bool = False
    deep: bool = False  # decode every content and compare it with its signature
    rate_bytes_s: int | None = None  # read no faster than this
    volumes: tuple[str, ...] = ()  # only these
    recreate: bool = False  # in a repair: recreate missing volumes from replicas in others

    def __post_init__(self) -> None:
        read_text_field(self, "volumes", lambda name: (name,))
        check_fields(self)


@dataclass(slots=True)
class CheckReport:
    """What a check found. Iterates over its faults."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocks: int = 0
    bytes: int = 0

    @property
    def clean(self) -> bool:
        """True if every fault is repaired, or there is none."""
        return all(fault.repaired for fault in self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)


class Checker:
    """Checks the store of one archive. For one thread."""

    def __init__(self, root: Path, settings: Settings, env: Environment, options: CheckOptions) -> None:
        self.root = root
        self.settings = settings
        self.env = env
        self.options = options
        self._names = VolumeNames()

    def check(self, progress: Callable[[int], None] | None = None) -> CheckReport:
        """Changes nothing."""
        watch = CheckProgress(progress, self.options.rate_bytes_s, self.env)
        faults = [fault for volume in self.chosen() for fault in self._check_volume(volume, watch)]
        if not faults or self.options.deep:
            faults += self._check_together(watch)
        return CheckReport(faults, watch.notes, watch.blocks, watch.bytes)

    def chosen(self) -> list[VolumeSettings]:
        return [each for each in self.settings.volume if not self.options.volumes or each.name in self.options.volumes]

    def directory(self, volume: VolumeSettings) -> Path:
        return volume_path(self.root, volume)

    def _check_volume(self, volume: VolumeSettings, watch: CheckProgress) -> Iterator[Fault]:
        if volume.address:
            yield from self._check_remote(volume, watch)
            return
        directory = self.directory(volume)
        try:
            spec = volume_spec(volume.name, directory, self.settings.store, self.env)
        except HoldfastError as error:
            path = str(directory / paths.VOLUME)
            remedy = "mount it or restore it from a backup; 'check --repair --recreate' recreates it from replicas"
            yield Fault(volume.name, path, 0, "unreadable volume", "a VOLUME file", str(error), remedy=remedy)
            return
        faults = list(find_organization(spec.identity.organization).check(spec, watch))
        note_faults(spec.name, KnownDamage(self.env, directory), faults)
        yield from faults

    def _check_remote(self, volume: VolumeSettings, watch: CheckProgress) -> Iterator[Fault]:
        """A remote volume checks its own files; `_check_together` checks what is visible from here."""
        try:
            opened = VolumeOpener(self.root, self.settings, self.env, False, self._names)(volume)
            try:
                if isinstance(opened.volume, SelfChecking):
                    yield from opened.volume.check(watch)
            finally:
                opened.close()
        except VolumeDown as error:
            remedy = "start its server; if it is lost, 'holdfast volume repair' fills a new one from replicas"
            yield Fault(volume.name, volume.address, 0, "unreadable volume", "an answer", str(error), remedy=remedy)

    def _check_together(self, watch: CheckProgress) -> Iterator[Fault]:
        """Faults that show only with all volumes open: of contents and replicas."""
        if not self.options.deep and len(self.settings.volume) < 2:
            return
        try:
            store = BlockStore(self.root, self.settings, self.env, writable=False)
        except HoldfastError as error:  # already a fault
            watch.notes.append(f"contents could not be compared: {error}")
            return
        remarks: Counter[str] = Counter()
        try:
            for volume in store.volumes.values():
                if self.options.volumes and volume.name not in self.options.volumes:
                    continue
                try:
                    for batch in volume.scan():
                        yield from self._check_batch(store, volume, batch, watch, remarks)
                except VolumeDown as error:  # already a fault
                    watch.notes.append(f"contents could not be compared: {error}")
        finally:
            store.close()
        for remark, count in (+remarks).items():
            watch.notes.append(f"{count} {remark}; 'holdfast check --repair' completes them")

    def _check_batch(
        self,
        store: BlockStore,
        volume: ReadableVolume,
        batch: list[Block],
        watch: CheckProgress,
        remarks: Counter[str],
    ) -> Iterator[Fault]:
        keys = [store.content_key(volume, block.key) for block in batch]
        alone = len(store.volumes) < 2
        if not alone:
            own = list(dict.fromkeys(block.key.signature for block in batch if not block.replica))
            remarks[DOUBLED] += len(find_doubled(store, volume.name, own))
        locations = [None] * len(keys) if alone else store.find_batch(keys)
        for block, key, held in zip(batch, keys, locations, strict=True):
            watch.read(len(block.encoded.data))
            where = (volume.name, str(block.path), block.offset)
            if self.options.deep:
                yield from _check_content(store, volume, block, key, where)
            if held is None:
                continue
            if block.replica and held.lost:
                yield Fault(*where, "replica without its block", f"a block in volume {key.volume!r}", "none", key)
            elif remark := unfinished(store, volume, block, held):
                remarks[remark] += 1


def _check_content(
    store: BlockStore, volume: ReadableVolume, block: Block, key: ContentKey, where: tuple[str, str, int]
) -> Iterator[Fault]:
    try:
        found = store.signature.digest(store.decoded(block, volume))
    except HoldfastError as error:
        yield Fault(*where, UNDECODABLE, block.encoded.codec, str(error), key)
        return
    if found != key.signature:
        if block.encoded.codec != ALIAS:
            store.note_damaged(volume, block.key)
        yield Fault(*where, UNLIKE, key.signature.hex(), found.hex(), key)


def unfinished(store: BlockStore, volume: ReadableVolume, block: Block, held: BlockLocations) -> str:
    """What a crash or a changed setting left a repair to do for a block and its copies; empty if nothing."""
    original = held.original
    if original is None:
        return ""
    if block.replica:
        return "replicas with an older counter" if original.references != block.references else ""
    if block.references >= MOVING:
        return "copies of an unfinished migration"
    if original.volume is not volume:
        return "blocks under a key that has another block"
    wanted = min(store.settings.store.replicas, max(store.writable_count, 1))  # read-only volumes get no copies
    return f"contents with fewer than {wanted} copies" if len(held.blocks) - len(held.moving) < wanted else ""
