"""Checking and repairing a tree volume: file by file, each telling by its name what it must hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.env import paths
from holdfast.env.files import replace_file
from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.faults import DAMAGED_BLOCK, CheckProgress, Lost, Repair, fault_key
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES, Damage, walk
from holdfast.storage.volumes.spec import VolumeSpec
from holdfast.storage.volumes.tree.journal import salvaged, sound_end
from holdfast.storage.volumes.tree.volume import OPEN, BlockFile, TreeReading


def check_tree(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """Every fault of the volume."""
    volume = _reading(spec)
    dictionaries: set[int] = set()  # that blocks were encoded with
    for path in volume.all_paths():
        key = volume.key_of(path)
        if key is None:
            yield Fault(spec.name, str(path), 0, "foreign file", "a block file", "another name", remedy="move it away")
            continue
        try:
            file = volume.read(path)
        except FileNotFoundError:
            continue
        except DamagedBlock as error:
            yield Fault(
                spec.name,
                str(path),
                0,
                DAMAGED_BLOCK,
                "a sound block",
                str(error),
                fault_key(spec.name, key),
            )
            continue
        watch.blocks += 1
        watch.read(file.end)
        if file.header.codec != ALIAS.encode():  # of an alias, the field means something else
            dictionaries.add(file.header.dictionary)
        yield from _check_block(spec, volume, file, key, watch)
    yield from DictionaryShelf(spec.env, spec.directory, spec.identity).check(spec.name, dictionaries)
    yield from _check_journal(spec, watch)


def _check_block(
    spec: VolumeSpec, volume: TreeReading, file: BlockFile, key: BlockKey, watch: CheckProgress
) -> Iterator[Fault]:
    content_key = fault_key(spec.name, key)
    if file.key != key:
        yield Fault(spec.name, str(file.path), 0, "misplaced block", f"{content_key}", f"{file.key}", content_key)
    excess = file.excess
    if excess > 0 and spec.env.files.exists(spec.directory / OPEN):
        watch.notes.append(f"'{file.path}' ends with {excess} bytes that were never acknowledged")
    elif excess > 0:
        yield Fault(
            spec.name,
            str(file.path),
            file.end,
            "damaged counter",
            "a counter",
            f"{excess} bytes",
            content_key,
        )


def _check_journal(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    path = spec.directory / paths.TICKETS
    try:
        file = spec.env.files.open(path)
    except FileNotFoundError:
        return
    damaged = "damaged journal of tickets"
    try:
        end = sound_end(file, spec.identity, crashed=spec.env.files.exists(spec.directory / OPEN))
    except DamagedBlock as error:
        yield Fault(spec.name, str(path), 0, damaged, "a sound header", str(error))
        return
    watch.read(end)
    for step in walk(file, spec.identity.uid, SEGMENT_HEADER_BYTES, end):
        if isinstance(step, Damage):
            yield Fault(spec.name, str(path), step.offset, damaged, step.expected, step.found)
    if end < file.size():
        watch.notes.append(f"'{path}' ends with {file.size() - end} bytes that were never acknowledged")


def _repair_journal(spec: VolumeSpec) -> None:
    """What is sound is kept; the damaged journal is set aside."""
    if any(True for _ in _check_journal(spec, CheckProgress())):
        path = spec.directory / paths.TICKETS
        sound = salvaged(spec.env.files.open(path), spec.identity)
        _set_aside(spec, path)
        replace_file(spec.env.files, path, sound)


def repair_tree(spec: VolumeSpec) -> Repair:
    """Moves what is damaged to `lost/` and reports it; cuts off counters that cannot be read."""
    repair = Repair()
    misplaced: list[tuple[Path, BlockKey]] = []
    volume = _reading(spec)
    for path in list(volume.all_paths()):
        key = volume.key_of(path)
        try:
            file = volume.read(path)
        except DamagedBlock:
            _set_aside(spec, path)
            if key is not None:
                repair.lost.append(Lost(spec.name, key, replica=False, references=0))
            continue
        if key is None or file.key != key:
            misplaced.append((_set_aside(spec, path), file.key))
            if key is not None:
                repair.lost.append(Lost(spec.name, key, replica=False, references=0))
            continue
        if file.excess:
            handle = spec.env.files.open(path, writable=True)
            handle.truncate(file.end)
            handle.sync()
            handle.close()
            repair.recount.append(Lost(spec.name, key, file.facts.replica, file.references))
    for path, key in misplaced:
        if _put_back(spec, path, volume.path(key)):
            repair.lost = [lost for lost in repair.lost if lost.key != key]
    _repair_journal(spec)
    repair.dictionaries = DictionaryShelf(spec.env, spec.directory, spec.identity).repair()
    return repair


def _reading(spec: VolumeSpec) -> TreeReading:
    return TreeReading(spec.name, spec.directory, spec.identity, spec.env)


def _set_aside(spec: VolumeSpec, path: Path) -> Path:
    lost = spec.directory / paths.LOST / "-".join(path.relative_to(spec.directory).parts)
    _move(spec, path, lost)
    return lost


def _put_back(spec: VolumeSpec, path: Path, target: Path) -> bool:
    """Moves a sound block to where it belongs, if nothing is there."""
    if spec.env.files.exists(target):
        return False
    _move(spec, path, target)
    return True


def _move(spec: VolumeSpec, path: Path, target: Path) -> None:
    spec.env.files.make_directory(target.parent)
    spec.env.files.rename(path, target)
    spec.env.files.sync_directory(target.parent)
    spec.env.files.sync_directory(path.parent)
