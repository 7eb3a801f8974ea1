"""Check and repair of a hash volume.

`check_hash` reads every page of every bucket and every block, and compares the totals with the journal's. Another
process may be writing: an unsound bucket is read again, with the journal beside it, and totals are compared only if
nothing was written meanwhile.

`repair_hash` keeps every sound block and reports the others as lost. Pages are the truth: it fixes the files, by the
journal or else by their own headers; replays the journal; surveys all buckets; starts a new journal with what it
counted; and rewrites the damaged buckets by ordinary commits. An interrupted repair can be repeated: nothing is
overwritten before its blocks are durable in the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field

from holdfast.env import paths
from holdfast.env.files import replace_file
from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.damage import DAMAGED_BLOCK, CheckProgress, Lost, Repair, fault_key
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.hash.files import FILE_HEADER_BYTES, OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.page import HEAD_BYTES, MOVED, BucketId, HashEntry, PageId, Salvaged, parse_head
from holdfast.storage.volumes.hash.reader import END, FoundBlock, HashReading, Overlay, Unsound
from holdfast.storage.volumes.hash.state import HashState, Redone, redone
from holdfast.storage.volumes.hash.volume import HashVolume, create_hash
from holdfast.storage.volumes.journal import RedoJournal, check_journal, read_journal, set_aside
from holdfast.storage.volumes.local import VolumeSpec

_REBUILT = "it can be rebuilt"
_TOTALS = ("blocks", "replicas", "references", "content_bytes", "stored_bytes", "referenced_bytes", "page_bytes")
_SET_ASIDE_MAX = 1024  # damaged pages kept in `lost/`


@dataclass(slots=True)
class BucketSurvey:
    """The sound rest of a bucket, and its faults."""

    parts: list[Salvaged]
    kept: dict[BlockKey, HashEntry] = field(default_factory=dict)  # sound, and in their bucket
    lost: list[Lost] = field(default_factory=list)
    damaged: list[Salvaged] = field(default_factory=list)  # pages
    faults: list[Fault] = field(default_factory=list)


class HashSurveyor(HashReading):
    """Reads buckets page by page, damaged or not."""

    def survey(self, bucket: BucketId, free: Iterable[int] = ()) -> BucketSurvey:
        """`free`: overflow pages that belong to no bucket."""
        survey = BucketSurvey(self._salvaged_parts(bucket, free))
        for part in survey.parts:
            faults = [self._fault(part.id, at, DAMAGED_BLOCK, "a sound header", "another") for at in part.damaged]
            if not part.head_is_sound:
                wanted = f"a sound page of bucket {bucket.number}"
                faults.insert(0, self._fault(part.id, 0, "damaged bucket", wanted, repr(part.raw[:35])))
            lost = len(survey.lost)
            for offset, entry in part.entries:
                if not bucket.owns(entry.key.signature) or entry.key in survey.kept:
                    wanted = f"a block of bucket {bucket.number}"
                    faults.append(self._fault(part.id, offset, "misplaced block", wanted, f"{entry.key}"))
                    continue
                try:
                    self._block(FoundBlock(entry, part.id, offset), {})
                    survey.kept[entry.key] = entry
                except (Unsound, DamagedBlock, FileNotFoundError) as error:
                    survey.lost.append(Lost(self.name, entry.key, entry.replica, entry.header.references))
                    if isinstance(error, Unsound):  # else the file has its own fault
                        where = (self.name, str(error.path), error.offset)
                        key = fault_key(self.name, entry.key)
                        faults.append(Fault(*where, DAMAGED_BLOCK, error.expected, error.found, key))
            if faults or len(survey.lost) > lost:
                survey.damaged.append(part)
            survey.faults += faults
        return survey

    def _fault(self, page: PageId, offset: int, kind: str, expected: str, found: str) -> Fault:
        path, at = str(self._files.path(page.file)), self._files.offset(page) + offset
        return Fault(self.name, path, at, kind, expected, found)


# -- check ------------------------------------------------------------------------------------------------------------


def check_hash(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """Every fault of the volume."""
    with closing(HashChecker(spec, watch)) as checker:
        yield from checker.faults()


class HashChecker(HashSurveyor):
    """One check of one volume."""

    def __init__(self, spec: VolumeSpec, watch: CheckProgress) -> None:
        super().__init__(spec)
        self._spec = spec
        self._watch = watch
        self._counted = HashState()
        self._used: dict[int, BucketId] = {}  # overflow pages, and whose they are
        self._needed: set[int] = set()  # dictionaries
        self._sound = True
        self._images: Overlay = {}  # durable in the journal, and maybe not yet in place

    def faults(self) -> Iterator[Fault]:
        journal = check_journal(self._spec, self._watch.notes)
        known: Redone | None = None
        if isinstance(journal, Fault):
            yield journal
        else:
            known = redone(journal)
            self._images = known.images
        for fault in self._headers(known):
            self._sound = False
            yield fault
        position = 0
        while position < END:
            bucket, faults = self._check_bucket(position.to_bytes(4, "big"))
            yield from faults
            position = bucket.end
        if known is not None and self._sound:
            yield from self._account(known)
        yield from self._dictionaries.check(self.name, self._needed)

    def _headers(self, known: Redone | None) -> Iterator[Fault]:
        generations = self._files.generations()
        if known is not None:
            generations = [*{*generations, known.state.generation}]
        for file in [OVERFLOW_FILE, *sorted(generations)]:
            path = str(self._files.path(file))
            wanted = f"a file of pages of {self.identity.shape} bytes, generation {file}"
            try:
                self._files.check_header(file)
            except FileNotFoundError:
                yield Fault(self.name, path, 0, "missing file", wanted, "nothing")
            except DamagedBlock as error:
                yield Fault(self.name, path, 0, "damaged file header", wanted, str(error))

    # -- buckets ------------------------------------------------------------------------------------------------

    def _check_bucket(self, signature: bytes) -> tuple[BucketId, list[Fault]]:
        bucket, chain, found = self._attempted(
            lambda overlay: self._verified(signature, overlay), lambda _: (self._salvaged(signature)[0], None, [])
        )
        if chain is None:
            self._sound = False
            survey = self.survey(bucket)
            self._watch.read(HEAD_BYTES * len(survey.parts))
            return bucket, survey.faults
        faults = []
        self._watch.read(HEAD_BYTES * (1 + len(chain)))
        for page in chain:
            faults += self._claim(bucket, page, 1)
        for each in found:
            faults += self._note(bucket, each.entry)
        return bucket, faults

    def _verified(self, signature: bytes, overlay: Overlay) -> tuple[BucketId, list[int] | None, list[FoundBlock]]:
        """The overflow pages of a bucket, and all its blocks, their data verified."""
        overlay = overlay or self._images
        bucket, root = self._root(signature, overlay)
        found = self._found_on(self._parts(root, overlay))
        previous = None
        for each in found:
            if not bucket.owns(each.key.signature) or previous == each.key:
                raise self._unsound(each.page, each.offset, f"a block of bucket {bucket.number}", f"{each.key}")
            self._block(each, overlay)
            previous = each.key
        return bucket, [number for number, _ in root.head.chain], found

    def _claim(self, bucket: BucketId, first: int, pages: int) -> list[Fault]:
        faults = []
        for number in range(first, first + pages):
            if (other := self._used.setdefault(number, bucket)) != bucket:
                page = PageId(OVERFLOW_FILE, number)
                found = f"also of bucket {other.number}"
                faults.append(self._fault(page, 0, "page used twice", f"of bucket {bucket.number}", found))
        return faults

    def _note(self, bucket: BucketId, entry: HashEntry) -> list[Fault]:
        self._counted.count(entry, +1)
        self._watch.blocks += 1
        if entry.header.codec != ALIAS.encode():  # of an alias, the field means something else
            self._needed.add(entry.header.dictionary)
        self._watch.read(entry.cost + (entry.large.stored if entry.large is not None else 0))
        if entry.large is None:
            return []
        return self._claim(bucket, entry.large.page, entry.large.pages)

    # -- the journal's account ------------------------------------------------------------------------------------

    def _account(self, recorded: Redone) -> Iterator[Fault]:
        with suppress(FileNotFoundError, DamagedBlock):
            if self._redone().serial != recorded.serial:
                return  # another process is writing
        path, state = str(self.directory / paths.REDO), recorded.state
        for name in _TOTALS:
            expected, found = getattr(self._counted, name), getattr(state, name)
            if expected != found:
                kind = f"total of {name.replace('_', ' ')} differs"
                yield Fault(self.name, path, 0, kind, f"{expected}", f"{found}", remedy=_REBUILT)
        lost = set(range(state.overflow)) - set(self._used) - set(state.free)
        doubtful = set(self._used) & set(state.free) | {number for number in self._used if number >= state.overflow}
        if lost or doubtful:
            found = f"{len(lost)} that no bucket uses, {len(doubtful)} that are in use"
            yield Fault(self.name, path, 0, "free pages differ", "the pages of no bucket", found, remedy=_REBUILT)


# -- repair -----------------------------------------------------------------------------------------------------------


def repair_hash(spec: VolumeSpec) -> Repair:
    """Leaves the volume sound. Reports what it lost, for other volumes to restore."""
    recorded = _recorded(spec)
    state = recorded.state if recorded is not None else _shape_by_files(spec)
    _mend_files(spec, state)
    if recorded is not None:
        HashVolume(spec).close()  # replays the journal
    left = HashState(state.serial, state.generation, state.buckets, state.split, state.overflow)
    used: set[int] = set()  # overflow pages
    harmed: dict[BucketId, tuple[list[HashEntry], list[int]]] = {}  # blocks to keep, overflow pages to free
    lost: list[Lost] = []
    damaged: list[Salvaged] = []
    with closing(HashSurveyor(spec)) as surveyor:
        for bucket in _buckets(state):
            survey = surveyor.survey(bucket, recorded.state.free if recorded is not None else ())
            chained = [part.id.number for part in survey.parts[1:] if part.head is not None or part.entries]
            used.update(chained)
            left.serial = max([left.serial, *(part.head.generation for part in survey.parts if part.head is not None)])
            for entry in survey.kept.values():
                left.count(entry, +1)
                used.update(entry.large.run if entry.large is not None else ())
            if survey.damaged or not survey.parts:
                harmed[bucket] = (list(survey.kept.values()), chained)
            lost += survey.lost
            damaged += survey.damaged
    left.overflow = max([left.overflow, *(number + 1 for number in used)])
    left.serial += 1
    left.free = sorted(set(range(left.overflow)) - used)
    for page in damaged[:_SET_ASIDE_MAX]:
        _set_aside(spec, page)
    journal = RedoJournal(spec.env, spec.directory, spec.identity)
    journal.begin_behind(recorded.serial if recorded is not None else left.serial)
    journal.renew(left.pack(), recorded.tickets if recorded is not None else ())
    journal.close()
    with closing(HashVolume(spec)) as volume:
        for bucket, (entries, pages) in harmed.items():
            volume.rebuild(bucket, entries, pages)
    expected = recorded.state.blocks + recorded.state.replicas if recorded is not None else 0
    return Repair(lost, DictionaryShelf(spec.env, spec.directory, spec.identity).repair(), blocks=expected)


def _buckets(state: HashState) -> Iterator[BucketId]:
    """All buckets with blocks."""
    for number in range(max(0, state.split), state.buckets):
        yield BucketId(state.generation, number, state.buckets)
    for number in range(2 * state.split if state.is_growing else 0):
        yield BucketId(state.generation + 1, number, 2 * state.buckets)


def _recorded(spec: VolumeSpec) -> Redone | None:
    """The journal's contents. Sets a damaged journal aside."""
    path = spec.directory / paths.REDO
    try:
        return redone(read_journal(spec.env.files.open(path), spec.identity))
    except FileNotFoundError:
        return None
    except DamagedBlock:
        set_aside(spec, path)
        return None


# -- files ----------------------------------------------------------------------------------------------------------


def _shape_by_files(spec: VolumeSpec) -> HashState:
    """Without a journal: from the headers or sizes of the files. The oldest counts until all of it is split."""
    files = HashFiles(spec.env, spec.directory, spec.identity)
    pages = {file: count for file in files.generations() if (count := files.pages(file))}
    if not pages:
        create_hash(spec, 1)
        return HashState()
    generation = min(pages)
    state = HashState(generation=generation, buckets=pages[generation])
    if pages.get(generation + 1) == 2 * state.buckets:
        heads = (parse_head(files.read(PageId(generation, number)), files.uid) for number in range(state.buckets))
        moved = [number for number, head in enumerate(heads) if head is not None and head.kind == MOVED]
        if moved and moved[-1] + 1 == state.buckets:
            state = HashState(generation=generation + 1, buckets=2 * state.buckets)
        elif moved:
            state.split = moved[-1] + 1
    files.close()
    return state


def _mend_files(spec: VolumeSpec, state: HashState) -> None:
    """Makes every file exist, begin with its header and be long enough. Does not touch its pages."""
    files = HashFiles(spec.env, spec.directory, spec.identity)
    wanted = {OVERFLOW_FILE: state.overflow, state.generation: state.buckets}
    if state.is_growing:
        wanted[state.generation + 1] = 2 * state.buckets
    for file, pages in wanted.items():
        if not spec.env.files.exists(files.path(file)):
            files.create(file, pages if file else 0)
        files.mend(file, pages)
    if not state.overflow:  # unknown: any page may belong to a bucket
        size = max(0, files.size(OVERFLOW_FILE) - FILE_HEADER_BYTES)
        state.overflow = -(-size // files.page_bytes)
        files.mend(OVERFLOW_FILE, state.overflow)
    files.close()


def _set_aside(spec: VolumeSpec, page: Salvaged) -> None:
    """Keeps a damaged page, for a person to look at."""
    name = paths.OVERFLOW if page.id.file == OVERFLOW_FILE else f"{paths.BUCKETS}-{page.id.file}"
    spec.env.files.make_directory(spec.directory / paths.LOST)
    replace_file(spec.env.files, spec.directory / paths.LOST / f"{name}-page-{page.id.number}", page.raw)
