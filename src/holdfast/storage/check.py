"""Checking an archive's store, and repairing it (N10).

`check` reads every volume from end to end: each volume by its organization's own checker, then what only shows between
volumes: replicas whose original is gone, counters that differ, too few copies. It changes nothing and works while
another process writes.

`repair` checks, lets each faulty volume mend itself, restores what a volume lost from copies in others, and brings
replicas in line. What has no sound copy anywhere is reported as lost; its damaged bytes stay in the volume's `lost/`.
Afterwards a check is clean. Each repair leaves a line in the archive's `audit.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.config import Settings, VolumeSettings
from holdfast.env import Environment
from holdfast.errors import Damaged, HoldfastError
from holdfast.model import ContentKey, Fault
from holdfast.storage import layout
from holdfast.storage.faults import Watch
from holdfast.storage.instance import Found, Instance
from holdfast.storage.organizations import find_organization, volume_spec
from holdfast.storage.volume import Block, ReadableVolume


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How thorough a check is."""

    repair: bool = False
    deep: bool = False  # decode every content and compare it with its signature
    rate_bytes_s: int | None = None  # read no faster than this
    volumes: tuple[str, ...] = ()  # only these


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

    def check(self, progress: Callable[[int], None] | None = None) -> CheckReport:
        """Changes nothing."""
        watch = Watch(progress, self.options.rate_bytes_s)
        faults = [fault for volume in self.chosen() for fault in self._check_volume(volume, watch)]
        if not faults:
            faults = list(self._check_together())
        return CheckReport(faults, watch.notes, watch.blocks, watch.bytes)

    def chosen(self) -> list[VolumeSettings]:
        return [each for each in self.settings.volume if not self.options.volumes or each.name in self.options.volumes]

    def directory(self, volume: VolumeSettings) -> Path:
        return self.root / volume.path if volume.path else layout.volume_directory(self.root, volume.name)

    def _check_volume(self, volume: VolumeSettings, watch: Watch) -> Iterator[Fault]:
        directory = self.directory(volume)
        try:
            spec = volume_spec(volume.name, directory, self.settings.store, self.env)
        except HoldfastError as error:
            path = str(directory / layout.VOLUME)
            yield Fault(volume.name, path, 0, "unreadable volume", "a VOLUME file", str(error))
            return
        yield from find_organization(spec.identity.organization).check(spec, watch)

    def _check_together(self) -> Iterator[Fault]:
        """What shows only with all volumes open: sound contents, replicas."""
        if not self.options.deep and len(self.settings.volume) < 2:
            return
        instance = Instance(self.root, self.settings, self.env, writable=False)
        try:
            for volume in instance.volumes.values():
                for batch in volume.scan():
                    for block in batch:
                        yield from self._check_block(instance, volume, block)
        finally:
            instance.close()

    def _check_block(self, instance: Instance, volume: ReadableVolume, block: Block) -> Iterator[Fault]:
        key = instance.content_key(volume, block.key)
        file, _, offset = block.place.rpartition("@")
        where = (volume.name, file, int(offset))
        if self.options.deep:
            yield from _check_content(instance, volume, block, key, where)
        if len(instance.volumes) > 1:
            for problem in disagreements(instance, volume, block, key):
                yield Fault(*where, *problem, key)


def _check_content(
    instance: Instance, volume: ReadableVolume, block: Block, key: ContentKey, where: tuple[str, str, int]
) -> Iterator[Fault]:
    try:
        found = instance.signature.digest(instance.encodings.decode(block, volume))
    except HoldfastError as error:
        yield Fault(*where, "undecodable content", block.encoded.codec, str(error), key)
        return
    if found != key.signature:
        yield Fault(*where, "content unlike its signature", key.signature.hex(), found.hex(), key)


def disagreements(
    instance: Instance, volume: ReadableVolume, block: Block, key: ContentKey
) -> Iterator[tuple[str, str, str]]:
    """What is wrong between a block and its copies, as kind, expected, found."""
    found = list(instance.find(key))
    originals = [each for each in found if not each.facts.replica]
    if block.replica:
        if not originals:
            yield "replica without its block", f"a block in volume {key.volume!r}", "none"
        elif originals[0].facts.references != block.references:
            yield "counter of a replica differs", f"{originals[0].facts.references} references", f"{block.references}"
        return
    if len(originals) > 1 and originals[0].volume is not volume:
        yield "block moved, but still here too", "one block", f"{len(originals)}"
    wanted = min(instance.settings.store.replicas, len(instance.volumes))
    if originals and originals[0].volume is volume and len(found) < wanted:
        yield "too few copies", f"{wanted}", f"{len(found)}"


def sound_copy(instance: Instance, found: Sequence[Found]) -> Found | None:
    """The first block that can be read."""
    for each in found:
        try:
            (block,) = each.volume.fetch([each.facts.key])
        except Damaged:
            continue
        if block is not None:
            return each
    return None


def as_repaired(faults: Sequence[Fault]) -> list[Fault]:
    return [replace(fault, repaired=True) for fault in faults]
