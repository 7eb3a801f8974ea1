"""Repairing an archive's store: see `check`, whose second half this is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from holdfast.config import VolumeSettings
from holdfast.env import Environment, paths
from holdfast.env.files import read_file
from holdfast.errors import DamagedBlock
from holdfast.model import ContentKey, Fault
from holdfast.storage.audit import audit
from holdfast.storage.block import HEADER_BYTES, parse
from holdfast.storage.identity import Identity, new_identity, read_identity, write_identity
from holdfast.storage.maintenance.check import Checker, CheckReport, sound_copy
from holdfast.storage.maintenance.merge import Merger
from holdfast.storage.maintenance.restore import Restorer
from holdfast.storage.store.replicas import Replicator
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import Adopt, Recount
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.faults import MISSING_DICTIONARY, UNDECODABLE, UNLIKE, Lost, Repair, note_faults
from holdfast.storage.volumes.organizations import find_organization, volume_spec


def repair_store(checker: Checker, progress: Callable[[int], None] | None = None) -> CheckReport:
    """Checks, mends what can be mended, and reports every fault with whether it is repaired now.

    A volume of which nothing is left is rebuilt only if asked: its disk may just not be mounted.
    """
    report = checker.check(progress)
    if not report.faults and not report.notes:
        return report
    faulty = [volume for volume in checker.chosen() if _is_faulty(volume, report)]
    gone = [volume.name for volume in faulty if _is_empty(checker, volume)]
    mendable = [volume for volume in faulty if volume.name not in gone or checker.options.recreate]
    checker.env.files.remove(checker.root / paths.FILTERS)  # it may not tell what the volumes hold from now on
    repairs = {volume.name: _repair_volume(checker, volume) for volume in mendable}
    losses = _mend_together(checker, repairs, report.faults)
    losses += [_made_anew(volume, checker) for volume in mendable if volume.name in gone]
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


def _is_faulty(volume: VolumeSettings, report: CheckReport) -> bool:
    here = not volume.address  # others have their own 'check --repair', where their files are
    return here and any(fault.volume == volume.name for fault in report.faults)


def _is_empty(checker: Checker, volume: VolumeSettings) -> bool:
    return not set(checker.env.files.names(checker.directory(volume))) - {paths.LOCK}


def _made_anew(volume: VolumeSettings, checker: Checker) -> Fault:
    """Nobody can tell what a volume held that is gone: that it was rebuilt is no repair to pass over in silence."""
    place = str(checker.directory(volume))
    return Fault(volume.name, place, 0, "volume rebuilt", "its blocks", "those of which others had replicas")


def _identity(fault: Fault) -> tuple[str, str, int, str, ContentKey | None]:
    return fault.volume, fault.file, fault.offset, fault.kind, fault.key


# -- one volume by itself ---------------------------------------------------------------------------------------------


def _repair_volume(checker: Checker, volume: VolumeSettings) -> Repair:
    directory = checker.directory(volume)
    try:
        read_identity(checker.env, directory)
    except (FileNotFoundError, DamagedBlock):
        write_identity(checker.env, directory, _recovered_identity(checker, volume, directory))
    spec = volume_spec(volume.name, directory, checker.settings.store, checker.env)
    repair = find_organization(spec.identity.organization).repair(spec)
    KnownDamage(checker.env, directory).clear()  # what was damaged is mended, or lost
    return repair


def _recovered_identity(checker: Checker, volume: VolumeSettings, directory: Path) -> Identity:
    """What the VOLUME file must have said: the uid stands in every block, the rest in the connector."""
    identity = new_identity(checker.env, volume, checker.settings.store.signature)
    uid = _uid_in(checker.env, directory)
    return replace(identity, uid=uid) if uid else identity


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


def _mend_together(checker: Checker, repairs: dict[str, Repair], faults: list[Fault]) -> list[Fault]:
    """Restores from copies; returns a fault for each content that is lost for good, or doubtful."""
    instance = BlockStore(checker.root, checker.settings, checker.env, writable=True)
    try:
        losses = [
            fault
            for repair in repairs.values()
            for lost in repair.lost
            if (fault := _restore(instance, lost)) is not None
        ]
        uncertain = [
            fault
            for repair in repairs.values()
            for block in repair.recount
            if (fault := _recount(instance, block)) is not None
        ]
        unsound = [fault for fault in faults if fault.kind in (UNDECODABLE, UNLIKE) and not _exchange(instance, fault)]
        for name, repair in repairs.items():
            missing = [fault for fault in faults if fault.kind == MISSING_DICTIONARY and fault.volume == name]
            numbers = [*repair.dictionaries, *(int(Path(fault.file).name, 16) for fault in missing)]
            losses += _restore_dictionaries(instance, name, numbers)
        _align_copies(instance)
        losses += [
            fault for name, repair in repairs.items() if (fault := _missing(instance, name, repair, losses)) is not None
        ]
        return losses + uncertain + unsound
    finally:
        instance.close()


def _restore(instance: BlockStore, lost: Lost) -> Fault | None:
    """Puts a sound copy back where the block was, with its counter."""
    key = lost.content_key
    copy = sound_copy(instance.find(key).blocks)
    if copy is None:
        kind = "content lost" if not lost.replica else "replica lost"
        return Fault(lost.volume, "", 0, kind, "a sound copy", "none", key, remedy="its bytes, if any, are in 'lost/'")
    if lost.volume == copy.volume.name or lost.volume not in instance.volumes:
        return None
    (block,) = copy.volume.fetch([copy.facts.key])
    assert block is not None
    target = instance.writer(lost.volume)
    encoded = Replicator(instance).portable(block, copy.volume, target)
    replica = lost.replica or not copy.facts.replica  # the block itself is elsewhere: a damaged file could not tell
    target.commit([Adopt(lost.key, encoded, lost.references or copy.references, replica)])
    instance.note(key.signature, lost.volume)
    return None


def _missing(instance: BlockStore, name: str, repair: Repair, losses: list[Fault]) -> Fault | None:
    """Blocks that are gone, and with them their names: no other volume had them."""
    if not repair.blocks:
        return None
    stat = instance.volumes[name].stat()
    found = stat.blocks + stat.replicas + sum(fault.volume == name and fault.key is not None for fault in losses)
    if found >= repair.blocks:
        return None
    remedy = "their names are not known; what is left of their bytes is in 'lost/'"
    return Fault(name, "", 0, "content lost", f"{repair.blocks} blocks", f"{found}", remedy=remedy)


def _restore_dictionaries(instance: BlockStore, name: str, numbers: list[int]) -> list[Fault]:
    """Gets back what other volumes have of lost dictionaries; a fault for each that none has."""
    faults = []
    for number in numbers:
        others = [volume for volume in instance.volumes.values() if volume.name != name]
        found = next((found for other in others if (found := other.dictionary(number)) is not None), None)
        if found is not None:
            instance.writer(name).add_dictionary(*found)
        else:
            remedy = "contents encoded with it are lost; 'holdfast check --deep' names them"
            faults.append(Fault(name, "", 0, "dictionary lost", f"dictionary {number:08x}", "none", remedy=remedy))
    return faults


def _exchange(instance: BlockStore, fault: Fault) -> bool:
    """Puts a copy with the right signature in the place of a block whose bytes are intact, but not its content."""
    assert fault.key is not None
    found = instance.find(fault.key).blocks
    bad = next((each for each in found if each.volume.name == fault.volume), None)
    for each in found:
        (block,) = each.volume.fetch([each.facts.key])
        if bad is None or each is bad or block is None:
            continue
        content = instance.encodings.decode(block, each.volume)
        if instance.signature.digest(content) == fault.key.signature:
            target = instance.writer(fault.volume)
            encoded = Replicator(instance).portable(block, each.volume, target)
            target.commit([Adopt(bad.facts.key, encoded, bad.facts.references, bad.facts.replica)])
            return True
    return False


def _recount(instance: BlockStore, block: Lost) -> Fault | None:
    """A counter that could not be read: a copy knows it, or nobody does."""
    key = block.content_key
    copies = [found for found in instance.find(key).blocks if found.volume.name != block.volume]
    if not copies:
        return Fault(block.volume, "", 0, "counter uncertain", "a counter", f"{block.references} or more", key)
    instance.writer(block.volume).commit([Recount(block.key, copies[0].references)])
    return None


def _align_copies(instance: BlockStore) -> None:
    """Originals from replicas left alone, equal counters, enough copies, nothing half moved, nothing twice."""
    if len(instance.volumes) > 1:
        Restorer(instance).run()
        Merger(instance).run()


def _event(fault: Fault) -> dict[str, object]:
    """What the audit log says of it."""
    return {
        "event": "repaired" if fault.repaired else "not repaired",
        "volume": fault.volume,
        "file": fault.file,
        "offset": fault.offset,
        "fault": fault.kind,
        "contentkey": str(fault.key) if fault.key else None,
    }
