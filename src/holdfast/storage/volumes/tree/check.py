"""Check and repair of a tree volume: file by file, each against its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.env import paths
from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.damage import DAMAGED_BLOCK, CheckProgress, Lost, Repair, fault_key
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.journal import RedoJournal, Ticket, applied_tickets, check_journal, move_file, set_aside
from holdfast.storage.volumes.local import VolumeSpec
from holdfast.storage.volumes.tree.volume import TreeReading


def check_tree(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """Every fault of the volume."""
    volume = TreeReading(spec)
    journal = check_journal(spec, watch.notes)
    if isinstance(journal, Fault):
        yield journal
    dictionaries: set[int] = set()  # used by blocks
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
            yield Fault(spec.name, str(path), 0, DAMAGED_BLOCK, "a sound block", str(error), fault_key(spec.name, key))
            continue
        watch.blocks += 1
        watch.read(file.end)
        if file.header.codec != ALIAS.encode():  # of an alias, the field means something else
            dictionaries.add(file.header.dictionary)
        content_key = fault_key(spec.name, key)
        if file.key != key:
            yield Fault(spec.name, str(path), 0, "misplaced block", f"{content_key}", f"{file.key}", content_key)
        if not file.excess:
            continue
        if _is_pending(spec, key):
            watch.notes.append(f"'{path}' ends with {file.excess} bytes that were never acknowledged")
        elif volume.read(path).excess:  # not a counter that another process was writing
            found = f"{file.excess} bytes"
            yield Fault(spec.name, str(path), file.end, "damaged counter", "a counter", found, content_key)
    yield from DictionaryShelf(spec.env, spec.directory, spec.identity).check(spec.name, dictionaries)


def _is_pending(spec: VolumeSpec, key: BlockKey) -> bool:
    """True if the last transaction changes this block: the next opening applies it again."""
    journal = check_journal(spec, [])
    return not isinstance(journal, Fault) and any(change.key == key for change in journal.transactions[-1])


def _repair_journal(spec: VolumeSpec) -> None:
    """Sets a damaged journal aside; the new one keeps its readable tickets."""
    if not isinstance(check_journal(spec, []), Fault):
        return
    path, tickets = spec.directory / paths.REDO, list[Ticket]()
    if spec.env.files.exists(path):
        tickets = applied_tickets(spec.env.files.open(path), spec.identity)
        set_aside(spec, path)
    journal = RedoJournal(spec.env, spec.directory, spec.identity)
    journal.begin_behind(max((kept.serial for _, kept in tickets), default=0))
    journal.renew(b"", tickets)
    journal.close()


def repair_tree(spec: VolumeSpec) -> Repair:
    """Moves damaged files to `lost/` and reports them; cuts off unreadable counters."""
    repair = Repair()
    misplaced: list[tuple[Path, BlockKey]] = []
    volume = TreeReading(spec)
    for path in list(volume.all_paths()):
        key = volume.key_of(path)
        try:
            file = volume.read(path)
        except DamagedBlock:
            set_aside(spec, path)
            if key is not None:
                repair.lost.append(Lost(spec.name, key, replica=False, references=0))
            continue
        if key is None or file.key != key:
            misplaced.append((set_aside(spec, path), file.key))
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
        if not spec.env.files.exists(volume.path(key)):
            move_file(spec.env, path, volume.path(key))
            repair.lost = [lost for lost in repair.lost if lost.key != key]
    _repair_journal(spec)
    repair.dictionaries = DictionaryShelf(spec.env, spec.directory, spec.identity).repair()
    return repair
