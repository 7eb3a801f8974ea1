"""Checking and repairing a tree volume: file by file, each telling by its name what it must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage import layout
from holdfast.storage.faults import Lost, Repair, Watch, fault_key
from holdfast.storage.organizations.dictionaries import DictionaryShelf
from holdfast.storage.organizations.spec import VolumeSpec
from holdfast.storage.organizations.tree import BlockFile, TreeReading
from holdfast.storage.organizations.tree_writing import OPEN
from holdfast.storage.volume import BlockKey

_LEAF = re.compile(r"((?:[0-9A-F]{2})+)(?:~([0-9]{1,5}))?(?:@([a-z0-9_-]{1,16}))?")


def check_tree(spec: VolumeSpec, watch: Watch) -> Iterator[Fault]:
    """Every fault of the volume."""
    volume = _reading(spec)
    for path in volume.all_paths():
        key = key_of(volume, path)
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
                "damaged block",
                "a sound block",
                str(error),
                fault_key(spec.name, key),
            )
            continue
        watch.blocks += 1
        watch.read(file.end)
        yield from _check_block(spec, volume, file, key, watch)
    yield from DictionaryShelf(spec.env, spec.directory, spec.identity).check(spec.name)


def _check_block(
    spec: VolumeSpec, volume: TreeReading, file: BlockFile, key: BlockKey, watch: Watch
) -> Iterator[Fault]:
    content_key = fault_key(spec.name, key)
    if file.key != key:
        yield Fault(spec.name, str(file.path), 0, "misplaced block", f"{content_key}", f"{file.key}", content_key)
    excess = volume.size(file.path) - file.end
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


def repair_tree(spec: VolumeSpec) -> Repair:
    """Moves what is damaged to `lost/` and reports it; cuts off counters that cannot be read."""
    repair = Repair()
    volume = _reading(spec)
    for path in list(volume.all_paths()):
        key = key_of(volume, path)
        try:
            file = volume.read(path)
        except DamagedBlock:
            _set_aside(spec, path)
            if key is not None:
                repair.lost.append(Lost(spec.name, key, replica=False, references=0))
            continue
        if key is None or file.key != key:
            _set_aside(spec, path)
            continue
        if volume.size(path) > file.end:
            handle = spec.env.files.open(path, writable=True)
            handle.truncate(file.end)
            handle.sync()
            handle.close()
            repair.recount.append(Lost(spec.name, key, file.facts.replica, file.references))
    repair.dictionaries = DictionaryShelf(spec.env, spec.directory, spec.identity).repair()
    return repair


def key_of(volume: TreeReading, path: Path) -> BlockKey | None:
    """The block that a file's path promises; None if it is no block's path."""
    match = _LEAF.fullmatch(path.name)
    if match is None:
        return None
    try:
        key = BlockKey(volume.signature_of(path), int(match[2] or 0), (match[3] or "").encode())
    except ValueError:
        return None
    return key if volume.path(key) == path else None


def _reading(spec: VolumeSpec) -> TreeReading:
    return TreeReading(spec.name, spec.directory, spec.identity, spec.env)


def _set_aside(spec: VolumeSpec, path: Path) -> None:
    lost = spec.directory / layout.LOST
    spec.env.files.make_directory(lost)
    spec.env.files.rename(path, lost / "-".join(path.relative_to(spec.directory).parts))
    spec.env.files.sync_directory(lost)
    spec.env.files.sync_directory(path.parent)
