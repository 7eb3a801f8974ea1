"""Repair of an archive's store: check, repair each volume, restore from copies in others, check again (N10).

`repair_store` does all of it; afterwards a check is clean. Contents without a sound copy are reported as lost; their
damaged bytes stay in the volume's `lost/`, and each repair adds a line to the archive's `audit.log`. `mend_volume`
repairs one volume where its files are, before its server starts again. `Restorer` reconciles the volumes after one was
down or lost: it restores missing blocks from replicas, with their counters, makes missing replicas, updates outdated
counters, and restores dictionaries. It works in batches while clients store and delete: each change is conditional on
what was seen. Each can be interrupted and run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, WriterLock, paths
from holdfast.env.files import read_file
from holdfast.errors import Damaged, DamagedBlock, HoldfastError, VolumeDown
from holdfast.model import ContentKey, Fault
from holdfast.storage.audit import audit
from holdfast.storage.block import HEADER_BYTES, parse
from holdfast.storage.codec import ZSTD_DICT
from holdfast.storage.identity import new_identity, read_identity, write_identity
from holdfast.storage.maintenance.check import Checker, CheckReport, unfinished
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.move import Mover
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockLocation, BlockLocations, BlockStore, block_key
from holdfast.storage.volume import FAILURES, MOVING, Adopt, Block, BlockKey, Effect, ReadableVolume, Recount
from holdfast.storage.volumes.damage import (
    MISSING_DICTIONARY,
    UNDECODABLE,
    UNLIKE,
    CheckProgress,
    KnownDamage,
    Lost,
    Repair,
    note_faults,
)
from holdfast.storage.volumes.organizations import find_organization, volume_spec

log = logging.getLogger("holdfast.storage")

GRACE_S = 5.0  # after which other processes have finished or abandoned their operations
BATCH = 256
LOST_TOGETHER = 50_000  # lost blocks restored at a time
_UNREADABLE = (Damaged, VolumeDown)

Progress = Callable[[int], None]


def repair_store(checker: Checker, progress: Progress | None = None) -> CheckReport:
    """Checks, repairs, and reports every fault and whether it is repaired.

    An empty volume is recreated only on request: its disk may not be mounted.
    """
    report = checker.check(progress)
    if not report.faults and not report.notes:
        return report
    names = {fault.volume for fault in report.faults}
    # Volumes on other machines have their own 'check --repair', where their files are.
    faulty = [volume for volume in checker.chosen() if volume.name in names and not volume.address]
    files = checker.env.files
    gone = [volume.name for volume in faulty if not set(files.names(checker.directory(volume))) - {paths.LOCK}]
    mendable = [volume for volume in faulty if volume.name not in gone or checker.options.recreate]
    files.remove(checker.root / paths.FILTERS)  # outdated
    repairs = {volume.name: _repair_volume(checker, volume) for volume in mendable}
    losses = _repair_together(checker, repairs, report.faults)
    losses += [_recreated(volume, checker) for volume in mendable if volume.name in gone]
    after = Checker(checker.root, checker.settings, checker.env, replace(checker.options, deep=False)).check()
    left = {_identity(fault) for fault in (*after.faults, *losses)}
    lost_keys = {fault.key for fault in losses}
    report.faults = [
        replace(fault, repaired=_identity(fault) not in left and (fault.key is None or fault.key not in lost_keys))
        for fault in report.faults
    ]
    known = {_identity(fault) for fault in report.faults}
    report.faults += [fault for fault in (*losses, *after.faults) if _identity(fault) not in known]
    for volume in mendable:
        unsound = [each for each in report.faults if each.volume == volume.name and each.kind in (UNDECODABLE, UNLIKE)]
        left_unsound = [each for each in unsound if not each.repaired]
        note_faults(volume.name, KnownDamage(checker.env, checker.directory(volume)), left_unsound)
    audit(checker.root, checker.env, [_event(fault) for fault in report.faults])
    return report


def _recreated(volume: VolumeSettings, checker: Checker) -> Fault:
    """A fault, because the contents of a lost volume are unknown: recreating it may lose some."""
    place = str(checker.directory(volume))
    return Fault(volume.name, place, 0, "volume recreated", "its blocks", "those with replicas in others")


def _identity(fault: Fault) -> tuple[str, str, int, str, ContentKey | None]:
    return fault.volume, fault.file, fault.offset, fault.kind, fault.key


# -- one volume by itself ---------------------------------------------------------------------------------------------


def _repair_volume(checker: Checker, volume: VolumeSettings) -> Repair:
    directory = checker.directory(volume)
    try:
        read_identity(checker.env, directory)
    except (FileNotFoundError, DamagedBlock):
        # The uid is in every block, the rest in the connector.
        identity = new_identity(checker.env, volume, checker.settings.store.signature)
        uid = _uid_in(checker.env, directory)
        write_identity(checker.env, directory, replace(identity, uid=uid) if uid else identity)
    spec = volume_spec(volume.name, directory, checker.settings.store, checker.env)
    repair = find_organization(spec.identity.organization).repair(spec)
    KnownDamage(checker.env, directory).clear()  # repaired, or lost
    return repair


def _uid_in(env: Environment, directory: Path) -> bytes | None:
    for name in env.files.names(directory):
        path = directory / name
        if env.files.is_directory(path):
            if name not in (paths.KEYDIR, paths.LOST) and (uid := _uid_in(env, path)):
                return uid
            continue
        raw = read_file(env.files, path)
        if raw.startswith((b"HOLDFAST-SEGMENT/1 ", b"HOLDFAST-BUCKETS/1 ")):
            return raw[19:27]
        header = parse(raw[:HEADER_BYTES])
        if header is not None:
            return header.uid
    return None


# -- all volumes together ---------------------------------------------------------------------------------------------


def _repair_together(checker: Checker, repairs: dict[str, Repair], faults: list[Fault]) -> list[Fault]:
    """Restores from copies; returns a fault for each content that is lost or doubtful."""
    store = BlockStore(checker.root, checker.settings, checker.env, writable=True)
    try:
        losses = [
            fault for repair in repairs.values() for lost in repair.lost if (fault := _restore(store, lost)) is not None
        ]
        uncertain = [
            fault
            for repair in repairs.values()
            for block in repair.recount
            if (fault := _recount(store, block)) is not None
        ]
        unsound = [fault for fault in faults if fault.kind in (UNDECODABLE, UNLIKE) and not _exchange(store, fault)]
        for name, repair in repairs.items():
            missing = [fault for fault in faults if fault.kind == MISSING_DICTIONARY and fault.volume == name]
            numbers = [*repair.dictionaries, *(int(Path(fault.file).name, 16) for fault in missing)]
            losses += _restore_dictionaries(store, name, numbers)
        if len(store.volumes) > 1:  # equal counters, enough copies, no half move, no double
            Restorer(store).run()
            Merger(store).run()
        losses += [
            fault for name, repair in repairs.items() if (fault := _missing(store, name, repair, losses)) is not None
        ]
        return losses + uncertain + unsound
    finally:
        store.close()


def _restore(store: BlockStore, lost: Lost) -> Fault | None:
    """Restores a block from a sound copy, with its counter."""
    key = lost.content_key
    found = _first_sound(store.find(key).blocks)
    if found is None:
        kind = "content lost" if not lost.replica else "replica lost"
        return Fault(lost.volume, "", 0, kind, "a sound copy", "none", key, remedy="its bytes, if any, are in 'lost/'")
    block, source = found
    if lost.volume == source.name or lost.volume not in store.volumes:
        return None
    target = store.writer(lost.volume)
    encoded = Replicator(store).portable(block, source, target)
    replica = lost.replica or not block.replica  # the block is elsewhere: a damaged file cannot say
    target.commit([Adopt(lost.key, encoded, lost.references or block.references, replica)])
    store.note([key.signature], lost.volume)
    return None


def _first_sound(
    copies: Sequence[BlockLocation], passed: tuple[type[HoldfastError], ...] = (Damaged,)
) -> tuple[Block, ReadableVolume] | None:
    """The first readable copy, and its volume; copies that raise an error in `passed` are passed over."""
    for copy in copies:
        try:
            (block,) = copy.volume.fetch([copy.facts.key])
        except passed:
            continue
        if block is not None:
            return block, copy.volume
    return None


def _missing(store: BlockStore, name: str, repair: Repair, losses: list[Fault]) -> Fault | None:
    """The fault of blocks that are lost together with their names."""
    if not repair.blocks:
        return None
    stat = store.volumes[name].stat()
    found = stat.blocks + stat.replicas + sum(fault.volume == name and fault.key is not None for fault in losses)
    if found >= repair.blocks:
        return None
    remedy = "their names are not known; what is left of their bytes is in 'lost/'"
    return Fault(name, "", 0, "content lost", f"{repair.blocks} blocks", f"{found}", remedy=remedy)


def _restore_dictionaries(store: BlockStore, name: str, numbers: list[int]) -> list[Fault]:
    """Restores lost dictionaries from other volumes; a fault for each that none has."""
    remedy = "contents encoded with it are lost; 'holdfast check --deep' names them"
    return [
        Fault(name, "", 0, "dictionary lost", f"dictionary {number:08x}", "none", remedy=remedy)
        for number in numbers
        if not _restore_dictionary(store, name, number)
    ]


def _restore_dictionary(store: BlockStore, name: str, number: int) -> bool:
    """Copies a lost dictionary from another volume; False if none has it."""
    for other in store.volumes.values():
        if other.name != name and store.is_up(other.name) and (found := other.dictionary(number)) is not None:
            store.writer(name).add_dictionary(*found)
            return True
    return False


def _exchange(store: BlockStore, fault: Fault) -> bool:
    """Replaces a block whose content does not match its signature by a copy that does."""
    assert fault.key is not None
    found = store.find(fault.key).blocks
    bad = next((each for each in found if each.volume.name == fault.volume), None)
    for each in found:
        (block,) = each.volume.fetch([each.facts.key])
        if bad is None or each is bad or block is None:
            continue
        content = store.encodings.decode(block, each.volume)
        if store.signature.digest(content) == fault.key.signature:
            target = store.writer(fault.volume)
            encoded = Replicator(store).portable(block, each.volume, target)
            target.commit([Adopt(bad.facts.key, encoded, bad.facts.references, bad.facts.replica)])
            return True
    return False


def _recount(store: BlockStore, block: Lost) -> Fault | None:
    """Takes an unreadable counter from a copy; a fault if there is none."""
    key = block.content_key
    copies = [found for found in store.find(key).blocks if found.volume.name != block.volume]
    if not copies:
        return Fault(block.volume, "", 0, "counter uncertain", "a counter", f"{block.references} or more", key)
    store.writer(block.volume).commit([Recount(block.key, copies[0].references)])
    return None


def _event(fault: Fault) -> dict[str, object]:
    """Its line in the audit log."""
    return {
        "event": "repaired" if fault.repaired else "not repaired",
        "volume": fault.volume,
        "file": fault.file,
        "offset": fault.offset,
        "fault": fault.kind,
        "contentkey": str(fault.key) if fault.key else None,
    }


# -- one volume, where its files are ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mended:
    """The faults found, and the blocks that only replicas in other volumes can restore."""

    faults: list[Fault]
    lost: list[Lost]


def mend_volume(directory: Path, env: Environment, progress: Progress | None = None) -> Mended:
    """Leaves the volume sound. Raises VolumeDown if there is none, Busy if a process writes to it."""
    name = directory.name
    try:
        identity = read_identity(env, directory)
    except FileNotFoundError:
        raise VolumeDown(f"no volume in '{directory}'") from None
    lock = WriterLock(directory / paths.LOCK, "holdfast volume mend", subject="volume")
    try:
        settings = replace(StoreSettings(), signature=identity.signature)
        spec = volume_spec(name, directory, settings, env)
        organization = find_organization(identity.organization)
        faults = list(organization.check(spec, CheckProgress(progress, None, env)))
        lost = organization.repair(spec).lost if faults else []
        KnownDamage(env, directory).clear()  # repaired, or lost
        return Mended(faults, lost)
    finally:
        lock.release()


# -- volumes in line with each other ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Restoration:
    """What was done."""

    blocks: int = 0  # looked at
    restored: int = 0  # missing blocks, from replicas
    aligned: int = 0  # contents with too few copies or unequal counters
    dictionaries: int = 0
    lost: int = 0  # missing blocks without a readable replica
    down: list[str] = field(default_factory=list)  # volumes that were not examined completely


class Restorer:
    """For one thread; clients may continue. With `names`, only contents that concern those volumes."""

    def __init__(self, store: BlockStore, names: Sequence[str] = ()) -> None:
        self._store = store
        self._replicator = Replicator(store)
        self._names = frozenset(names)
        self._copies = min(store.settings.store.replicas, max(store.writable_count, 1))
        self._dictionaries: set[tuple[str, int]] = set()  # known to exist
        self._lost: dict[ContentKey, None] = {}
        self._doubles: dict[str, list[BlockKey]] = {}  # by volume: second blocks under a key
        self._leftovers: list[tuple[ContentKey, str, int]] = []  # moving copies: volume and counter
        self.done = Restoration()

    def run(self, progress: Progress | None = None) -> Restoration:
        """Examines every block of every volume that is up."""
        self.done.down = list(self._store.down)
        for name, volume in self._store.volumes.items():
            try:
                for batch in volume.scan():
                    self._look(volume, batch)
                    if progress is not None:
                        progress(sum(len(block.encoded.data) for block in batch))
                    if len(self._lost) >= LOST_TOGETHER:
                        self._restore_lost()
            except FAILURES as error:
                self._leave(name, error)
        self._restore_lost()
        self._join_doubles()
        self._remove_leftovers()
        return self.done

    def _look(self, volume: ReadableVolume, batch: Sequence[Block]) -> None:
        """Examines some blocks of a volume and their copies."""
        known = {each.name for each in self._store.settings.volume}
        keyed = [(self._store.content_key(volume, block.key), block) for block in batch]
        keyed = [(key, block) for key, block in keyed if key.volume in known]
        wrong: list[ContentKey] = []
        self.done.blocks += len(batch)
        for block in batch:
            self._restore_dictionary(volume, block)
        locations = self._store.find_batch([key for key, _ in keyed])
        for (key, block), held in zip(keyed, locations, strict=True):
            if not self._concerns(held):
                continue
            if block.references >= MOVING:
                if self._store.finish_move(held):
                    wrong.append(key)
                else:
                    self._leftovers.append((key, volume.name, block.references))
            elif held.lost:
                self._lost[key] = None
            elif unfinished(self._store, volume, block, held):
                wrong.append(key)
                if not block.replica and held.counted[0].volume is not volume:
                    self._doubles.setdefault(volume.name, []).append(block.key)
        self.done.aligned += len(set(wrong))
        self._replicator.follow_undeleted(wrong, self._copies)

    def _concerns(self, held: BlockLocations) -> bool:
        if not self._names:
            return True
        name = held.blocks[0].volume.name if held.blocks else held.key.volume
        belongs = self._store.placement(held.key.signature, name)[: self._copies]
        return not self._names.isdisjoint({held.key.volume, *held.names, *belongs})

    # -- blocks that are gone -----------------------------------------------------------------------------------------

    def _restore_lost(self) -> None:
        """Restores blocks to the volumes of their keys.

        A replica without its block may be about to be removed, or was made while the block was being deleted: so they
        are examined again after `GRACE_S`, and no thread of this process counts meanwhile.
        """
        if self._lost:
            self._wait()
        keys = list(self._lost)
        self._lost.clear()
        for start in range(0, len(keys), BATCH):
            with self._store.move_lock.moving():
                locations = self._store.find_batch(keys[start : start + BATCH], everywhere=True)
                lost = [held for held in locations if held.lost and self._store.is_up(held.key.volume)]
                back = self._restore(lost)
            self._replicator.follow_undeleted(back, self._copies)  # the others have only replicas

    def _restore(self, lost: list[BlockLocations]) -> list[ContentKey]:
        """One fetch from each volume with replicas, one commit to each that lost blocks. Returns the restored keys."""
        by_source: dict[str, list[BlockLocations]] = {}
        for held in lost:
            by_source.setdefault(held.replicas[0].volume.name, []).append(held)
        adopted: dict[str, list[tuple[ContentKey, Adopt]]] = {}
        back: list[ContentKey] = []
        for name, theirs in by_source.items():
            source = self._store.volume(name)
            for held, block in zip(theirs, self._fetched(source, theirs), strict=True):
                found = (block, source) if block is not None else _first_sound(held.replicas[1:], _UNREADABLE)
                if found is None:
                    self.done.lost += 1
                    log.error("content %s is lost: no replica can be read", held.key)
                else:
                    adopted.setdefault(held.key.volume, []).append((held.key, self._adoption(held, *found)))
        for home, adoptions in adopted.items():
            try:
                outcomes = self._store.writer(home).commit([adoption for _, adoption in adoptions])
            except FAILURES as error:  # the other volumes continue
                self._store.back_off(home, error)
                self._leave(home, error)
                continue
            for (key, _), outcome in zip(adoptions, outcomes, strict=True):
                self._store.note([key.signature], home)
                self.done.restored += outcome.effect is Effect.NEW
                back.append(key)
        return back

    def _leave(self, name: str, error: HoldfastError) -> None:
        """Notes that the volume was not reconciled completely."""
        log.warning("volume %r was not reconciled completely: %s", name, error)
        if name not in self.done.down:
            self.done.down.append(name)

    def _fetched(self, source: ReadableVolume, lost: list[BlockLocations]) -> list[Block | None]:
        try:
            return source.fetch([held.replicas[0].facts.key for held in lost])
        except _UNREADABLE:  # one by one
            found = [_first_sound(held.replicas[:1], _UNREADABLE) for held in lost]
            return [each[0] if each is not None else None for each in found]

    def _adoption(self, held: BlockLocations, block: Block, source: ReadableVolume) -> Adopt:
        home = held.key.volume
        there = held.at(home)  # a replica may be there, if the block had moved
        expected = there.facts.references if there is not None else 0
        references = max(replica.facts.references for replica in held.replicas)
        encoded = self._replicator.portable(block, source, self._store.writer(home))
        return Adopt(block_key(held.key, home), encoded, references, replica=False, expected=expected)

    def _wait(self) -> None:
        """If other processes may write, waits until they have finished their operations."""
        if any(self._store.is_shared(name) for name in self._store.volumes):
            self._store.env.sleep(GRACE_S)

    def _join_doubles(self) -> None:
        """Joins two blocks under one key, made by clients that could not see each other's volume."""
        for name, keys in self._doubles.items():
            Mover(self._store, name).move(keys, _to_the_first)
        self._doubles.clear()

    # -- copies of an interrupted migration ---------------------------------------------------------------------------

    def _remove_leftovers(self) -> None:
        """Removes moving copies whose block exists, unless a migration continued with them."""
        if not self._leftovers:
            return
        self._wait()
        locations = self._store.find_batch([key for key, _, _ in self._leftovers])
        for (key, name, references), held in zip(self._leftovers, locations, strict=True):
            if held.counted:
                gone = Recount(block_key(key, name), 0, references, replica=False)
                self._store.writer(name).commit([gone])
        self._replicator.follow_undeleted([key for key, _, _ in self._leftovers], self._copies)
        self._leftovers.clear()

    # -- dictionaries -------------------------------------------------------------------------------------------------

    def _restore_dictionary(self, volume: ReadableVolume, block: Block) -> None:
        """Restores the dictionary of a block, so that the volume can be read by itself."""
        number = block.encoded.dictionary
        if block.encoded.codec != ZSTD_DICT or (volume.name, number) in self._dictionaries:
            return
        self._dictionaries.add((volume.name, number))
        try:
            if volume.dictionary(number) is None:
                self.done.dictionaries += _restore_dictionary(self._store, volume.name, number)
        except Damaged:
            return  # left to `check --repair`


def _to_the_first(block: Block, held: BlockLocations) -> str | None:
    first = held.counted[0] if held.counted else None
    return first.volume.name if first is not None and not block.replica else None
