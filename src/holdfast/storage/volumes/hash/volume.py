"""The `hash` organization: buckets of signatures, searched without an index (B7, WebBase section 3.2.1).

Buckets of successive ranges of signatures lie side by side in one file, their blocks sorted; overflow buckets are in
another file. The thread that leads a flush changes the buckets for a group of commits, makes the new images of their
pages durable in the journal, then writes each page once, in file order. So bytes are never overwritten without another
durable copy, and many commits share one sweep over the disk. Recently used buckets stay in the *bucket buffer*.

When buckets fill up, their number doubles: each group splits as many buckets as it changed into a file of twice as
many, until the old file is empty; the next checkpoint removes it.

Threads: any thread may call any method. The thread that leads a flush computes the change of its whole group, and is
alone with journal and files; `_streams_lock` is held while pages are written, or read by a stream.

**Streams** have the page displacement table of WebBase's section 3.4. A scan reads a stretch of buckets at once, then
their overflow buckets in file order. Meanwhile commits may move blocks between pages that have been read and pages that
have not. The *stream pointer* is the set of pages read so far. Blocks that move across it are in the table:

    block   moved       consequence
    -----   ---------   -----------------------------------------------------------------------------
    key     forward     read, and now on an unread page: skipped there
    key     backward    unread, and now on a page that was read or will not be: fetched at the end

If a block moves several times, its first and last places count. A table lives as long as its stretch: a scan delivers
keys in order (`hash.reader`), so no block crosses the end of a stretch, and a stream may pause there.

**Compaction** shortens chains and moves overflow pages to the front of their file, a few buckets per commit. At the end
it truncates the overflow file after the last page in use, zeroes free pages, and makes a checkpoint: removed blocks
have left the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from holdfast.env import paths
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBlock, VolumeFull
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.volume import BlockFacts, BlockKey
from holdfast.storage.volumes.group_commit import Group, uninterruptible
from holdfast.storage.volumes.hash.bucket import Chain, HashChange, chain_of, empty_chain
from holdfast.storage.volumes.hash.files import OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.page import (
    BUCKET,
    HEAD_BYTES,
    BucketId,
    HashEntry,
    PageId,
    Salvaged,
    bucket_of,
    lines,
    salvaged_page,
)
from holdfast.storage.volumes.hash.reader import FoundBlock, HashReading, Overlay
from holdfast.storage.volumes.hash.state import HashState, Redone, page_change, redone
from holdfast.storage.volumes.idempotency import Sessions
from holdfast.storage.volumes.journal import JournaledVolume, Prepared, RedoJournal, Ticket
from holdfast.storage.volumes.local import Compaction, Progress, VolumeSpec

STRETCH_BYTES: Final = 4 << 20  # of buckets read at once


class Displacements:
    """The table of one stream. Guarded by the volume's `_streams_lock`."""

    def __init__(self) -> None:
        self.unread: set[PageId] = set()
        self._read: set[PageId] = set()
        self._forward: set[BlockKey] = set()  # read before they moved, or met since
        self._backward: dict[BlockKey, None] = {}  # not read yet

    def passes(self, page: PageId) -> None:
        """Moves the stream pointer past a page that was read."""
        self.unread.discard(page)
        self._read.add(page)

    def displaced(
        self, before: Mapping[BlockKey, PageId], after: Mapping[BlockKey, PageId], freed: Iterable[PageId]
    ) -> None:
        """Notes blocks that moved from the pages `before` to those `after`, and pages that were freed."""
        for key, page in before.items():
            if after.get(key) == page or key in self._forward:
                continue
            if key in self._backward:
                if key not in after:  # removed before it was read
                    del self._backward[key]
            elif page in self._read:
                self._forward.add(key)
            elif page in self.unread and key in after:
                self._backward[key] = None
        self.unread.difference_update(freed)

    def skips(self, key: BlockKey) -> bool:
        """True if a block found on a page was read before. Otherwise it counts as read now."""
        if key in self._forward:
            return True
        if key in self._backward:
            del self._backward[key]
            self._forward.add(key)
        return False

    def missed(self) -> list[BlockKey]:
        """At the end: the blocks that moved backward and were not met since."""
        return list(self._backward)


BUFFER_BYTES = 16 << 20  # buckets that the writer keeps in memory
LOAD_MAX = 0.75  # entries' share of the buckets' bytes beyond which the number of buckets doubles


class HashBlocks:
    """The blocks of a volume without the planned changes. Used with the volume's lock held."""

    def __init__(self, volume: HashVolume) -> None:
        self._volume = volume
        self._known: dict[bytes, list[BlockFacts]] = {}
        self._damaged: frozenset[BlockKey] | None = None

    def all_of(self, signature: bytes) -> Sequence[BlockFacts]:
        known = self._known.get(signature)
        if known is None:
            known = self._known[signature] = self._read(signature)
        return known

    def _read(self, signature: bytes) -> list[BlockFacts]:
        chain = self._volume.chain_with(signature)
        known = [each.facts for each in chain.entries() if each.key.signature == signature]
        if known and self._damaged is None:
            self._damaged = self._volume.damage.keys()
        if self._damaged:
            return [each._replace(damaged=each.key in self._damaged) for each in known]
        return known

    def find(self, key: BlockKey) -> BlockFacts | None:
        return next((each for each in self.all_of(key.signature) if each.key == key), None)

    def require_counter(self, key: BlockKey) -> None:
        """Always readable: a counter is part of its page, which was verified."""


class HashVolume(JournaledVolume, HashReading):
    """A hash volume open for writing."""

    journal_bytes_max = 32 << 20

    def __init__(self, spec: VolumeSpec) -> None:
        HashReading.__init__(self, spec)
        JournaledVolume.__init__(self, spec)
        self._chains_lock = threading.Lock()  # guards the bucket buffer, and what is in flight
        self._buffer: LruCache[BucketId, Chain] = LruCache(max(8, BUFFER_BYTES // spec.identity.shape))
        self._in_flight: HashChange | None = None  # in the journal, and not acknowledged
        self._streams_lock = threading.Lock()
        self._streams: set[Displacements] = set()
        self._images: Overlay = {}  # durable in the journal, being written in place
        self._outgrown: int | None = None  # generation of a bucket file to remove at the next checkpoint
        self._dictionaries.settle()
        known = redone(self._journal.open())
        self._durable = known.state  # never changed, only replaced
        self._position = known.state.serial
        self._serial = 0  # of the group that is flushed
        self._remembered = Sessions(known.tickets)
        self._recover(known)

    def _recover(self, known: Redone) -> None:
        """Finishes what a crash interrupted."""
        state = known.state
        present = {OVERFLOW_FILE, state.generation} | ({state.generation + 1} if state.is_growing else set())
        for file in set(self._files.generations()) - present:
            self._files.remove(file)
        names = self._env.files.names(self.directory)
        for name in (each for each in names if each.endswith(paths.UNFINISHED)):
            self._env.files.remove(self.directory / name)
        if known.images:
            self._files.allocate(OVERFLOW_FILE, state.overflow)
            for page, image in sorted(known.images.items()):
                if page.file in present and (page.file or page.number < state.overflow):
                    self._files.write(page, image)
            self._checkpoint(self._remembered.all_kept())

    def _overlay(self) -> tuple[Overlay, object]:
        return self._images, self._durable.serial

    def _first_file(self, signature: bytes) -> int:
        return self._durable.bucket(signature).file

    def _state(self) -> HashState:
        self.flush()
        return self._durable

    @property
    def shape(self) -> HashState:
        """The durable state. Not to be changed."""
        return self._durable

    # -- buckets ------------------------------------------------------------------------------------------------

    def _known_blocks(self) -> HashBlocks:
        return HashBlocks(self)

    def chain_with(self, signature: bytes) -> Chain:
        """The bucket of a signature, without the planned changes. Raises DamagedBlock."""
        with self._chains_lock:
            return self._chain(self._written().bucket(signature))

    def chain(self, bucket: BucketId) -> Chain:
        """A bucket, without the planned changes. Raises DamagedBlock."""
        with self._chains_lock:
            return self._chain(bucket)

    def _written(self) -> HashState:
        """The state as the journal has it."""
        return self._durable if self._in_flight is None else self._in_flight.state

    def _chain(self, bucket: BucketId) -> Chain:
        if self._in_flight is not None and bucket in self._in_flight.after:
            return self._in_flight.after[bucket]
        chain = self._buffer.get(bucket)
        if chain is None:
            chain = self._attempted(
                lambda _: self._read_chain(bucket), lambda damage: self._mended_chain(bucket, damage)
            )
            self._buffer.put(bucket, chain)
        return chain

    def _read_chain(self, bucket: BucketId) -> Chain:
        root = self._page(bucket.page, {})
        if (root.head.bucket, root.head.buckets) != bucket[1:]:
            raise self._unsound(root.id, 0, f"bucket {bucket.number} of {bucket.buckets}", f"{root.head[:4]}")
        return chain_of(
            bucket,
            [
                (part.id, part.head.generation, [self._entry(part, *line) for line in lines(part.raw, part.head)])
                for part in self._parts(root, {})
            ],
        )

    def _mended_chain(self, bucket: BucketId, damage: DamagedBlock) -> Chain:
        """A damaged bucket, if its wrong bytes can be corrected; else raises the damage.

        The next commit to it makes its pages sound again.
        """
        pages = []
        for part in self._salvaged_parts(bucket):
            if part.head is None or not part.is_whole or part.head[1:3] != bucket[1:]:
                raise damage
            pages.append((part.id, part.head.generation, [entry for _, entry in part.entries]))
        if not pages:
            raise damage
        return chain_of(bucket, pages)

    # -- flushing: Flusher --------------------------------------------------------------------------------------

    def _is_checkpoint_due(self) -> bool:
        return super()._is_checkpoint_due() or self._outgrown is not None

    def prepare(self) -> Prepared:
        self._position = max(self._position, self._durable.serial + 1)
        self._serial = self._position
        return super().prepare()

    def write(self, group: Group, prepared: Any) -> None:
        self._refuse_after_failure()
        change = HashChange(self.chain, self._durable, self._serial, self.identity)
        change.apply(prepared.changes)
        self._grow(change)
        self._write(change, prepared.tickets)
        if prepared.kept is not None:
            with self._must_succeed():
                self._checkpoint(prepared.kept)

    def _grow(self, change: HashChange) -> None:
        """Splits as many buckets as were changed, if they are too full. On failure the next commit tries again."""
        state, steps = change.state, len(change.after)
        with suppress(VolumeFull, DamagedBlock):
            if not state.is_growing and state.page_bytes > LOAD_MAX * state.buckets * self.identity.shape:
                self._files.create(state.generation + 1, 2 * state.buckets)
                state.split = 0
            for _ in range(steps):
                if state.is_growing:
                    change.split()

    def _write(self, change: HashChange, tickets: Sequence[Ticket]) -> None:
        """Makes a change durable in the journal, then writes its pages in place."""
        images = change.finish()
        self._files.allocate(OVERFLOW_FILE, change.state.overflow)
        try:
            self._journal.append(change.state.pack(), [page_change(*each) for each in images], tickets)
        except VolumeFull:
            with self._must_succeed():
                self._journal.cut_back()
            raise
        except BaseException as error:
            self._failure = error
            raise
        with self._chains_lock:
            self._in_flight = change
        self._images = {page: bytes(image) for page, image in images}
        with self._must_succeed(), self._streams_lock:
            for page, image in images:
                self._files.write(page, image)
            self._note_displaced(change)

    def settle(self, prepared: object) -> None:
        change = self._in_flight
        assert change is not None
        with self._chains_lock:
            for chain in change.after.values():
                if chain.pages:
                    self._buffer.put(chain.bucket, chain)
                else:  # it was split
                    self._buffer.pop(chain.bucket)
            self._durable, self._in_flight, self._images = change.state, None, {}
        self._outgrown = change.outgrown if change.outgrown is not None else self._outgrown
        self._read_again()

    def _checkpoint(self, tickets: Sequence[Ticket]) -> None:
        """Makes all pages durable in place and starts the journal again, if there is space for it."""
        self._files.sync()
        try:
            self._journal.renew(self._written().pack(), tickets)
        except VolumeFull:
            return
        if self._outgrown is not None:
            self._files.remove(self._outgrown)
            self._outgrown = None

    # -- streams ------------------------------------------------------------------------------------------------

    def _stretch(self, position: int) -> tuple[list[FoundBlock], int]:
        """Many buckets of one file at once."""
        self.flush()
        state = self._durable
        bucket = state.bucket(position.to_bytes(4, "big"))
        end = bucket.buckets if bucket.file == state.generation else 2 * state.split
        found, behind = self._sweep(bucket, end)
        return (found, behind) if behind > position else super()._stretch(position)

    def _note_displaced(self, change: HashChange) -> None:
        """Informs streams after pages were written. `_streams_lock` is held."""
        if not self._streams:
            return
        before, after = (
            {key: page for chain in chains.values() for key, page in chain.places().items()}
            for chains in (change.before, change.after)
        )
        freed = {page.id for chain in change.before.values() for page in chain.pages}
        freed -= {page.id for chain in change.after.values() for page in chain.pages}
        for stream in self._streams:
            stream.displaced(before, after, freed)

    def _sweep(self, first: BucketId, end: int) -> tuple[list[FoundBlock], int]:
        """The blocks of a stretch of buckets, and the position after them.

        No block, and the position of the first bucket, if that was split meanwhile or is damaged.
        """
        stream = Displacements()
        count = min(end - first.number, max(1, STRETCH_BYTES // self.identity.shape))
        with self._streams_lock:
            roots = self._roots(first, count)
            found = [each for root in roots for each in self._passed(root, stream)]
            for root in roots:
                assert root.head is not None
                stream.unread.update(PageId(OVERFLOW_FILE, number) for number, _ in root.head.chain)
            self._streams.add(stream)
        behind = first.number + len(roots)
        try:
            for part in self._overflows(stream):
                found += part
            with self._streams_lock:
                missed = stream.missed()
        finally:
            with self._streams_lock:
                self._streams.discard(stream)
        for key in missed:
            found += self._attempted(partial(self._found, key), lambda _: [])
        inside = [each for each in found if first.number <= bucket_of(each.key.signature, first.buckets) < behind]
        return sorted(inside, key=lambda each: each.key), first._replace(number=behind - 1).end

    def _roots(self, first: BucketId, count: int) -> list[Salvaged]:
        """The pages of the buckets, up to one that was split meanwhile or is damaged."""
        raw = self._files.read(first.page, count)
        size = self.identity.shape
        roots: list[Salvaged] = []
        for at in range(count):
            page = PageId(first.file, first.number + at)
            root = salvaged_page(page, raw[at * size : (at + 1) * size], self.identity.uid)
            if root.head is None or root.head.kind != BUCKET:
                break
            roots.append(root)
        return roots

    def _overflows(self, stream: Displacements) -> Iterator[list[FoundBlock]]:
        """The blocks of the overflow buckets of those read, page by page in file order."""
        while True:
            with self._streams_lock:
                page = min(stream.unread, default=None)
                if page is None:
                    return
                found = self._passed(salvaged_page(page, self._files.read(page), self.identity.uid), stream)
            yield found

    def _passed(self, part: Salvaged, stream: Displacements) -> list[FoundBlock]:
        """The blocks of a page that the stream has not read yet. `_streams_lock` is held since the page was read."""
        stream.passes(part.id)
        found = (FoundBlock(entry, part.id, offset) for offset, entry in part.entries)
        return [each for each in found if not stream.skips(each.key)]

    def _found(self, key: BlockKey, overlay: Overlay) -> list[FoundBlock]:
        return [each for each in self._having(key.signature, overlay) if each.key == key]

    # -- upkeep and closing -------------------------------------------------------------------------------------

    @uninterruptible
    def maintain(self, alter: Callable[[HashChange], object]) -> HashChange:
        """Moves blocks without changing them. Durable on return."""
        with self.commits.exclusive():
            self._refuse_after_failure()
            self._position = max(self._position, self._durable.serial) + 1
            change = HashChange(self.chain, self._durable, self._position, self.identity)
            alter(change)
            self._write(change, ())
            self.settle(None)
        return change

    def read_large(self, entry: HashEntry) -> bytes:
        """Header and data of a large block, verified. Raises DamagedBlock."""
        assert entry.large is not None
        page, length = PageId(OVERFLOW_FILE, entry.large.page), HEADER_BYTES + entry.large.stored
        self._attempted(lambda overlay: self._block(FoundBlock(entry, page, 0), overlay))
        return self._run(page, length, self._overlay()[0])

    def rebuild(self, bucket: BucketId, entries: Sequence[HashEntry], pages: Iterable[int]) -> None:
        """Gives a damaged bucket these entries, which are counted already, and frees these pages. Durable on return."""

        def alter(change: HashChange) -> None:
            change.refill(empty_chain(bucket), entries)
            change.freed.update(pages)

        self.maintain(alter)

    @uninterruptible
    def tidy(self) -> None:
        """Removes from the disk pages after the last one in use, the bytes of free pages, and old images."""
        with self.commits.exclusive():
            self._refuse_after_failure()
            self._files.cut(OVERFLOW_FILE, self._durable.overflow)
            for number in self._durable.free:
                self._files.write(PageId(OVERFLOW_FILE, number), b"")
            self._drop_applied()

    def close(self) -> None:
        JournaledVolume.close(self)
        self._files.close()


def create_hash(spec: VolumeSpec, buckets: int) -> None:
    """Creates the files of an empty volume. Durable on return."""
    identity = spec.identity
    files = HashFiles(spec.env, spec.directory, identity)
    empty = (empty_chain(BucketId(1, number, buckets)) for number in range(buckets))
    files.create(OVERFLOW_FILE, 0)
    files.create(1, buckets, {chain.bucket.number: chain.pack(0, identity.uid) for chain in empty})
    files.close()
    journal = RedoJournal(spec.env, spec.directory, identity)
    journal.renew(HashState(buckets=buckets).pack(), ())
    journal.close()


TOGETHER = 32  # buckets in one commit


def compact_hash(volume: HashVolume, dead_share_min: float = 0.0, progress: Progress | None = None) -> Compaction:
    """Completes a doubling of the buckets; then, if enough of the overflow file is free, packs it."""
    before = volume.stat()
    files = 0
    while volume.shape.is_growing:
        volume.maintain(_split_some)
        if progress is not None:
            progress(TOGETHER * volume.identity.shape)
    if before.dead_bytes >= dead_share_min * before.disk_bytes:
        shape = volume.shape
        for first in range(0, shape.buckets, TOGETHER):
            numbers = range(first, min(first + TOGETHER, shape.buckets))
            buckets = [BucketId(shape.generation, number, shape.buckets) for number in numbers]
            if progress is not None:
                progress(len(buckets) * volume.identity.shape)
            if volume.shape.generation != shape.generation or volume.shape.is_growing:
                break  # the buckets are doubling: left to the next compaction
            files += len(volume.maintain(partial(_pack, volume, buckets)).after)
    volume.maintain(lambda change: change.state.shrink())
    volume.tidy()
    return Compaction(files, before.disk_bytes, volume.stat().disk_bytes)


def _split_some(change: HashChange) -> None:
    for _ in range(TOGETHER):
        if change.state.is_growing:
            change.split()


def _pack(volume: HashVolume, buckets: Iterable[BucketId], change: HashChange) -> None:
    for bucket in buckets:
        if change.state.generation != bucket.file or change.state.is_growing:
            return
        chain = change.chain(bucket)
        entries = [_moved(volume, change, entry) for entry in chain.entries()]
        any_moved = any(new is not old for new, old in zip(entries, chain.entries(), strict=True))
        if any_moved or _can_shrink(change.state, chain, volume.identity.shape):
            change.refill(chain, entries)


def _can_shrink(state: HashState, chain: Chain, page_bytes: int) -> bool:
    """True if fewer overflow pages may do, or some nearer the front."""
    if len(chain.pages) == 1:
        return False
    room = page_bytes - HEAD_BYTES
    least = -(-sum(entry.cost for entry in chain.entries()) // room) - 1
    free = state.first_fit(1)
    return len(chain.pages) - 1 > least or (free is not None and free < max(page.id.number for page in chain.pages[1:]))


def _moved(volume: HashVolume, change: HashChange, entry: HashEntry) -> HashEntry:
    """Moves a large block nearer the front, if there is room."""
    large = entry.large
    if large is None:
        return entry
    free = change.state.first_fit(large.pages)
    if free is None or free > large.page:
        return entry
    raw = volume.read_large(entry)
    header = block.parse(raw[:HEADER_BYTES])
    assert header is not None
    header = header._replace(references=entry.header.references)
    change.freed.update(large.run)
    return change.large(header, block.pack(header) + raw[HEADER_BYTES:])
