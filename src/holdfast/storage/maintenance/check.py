"""Checking an archive's store, and repairing it (N10).

`check` reads every volume from end to end: each volume by its organization's own checker, then what only shows between
volumes: replicas whose block is gone are faults; what a crash left unfinished (a replica's older counter, too few
copies, a migration) is harmless and noted. It changes nothing and works while another process writes.

`repair` checks, lets each faulty volume mend itself, restores what a volume lost from copies in others, and brings
replicas in line. What has no sound copy anywhere is reported as lost; its damaged bytes stay in the volume's `lost/`.
Afterwards a check is clean. Each repair leaves a line in the archive's `audit.log`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.arguments import check_fields
from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import Damaged, HoldfastError, VolumeDown
from holdfast.model import ContentKey, Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.maintenance.merge import find_doubled
from holdfast.storage.store.locate import BlockLocation, BlockLocations, Roster
from holdfast.storage.store.open import VolumeOpener
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import MOVING, Block, ReadableVolume
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.faults import UNDECODABLE, UNLIKE, CheckProgress, SelfChecking, note_faults
from holdfast.storage.volumes.organizations import find_organization, volume_spec

DOUBLED = "contents that have a block in another volume too"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How thorough a check is."""

    repair: bool = False
    deep: bool = False  # decode every content and compare it with its signature
    rate_bytes_s: int | None = None  # read no faster than this
    volumes: tuple[str, ...] = ()  # only these
    recreate: bool = False  # while repairing, make volumes that are gone anew from the replicas in others

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(slots=True)
class CheckReport:
    """What a check found."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blocks: int = 0
    bytes: int = 0

    @property
    def clean(self) -> bool:
        """Nothing is wrong, or not any more."""
        return all(fault.repaired for fault in self.faults)


class Checker:
    """Checks the store of one archive. For one thread."""

    def __init__(self, root: Path, settings: Settings, env: Environment, options: CheckOptions) -> None:
        self.root = root
        self.settings = settings
        self.env = env
        self.options = options
        self._roster = Roster()

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
        return self.root / volume.path if volume.path else paths.volume_directory(self.root, volume.name)

    def _check_volume(self, volume: VolumeSettings, watch: CheckProgress) -> Iterator[Fault]:
        if volume.address:
            yield from self._check_remote(volume, watch)
            return
        directory = self.directory(volume)
        try:
            spec = volume_spec(volume.name, directory, self.settings.store, self.env)
        except HoldfastError as error:
            path = str(directory / paths.VOLUME)
            remedy = "mount it or restore it from a backup; 'check --repair --recreate' rebuilds it from replicas"
            yield Fault(volume.name, path, 0, "unreadable volume", "a VOLUME file", str(error), remedy=remedy)
            return
        faults = list(find_organization(spec.identity.organization).check(spec, watch))
        note_faults(spec.name, KnownDamage(self.env, directory), faults)
        yield from faults

    def _check_remote(self, volume: VolumeSettings, watch: CheckProgress) -> Iterator[Fault]:
        """A volume on another machine checks its own files; what can be seen from here, `_check_together` sees."""
        opening = VolumeOpener(self.root, self.settings.store, self.settings.remote, self.env, False, self._roster)
        try:
            opened = opening(volume)
            try:
                if isinstance(opened.volume, SelfChecking):
                    yield from opened.volume.check(watch)
            finally:
                opened.close()
        except VolumeDown as error:
            remedy = "start its server; if it is lost, 'holdfast volume repair' fills a new one from replicas"
            yield Fault(volume.name, volume.address, 0, "unreadable volume", "an answer", str(error), remedy=remedy)

    def _check_together(self, watch: CheckProgress) -> Iterator[Fault]:
        """What shows only with all volumes open: sound contents, replicas."""
        if not self.options.deep and len(self.settings.volume) < 2:
            return
        try:
            instance = BlockStore(self.root, self.settings, self.env, writable=False)
        except HoldfastError as error:  # a fault by now
            watch.notes.append(f"contents could not be compared: {error}")
            return
        remarks: Counter[str] = Counter()
        try:
            for volume in instance.volumes.values():
                if self.options.volumes and volume.name not in self.options.volumes:
                    continue
                try:
                    for batch in volume.scan():
                        yield from self._check_batch(instance, volume, batch, watch, remarks)
                except VolumeDown as error:  # a fault by now
                    watch.notes.append(f"contents could not be compared: {error}")
        finally:
            instance.close()
        for remark, count in (+remarks).items():
            watch.notes.append(f"{count} {remark}; 'holdfast check --repair' finishes that")

    def _check_batch(
        self,
        instance: BlockStore,
        volume: ReadableVolume,
        batch: list[Block],
        watch: CheckProgress,
        remarks: Counter[str],
    ) -> Iterator[Fault]:
        keys = [instance.content_key(volume, block.key) for block in batch]
        alone = len(instance.volumes) < 2
        if not alone:
            own = list(dict.fromkeys(block.key.signature for block in batch if not block.replica))
            remarks[DOUBLED] += len(find_doubled(instance, volume.name, own))
        holdings = [None] * len(keys) if alone else instance.find_batch(keys)
        for block, key, held in zip(batch, keys, holdings, strict=True):
            watch.read(len(block.encoded.data))
            where = (volume.name, str(block.path), block.offset)
            if self.options.deep:
                yield from _check_content(instance, volume, block, key, where)
            if held is None:
                continue
            if block.replica and held.lost:
                yield Fault(*where, "replica without its block", f"a block in volume {key.volume!r}", "none", key)
            elif remark := unfinished(instance, volume, block, held):
                remarks[remark] += 1


def _check_content(
    instance: BlockStore, volume: ReadableVolume, block: Block, key: ContentKey, where: tuple[str, str, int]
) -> Iterator[Fault]:
    try:
        found = instance.signature.digest(instance.decoded(block, volume))
    except HoldfastError as error:
        yield Fault(*where, UNDECODABLE, block.encoded.codec, str(error), key)
        return
    if found != key.signature:
        if block.encoded.codec != ALIAS:
            instance.note_damaged(volume, block.key)
        yield Fault(*where, UNLIKE, key.signature.hex(), found.hex(), key)


def unfinished(instance: BlockStore, volume: ReadableVolume, block: Block, held: BlockLocations) -> str:
    """What a crash or a new setting left for a repair to do about a block and its copies; empty if nothing."""
    original = held.original
    if original is None:
        return ""
    if block.replica:
        return "replicas with an older counter" if original.references != block.references else ""
    if block.references >= MOVING:
        return "copies of an unfinished migration"
    if original.volume is not volume:
        return "blocks under a key that has another block"
    wanted = min(instance.settings.store.replicas, max(instance.writable_count, 1))  # nothing is copied to the others
    return f"contents with fewer than {wanted} copies" if len(held.blocks) - len(held.moving) < wanted else ""


def sound_copy(found: Sequence[BlockLocation]) -> BlockLocation | None:
    """The first block that can be read."""
    for each in found:
        try:
            (block,) = each.volume.fetch([each.facts.key])
        except Damaged:
            continue
        if block is not None:
            return each
    return None
