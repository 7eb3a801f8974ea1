"""Repairing a hash volume by itself: trust what is sound, say what is lost, leave a clean volume behind.

Pages are the truth, and each block vouches for itself. So the order is: make the files what they must be, by the
journal, or, without one, by themselves; do what the journal has promised; read all buckets, and of those that are
damaged whatever blocks can be found; count what there is, and begin a new journal with that; write the damaged buckets
anew, as commits like any other. A repair that is interrupted can be repeated: nothing is overwritten before its blocks
are durable in the journal.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.env import paths
from holdfast.env.files import replace_file
from holdfast.errors import DamagedBlock
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.faults import Lost, Repair
from holdfast.storage.volumes.hash.chain import BucketId
from holdfast.storage.volumes.hash.files import FILE_HEADER_BYTES, OVERFLOW_FILE, HashFiles, read_file_header
from holdfast.storage.volumes.hash.journal import RedoJournal, Redone, read_redo
from holdfast.storage.volumes.hash.page import MOVED, HashEntry, PageId
from holdfast.storage.volumes.hash.reader import FoundBlock, HashReading, Unsound
from holdfast.storage.volumes.hash.salvage import Salvage, Salvaged, belongs, mended
from holdfast.storage.volumes.hash.state import HashState
from holdfast.storage.volumes.hash.volume import HashVolume, create_hash
from holdfast.storage.volumes.spec import VolumeSpec

SET_ASIDE_MAX = 1024  # pages that are kept for a person to look at


@dataclass(slots=True)
class _Left:
    """All that is left of a volume."""

    state: HashState
    used: set[int] = field(default_factory=set)  # overflow pages
    harmed: dict[BucketId, tuple[list[HashEntry], list[int]]] = field(default_factory=dict)  # blocks, overflow pages
    lost: list[Lost] = field(default_factory=list)
    damaged: list[Salvaged] = field(default_factory=list)


def repair_hash(spec: VolumeSpec) -> Repair:
    """Leaves the volume sound. What it lost is reported, for other volumes to give back."""
    told = _told(spec)
    state = told.state if told is not None else _shape_by_files(spec)
    _mend_files(spec, state)
    if told is not None:
        HashVolume(spec).close()  # does what the journal has promised
    looker = _Looker(spec, state, set(told.free) if told is not None else set())
    left = looker.look()
    looker.close()
    for page in left.damaged[:SET_ASIDE_MAX]:
        _set_aside(spec, page)
    free = set(range(left.state.overflow)) - left.used
    redo = RedoJournal(spec.env, spec.directory, spec.identity)
    redo.begin_behind(told.serial if told is not None else left.state.serial)
    redo.renew(left.state.pack(free), told.tickets if told is not None else ())
    redo.close()
    _rewrite(spec, left)
    expected = told.state.blocks + told.state.replicas if told is not None else 0
    return Repair(left.lost, DictionaryShelf(spec.env, spec.directory, spec.identity).repair(), blocks=expected)


def _told(spec: VolumeSpec) -> Redone | None:
    """What the journal says. A damaged one is set aside."""
    path = spec.directory / paths.REDO
    try:
        return read_redo(spec.env.files.open(path), spec.identity)
    except FileNotFoundError:
        return None
    except DamagedBlock:
        spec.env.files.make_directory(spec.directory / paths.LOST)
        spec.env.files.rename(path, spec.directory / paths.LOST / paths.REDO)
        spec.env.files.sync_directory(spec.directory)
        return None


# -- files ----------------------------------------------------------------------------------------------------------


def _shape_by_files(spec: VolumeSpec) -> HashState:
    """Without a journal: by the headers of the files, or their sizes. The oldest is in force until it is all split."""
    files = HashFiles(spec.env, spec.directory, spec.identity)
    pages = {file: _pages(spec, files, file) for file in files.generations()}
    pages = {file: count for file, count in pages.items() if count}
    if not pages:
        create_hash(spec, 1)
        return HashState()
    generation = min(pages)
    state = HashState(generation=generation, buckets=pages[generation])
    if pages.get(generation + 1) == 2 * state.buckets:
        salvage = Salvage(files, set())
        heads = [salvage.page(PageId(generation, number)).head for number in range(state.buckets)]
        moved = [number for number, head in enumerate(heads) if head is not None and head.kind == MOVED]
        if moved and moved[-1] + 1 == state.buckets:
            state = HashState(generation=generation + 1, buckets=2 * state.buckets)
        elif moved:
            state.split = moved[-1] + 1
    files.close()
    return state


def _pages(spec: VolumeSpec, files: HashFiles, file: int) -> int:
    opened = spec.env.files.open(files.path(file))
    with suppress(DamagedBlock):
        header = read_file_header(opened)
        if (header.uid, header.generation, header.page_bytes) == (files.uid, file, files.page_bytes):
            return header.pages
    return max(0, opened.size() - FILE_HEADER_BYTES) // files.page_bytes


def _mend_files(spec: VolumeSpec, state: HashState) -> None:
    """Each file is there, begins with its header, and is long enough. Its pages stay as they are."""
    files = HashFiles(spec.env, spec.directory, spec.identity)
    wanted = {OVERFLOW_FILE: state.overflow, state.generation: state.buckets}
    if state.is_growing:
        wanted[state.generation + 1] = 2 * state.buckets
    for file, pages in wanted.items():
        if not spec.env.files.exists(files.path(file)):
            files.create(file, pages if file else 0)
        files.mend(file, pages)
    if not state.overflow:  # nobody knows: what is there may be somebody's
        size = max(0, files.size(OVERFLOW_FILE) - FILE_HEADER_BYTES)
        state.overflow = -(-size // files.page_bytes)
        files.mend(OVERFLOW_FILE, state.overflow)
    files.close()


# -- buckets --------------------------------------------------------------------------------------------------------


class _Looker(HashReading):
    """Reads all buckets, damaged or not."""

    def __init__(self, spec: VolumeSpec, told: HashState, free: set[int]) -> None:
        super().__init__(spec.name, spec.directory, spec.identity, spec.env)
        self._salvage = Salvage(self._files, free)
        self._told_state = told
        self._left = _Left(HashState(told.serial, told.generation, told.buckets, told.split, told.overflow))

    def look(self) -> _Left:
        told = self._told_state
        for number in range(max(0, told.split), told.buckets):
            self._look_into(BucketId(told.generation, number, told.buckets))
        for number in range(2 * told.split if told.is_growing else 0):
            self._look_into(BucketId(told.generation + 1, number, 2 * told.buckets))
        state = self._left.state
        state.overflow = max([state.overflow, *(number + 1 for number in self._left.used)])
        state.serial += 1
        return self._left

    def _look_into(self, bucket: BucketId) -> None:
        parts = self._salvage.bucket(bucket)
        kept: dict[BlockKey, HashEntry] = {}
        harmed = not parts
        for part in parts:
            entries = list(part.entries)
            damaged = part.head is None or bool(part.damaged)
            entries += mended(part)
            if part.head is not None:
                self._left.state.serial = max(self._left.state.serial, part.head.generation)
            for offset, entry in entries:
                sound = (
                    belongs(entry, bucket)
                    and entry.key not in kept
                    and self._is_sound(FoundBlock(entry, part.id, offset))
                )
                damaged = damaged or not sound
                if sound:
                    kept[entry.key] = entry
            if damaged:
                harmed = True
                self._left.damaged.append(part)
        self._keep(bucket, parts, list(kept.values()), harmed=harmed)

    def _is_sound(self, found: FoundBlock) -> bool:
        try:
            self._block(found, {})
        except (Unsound, DamagedBlock, FileNotFoundError):
            entry = found.entry
            self._left.lost.append(Lost(self.name, entry.key, entry.replica, entry.header.references))
            return False
        return True

    def _keep(self, bucket: BucketId, parts: list[Salvaged], entries: list[HashEntry], *, harmed: bool) -> None:
        left = self._left
        chained = [part.id.number for part in parts[1:] if part.head is not None or part.entries]
        for entry in entries:
            left.state.count(entry, +1)
            if entry.large is not None:
                left.used.update(range(entry.large.page, entry.large.page + entry.large.pages))
        left.used.update(chained)
        if harmed:
            left.harmed[bucket] = (entries, chained)


def _set_aside(spec: VolumeSpec, page: Salvaged) -> None:
    """Keeps a damaged page, for a person to look at."""
    name = paths.OVERFLOW if page.id.file == OVERFLOW_FILE else f"{paths.BUCKETS}-{page.id.file}"
    spec.env.files.make_directory(spec.directory / paths.LOST)
    replace_file(spec.env.files, spec.directory / paths.LOST / f"{name}-page-{page.id.number}", page.raw)


def _rewrite(spec: VolumeSpec, left: _Left) -> None:
    volume = HashVolume(spec)
    try:
        for bucket, (entries, pages) in left.harmed.items():
            volume.rebuild(bucket, entries, pages)
    finally:
        volume.close()
