"""Checking a hash volume: every page of every bucket, every block in it, and the journal's account of them.

Works while another process writes: a bucket that is not sound is read again, with the journal beside it. What the
journal says of totals and free pages is compared if nothing was written meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.env import paths
from holdfast.errors import DamagedBlock
from holdfast.model import Fault
from holdfast.storage.codec import ALIAS
from holdfast.storage.volumes.faults import DAMAGED_BLOCK, CheckProgress, fault_key
from holdfast.storage.volumes.hash.chain import BucketId
from holdfast.storage.volumes.hash.files import OVERFLOW_FILE, read_file_header
from holdfast.storage.volumes.hash.journal import Redone, read_redo
from holdfast.storage.volumes.hash.page import HEAD_BYTES, HashEntry, PageId
from holdfast.storage.volumes.hash.reader import END, FoundBlock, HashReading, Overlay, Unsound
from holdfast.storage.volumes.hash.salvage import Salvage, belongs
from holdfast.storage.volumes.hash.state import HashState
from holdfast.storage.volumes.spec import VolumeSpec

_REBUILT = "it can be rebuilt"
_TOTALS = ("blocks", "replicas", "references", "content_bytes", "stored_bytes", "referenced_bytes", "page_bytes")


def check_hash(spec: VolumeSpec, watch: CheckProgress) -> Iterator[Fault]:
    """Every fault of the volume."""
    checker = HashChecker(spec, watch)
    try:
        yield from checker.faults()
    finally:
        checker.close()


class HashChecker(HashReading):
    """One check of one volume."""

    def __init__(self, spec: VolumeSpec, watch: CheckProgress) -> None:
        super().__init__(spec.name, spec.directory, spec.identity, spec.env)
        self._watch = watch
        self._counted = HashState()
        self._used: dict[int, BucketId] = {}  # overflow pages, and whose they are
        self._needed: set[int] = set()  # dictionaries
        self._sound = True

    def faults(self) -> Iterator[Fault]:
        redone = self._journal()
        if isinstance(redone, Fault):
            yield redone
        elif redone.excess:
            path = self.directory / paths.REDO
            self._watch.notes.append(f"'{path}' ends with {redone.excess} bytes that were never acknowledged")
        for fault in self._headers(redone if isinstance(redone, Redone) else None):
            self._sound = False
            yield fault
        position = 0
        while position < END:
            bucket, faults = self._check_bucket(position.to_bytes(4, "big"))
            yield from faults
            position = -(-((bucket.number + 1) << 32) // bucket.buckets)
        if isinstance(redone, Redone) and self._sound:
            yield from self._account(redone)
        yield from self._dictionaries.check(self.name, self._needed)

    def _journal(self) -> Redone | Fault:
        path = self.directory / paths.REDO
        try:
            return read_redo(self._env.files.open(path), self.identity)
        except (FileNotFoundError, DamagedBlock) as error:
            return Fault(self.name, str(path), 0, "damaged journal", "a journal", str(error), remedy=_REBUILT)

    def _headers(self, redone: Redone | None) -> Iterator[Fault]:
        generations = self._files.generations()
        if redone is not None:
            generations = [*{*generations, redone.state.generation}]
        for file in [OVERFLOW_FILE, *sorted(generations)]:
            path = self._files.path(file)
            wanted = f"a file of pages of {self.identity.shape} bytes, generation {file}"
            try:
                header = read_file_header(self._env.files.open(path))
            except FileNotFoundError:
                yield Fault(self.name, str(path), 0, "missing file", wanted, "nothing")
                continue
            except DamagedBlock as error:
                yield Fault(self.name, str(path), 0, "damaged file header", wanted, str(error))
                continue
            if (header.uid, header.generation, header.page_bytes) != (self.identity.uid, file, self.identity.shape):
                yield Fault(self.name, str(path), 0, "wrong file header", wanted, f"{header}")

    # -- buckets ------------------------------------------------------------------------------------------------

    def _check_bucket(self, signature: bytes) -> tuple[BucketId, list[Fault]]:
        bucket, chain, found = self._attempted(
            lambda overlay: self._verified(signature, overlay), lambda _: (self._salvaged(signature)[0], None, [])
        )
        if chain is None:
            self._sound = False
            return bucket, self._examine(bucket)
        faults = []
        self._watch.read(HEAD_BYTES * (1 + len(chain)))
        for page in chain:
            faults += self._claim(bucket, page, 1)
        for each in found:
            faults += self._note(bucket, each.entry)
        return bucket, faults

    def _verified(self, signature: bytes, overlay: Overlay) -> tuple[BucketId, list[int] | None, list[FoundBlock]]:
        """The overflow pages of a bucket, and all its blocks, each read to its end."""
        bucket, root = self._root(signature, overlay)
        found = self._found_on(self._parts(root, overlay))
        previous = None
        for each in found:
            if not belongs(each.entry, bucket) or previous == each.key:
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

    def _examine(self, bucket: BucketId) -> list[Fault]:
        """What is wrong with a bucket that stays unsound."""
        faults = []
        seen: set[object] = set()
        for part in Salvage(self._files, set()).bucket(bucket):
            self._watch.read(HEAD_BYTES)
            if part.head is None:
                wanted = f"a sound page of bucket {bucket.number}"
                faults.append(self._fault(part.id, 0, "damaged bucket", wanted, repr(part.raw[:35])))
            faults += [
                self._fault(part.id, offset, DAMAGED_BLOCK, "a sound header", "another") for offset in part.damaged
            ]
            for offset, entry in part.entries:
                if not belongs(entry, bucket) or entry.key in seen:
                    wanted = f"a block of bucket {bucket.number}"
                    faults.append(self._fault(part.id, offset, "misplaced block", wanted, f"{entry.key}"))
                seen.add(entry.key)
                faults += self._examine_block(FoundBlock(entry, part.id, offset))
        return faults

    def _examine_block(self, found: FoundBlock) -> list[Fault]:
        try:
            self._block(found, {})
        except Unsound as error:
            key = fault_key(self.name, found.key)
            where = (self.name, str(error.path), error.offset)
            return [Fault(*where, DAMAGED_BLOCK, error.expected, error.found, key)]
        except (FileNotFoundError, DamagedBlock):
            return []  # the file has a fault of its own
        return []

    def _fault(self, page: PageId, offset: int, kind: str, expected: str, found: str) -> Fault:
        path, at = str(self._files.path(page.file)), self._files.offset(page) + offset
        return Fault(self.name, path, at, kind, expected, found)

    # -- the journal's account ------------------------------------------------------------------------------------

    def _account(self, told: Redone) -> Iterator[Fault]:
        now = self._journal()
        if not isinstance(now, Redone) or now.state.serial != told.state.serial:
            return  # somebody writes
        path, state = str(self.directory / paths.REDO), told.state
        for name in _TOTALS:
            expected, found = getattr(self._counted, name), getattr(state, name)
            if expected != found:
                kind = f"total of {name.replace('_', ' ')} differs"
                yield Fault(self.name, path, 0, kind, f"{expected}", f"{found}", remedy=_REBUILT)
        lost = set(range(state.overflow)) - set(self._used) - set(told.free)
        doubtful = set(self._used) & set(told.free) | {number for number in self._used if number >= state.overflow}
        if lost or doubtful:
            found = f"{len(lost)} that nobody has, {len(doubtful)} that are taken"
            yield Fault(self.name, path, 0, "free pages differ", "those of no bucket", found, remedy=_REBUILT)
