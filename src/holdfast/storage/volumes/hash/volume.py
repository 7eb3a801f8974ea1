"""The `hash` organization: buckets of signatures, read and searched without an index (B7, WebBase section 3.2.1).

Buckets of successive ranges of signatures lie side by side in one file, blocks in a bucket are sorted, and what does
not fit goes into overflow buckets of another file. A commit decides under the volume's lock what becomes of its
buckets; the thread that leads the flush makes the new images of all pages durable in the journal (`hash.journal`), and
then writes each page once, in the order of their places. So bytes in place are never overwritten before there is
another durable copy, and many additions share one sweep over the disk. Pages that were changed or read lately stay in
the *bucket buffer*.

When buckets get full, their number is doubled: every commit splits as many buckets as it has changed, from the first to
the last, into a file of twice as many, until the old file is of no more use.

Threads: any thread may call any method. The lock of the group commit guards state, space and the gathering batch; the
thread that leads a flush owns journal and files; `_streams_lock` is held while pages are written, or read by a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from holdfast.env import paths
from holdfast.env.files import Buffer
from holdfast.env.lru import LruCache
from holdfast.errors import DamagedBlock, HoldfastError, VolumeFull
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.volume import BlockFacts, BlockKey, IdempotencyKey, Operation, OperationResult
from holdfast.storage.volumes.group_commit import Group, GroupCommitted
from holdfast.storage.volumes.hash.chain import BucketId, Chain, empty_chain
from holdfast.storage.volumes.hash.draft import ChangeDraft, GroupChange, chain_of
from holdfast.storage.volumes.hash.files import OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.journal import REDO_BYTES_MAX, RedoJournal, Redone
from holdfast.storage.volumes.hash.page import BUCKET, CHAINED, HashEntry, PageId, lines
from holdfast.storage.volumes.hash.reader import FoundBlock, HashReading, Overlay
from holdfast.storage.volumes.hash.salvage import Salvage, mended_page
from holdfast.storage.volumes.hash.state import HashState, Space
from holdfast.storage.volumes.hash.streams import HashStreaming
from holdfast.storage.volumes.idempotency import Kept, Past, Sessions, key_name, pack_past
from holdfast.storage.volumes.operations import PlannedBlocks
from holdfast.storage.volumes.spec import VolumeSpec

LOAD_MAX = 0.75  # share of all buckets' bytes that entries take, beyond which there will be twice as many


class HashBlocks:
    """The blocks of a volume as its buckets hold them, for one commit. To be used with the volume's lock held."""

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
        bucket = self._volume.chain(self._volume.bucket(signature))
        known = [each.facts for each in bucket.entries() if each.key.signature == signature]
        if known and self._damaged is None:
            self._damaged = self._volume.damage.keys()
        if self._damaged:
            return [each._replace(damaged=each.key in self._damaged) for each in known]
        return known

    def find(self, key: BlockKey) -> BlockFacts | None:
        return next((each for each in self.all_of(key.signature) if each.key == key), None)

    def require_counter(self, key: BlockKey) -> None:
        """A counter is part of its page, which was verified."""


class HashVolume(GroupCommitted, HashStreaming):
    """A hash volume open for writing."""

    def __init__(self, spec: VolumeSpec) -> None:
        GroupCommitted.__init__(self, spec.name, self)
        HashReading.__init__(self, spec.name, spec.directory, spec.identity, spec.env)
        buckets_max = max(8, spec.settings.bucket_buffer_bytes // spec.identity.shape)
        self._buffer: LruCache[BucketId, Chain] = LruCache(buckets_max)
        self._begin_streaming()
        self._applying: Overlay = {}  # durable in the journal, and being written to their places
        self._in_flight: GroupChange | None = None
        self._batch = GroupChange()
        self._dictionaries.settle()
        self._redo = RedoJournal(spec.env, spec.directory, spec.identity)
        redone = self._redo.open()
        self._current, self._space = redone.state, Space(redone.state.overflow, redone.free)
        self._durable, self._durable_space = redone.state.copy(), self._space.copy()
        self._remembered = Sessions(redone.tickets)
        self._recover(redone)

    def _recover(self, redone: Redone) -> None:
        """Whatever a crash interrupted is done to its end."""
        state = redone.state
        present = {OVERFLOW_FILE, state.generation} | ({state.generation + 1} if state.is_growing else set())
        for file in set(self._files.generations()) - present:
            self._files.remove(file)
        names = self._env.files.names(self.directory)
        for name in (each for each in names if each.endswith(paths.UNFINISHED)):
            self._env.files.remove(self.directory / name)
        if redone.images:
            self._files.allocate(OVERFLOW_FILE, state.overflow)
            for page, image in sorted(redone.images.items()):
                if page.file in present and (page.file or page.number < state.overflow):
                    self._files.write(page, image)
            self._checkpoint(self._remembered.all_kept())

    def position(self) -> int:
        return self._current.serial

    def _overlay(self) -> tuple[Overlay, object]:
        return self._applying, self._durable.serial

    def _first_file(self, signature: bytes) -> int:
        return self._durable.bucket(signature).file

    def _state(self) -> tuple[HashState, int]:
        self.flush()
        with self.commits.lock:
            return self._durable.copy(), len(self._durable_space.free)

    # -- buckets, under the lock -----------------------------------------------------------------------------------

    def bucket(self, signature: bytes) -> BucketId:
        """The bucket of a signature, as the next commit will find it."""
        return self._current.bucket(signature)

    def chain(self, bucket: BucketId) -> Chain:
        """The bucket as the next commit will find it. Raises DamagedBlock."""
        for batch in (self._batch, self._in_flight):
            if batch is not None and bucket in batch.after:
                return batch.after[bucket]
        chain = self._buffer.get(bucket)
        if chain is None:
            chain = self._attempted(
                lambda _: self._read_chain(bucket), lambda damage: self._mended_chain(bucket, damage)
            )
            self._keep(chain)
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
        """A damaged bucket as it was, if its checksums tell what the wrong bytes were; else raises the damage.

        The pages that the next commit writes are sound on the disk again.
        """
        salvage, uid = Salvage(self._files, set()), self.identity.uid
        root = mended_page(salvage.page(bucket.page), uid)
        if root is None or (root.head.kind, *root.head[1:3]) != (BUCKET, *bucket[1:]):
            raise damage
        pages = [root]
        for at, (number, generation) in enumerate(root.head.chain, 1):
            page = mended_page(salvage.page(PageId(OVERFLOW_FILE, number)), uid)
            wanted = (CHAINED, *bucket[1:], at)
            if page is None or (page.head.kind, *page.head[1:4], page.head.generation) != (*wanted, generation):
                raise damage
            pages.append(page)
        return chain_of(bucket, [(each.id, each.head.generation, each.entries) for each in pages])

    def _keep(self, chain: Chain) -> None:
        """In the bucket buffer."""
        if chain.pages:
            self._buffer.put(chain.bucket, chain)
        else:
            self._buffer.pop(chain.bucket)

    # -- operations, under the lock -----------------------------------------------------------------------------

    @property
    def _sessions(self) -> Sessions:
        return self._remembered

    def _perform(self, operations: Sequence[Operation]) -> list[OperationResult]:
        outcomes, changes = PlannedBlocks(HashBlocks(self)).decide(operations)
        if changes:
            changed = self.draft(lambda draft: draft.apply(changes))
            self._grow(len(changed.after))
        return outcomes

    def _perform_once(
        self, operations: Sequence[Operation], idempotency_key: IdempotencyKey, *, void: bool = False
    ) -> list[OperationResult]:
        name, serial = key_name(idempotency_key), self._current.serial
        outcomes = self._perform(operations)
        if self._current.serial == serial and not void:  # nothing has changed: nothing to be remembered
            return outcomes
        data = pack_past(Past(self._remembered.settled(idempotency_key), void, outcomes))
        kept = Kept(self._redo.next_serial, data)
        self._remembered.apply(name, kept)
        self._remembered.take()  # what is forgotten leaves the journal at the next checkpoint
        self._batch.tickets.append((name, kept))
        self._gather()
        return outcomes

    def draft(self, change: Callable[[ChangeDraft], object]) -> ChangeDraft:
        """Under the lock: what `change` does becomes part of the gathering group; if it raises, nothing does."""
        draft = ChangeDraft(self.chain, self._current, self._space, self.identity)
        change(draft)
        draft.state.overflow = draft.space.size
        self._current, self._space = draft.state, draft.space
        self._batch.absorb(draft)
        self._gather()
        return draft

    def _gather(self) -> None:
        """The gathering group has something to become durable."""
        if not self.commits.current.parts:
            self.commits.current.parts.append((0, []))

    def _grow(self, steps: int) -> None:
        """Splits some buckets, if there are too few of them. What fails is left for the next time."""
        state = self._current
        with suppress(VolumeFull, DamagedBlock):
            if not state.is_growing and state.page_bytes > LOAD_MAX * state.buckets * self.identity.shape:
                self._files.create(state.generation + 1, 2 * state.buckets)
                state.split = 0
            for _ in range(steps):
                if self._current.is_growing:
                    self.draft(ChangeDraft.split)

    def add_dictionary(self, number: int, data: bytes) -> None:
        self._refuse_after_failure()
        self._dictionaries.add(number, data)

    # -- flushing: Flusher --------------------------------------------------------------------------------------

    def prepare(self) -> object:
        batch, self._batch = self._batch, GroupChange()
        batch.state, batch.space = self._current.copy(), self._space.copy()
        if self._redo.end > REDO_BYTES_MAX or batch.outgrown is not None:
            batch.kept = self._remembered.all_kept()
        self._in_flight = batch
        return batch

    def write(self, group: Group, prepared: object) -> None:
        assert isinstance(prepared, GroupChange)
        images = prepared.images(self.identity.uid)
        self._files.allocate(OVERFLOW_FILE, prepared.space.size)
        self._redo.append(prepared.state.pack(prepared.space.free), images, prepared.tickets)
        try:
            self._write_pages(prepared, images)
            if prepared.kept is not None:
                self._checkpoint(prepared.kept, prepared)
        except BaseException as error:
            self._failure = error  # the next opening will do it
            raise

    def _write_pages(self, batch: GroupChange, images: Sequence[tuple[PageId, Buffer]]) -> None:
        self._applying = {page: bytes(image) for page, image in images}
        with self._streams_lock:
            for page, image in images:
                self._files.write(page, image)
            self._note_displaced(batch.before.values(), batch.after.values())

    def _checkpoint(self, tickets: Sequence[tuple[bytes, Kept]], batch: GroupChange | None = None) -> None:
        """All pages are durable in their places: the journal starts again. Without space for that, it goes on."""
        self._files.sync()
        state, space = (batch.state, batch.space) if batch is not None else (self._durable, self._durable_space)
        try:
            self._redo.renew(state.pack(space.free), tickets)
        except VolumeFull:
            return
        if batch is not None and batch.outgrown is not None:
            self._files.remove(batch.outgrown)

    def settle(self, prepared: object) -> None:
        assert isinstance(prepared, GroupChange)
        self._space.settle(prepared.freed)
        prepared.space.settle(prepared.freed)
        self._durable, self._durable_space = prepared.state, prepared.space
        self._in_flight, self._applying = None, {}
        for chain in prepared.after.values():
            self._keep(chain)

    def abort(self, error: BaseException) -> None:
        """Out of space: back to the last durable state, and open for smaller things. Anything else: no more writes."""
        self._batch, self._in_flight = GroupChange(), None
        self._buffer.clear()
        self._current, self._space = self._durable.copy(), self._durable_space.copy()
        if not isinstance(error, VolumeFull):
            self._failure = error
        if not isinstance(error, HoldfastError):
            return
        try:
            self._redo.cut_back()
            self._remembered = Sessions(self._redo.read().tickets)
            if isinstance(error, VolumeFull) and self._failure is None:
                self._checkpoint(self._remembered.all_kept())  # the journal may be what fills the disk
        except Exception as failure:  # whatever it is, the journal can no longer be trusted
            self._failure = failure

    # -- streams ------------------------------------------------------------------------------------------------

    def _stretch(self, position: int) -> tuple[list[FoundBlock], int]:
        """Many buckets in one stroke, up to where others are in another file."""
        self.flush()
        with self.commits.lock:
            state = self._durable
            bucket = state.bucket(position.to_bytes(4, "big"))
            end = bucket.buckets if bucket.file == state.generation else 2 * state.split
        found, behind = self._sweep(bucket, end)
        return (found, behind) if behind > position else super()._stretch(position)

    # -- upkeep and closing -------------------------------------------------------------------------------------

    def maintain(self, change: Callable[[ChangeDraft], object]) -> ChangeDraft:
        """A change of places, not of blocks; durable on return."""
        return self.shield.run(lambda: self._maintain(change))

    def _maintain(self, change: Callable[[ChangeDraft], object]) -> ChangeDraft:
        with self.commits.lock:
            self._refuse_after_failure()
            draft = self.draft(change)
            group = self.commits.current
        self.commits.wait(group)
        return draft

    @property
    def shape(self) -> HashState:
        """How many buckets there are, as the next commit will find them."""
        with self.commits.lock:
            return self._current.copy()

    def read_large(self, entry: HashEntry) -> bytes:
        """Header and data of a large block, verified. Raises DamagedBlock."""
        assert entry.large is not None
        page, length = PageId(OVERFLOW_FILE, entry.large.page), HEADER_BYTES + entry.large.stored
        self._attempted(lambda overlay: self._block(FoundBlock(entry, page, 0), overlay))
        return self._run(page, length, self._overlay()[0])

    def rebuild(self, bucket: BucketId, entries: Sequence[HashEntry], pages: Iterable[int]) -> None:
        """A damaged bucket has these entries, which have been counted, and no longer these pages; durable on return."""
        with self.commits.lock:
            self._buffer.put(bucket, empty_chain(bucket))

        def replace(draft: ChangeDraft) -> None:
            draft.replace(bucket, entries)
            draft.free(pages)

        self.maintain(replace)

    def tidy(self) -> None:
        """What nobody needs leaves the disk: pages behind the last one in use, bytes of free ones, old images."""
        self.shield.run(self._tidy)

    def _tidy(self) -> None:
        with self.commits.exclusive():
            self._refuse_after_failure()
            space = self._durable_space
            self._files.cut(OVERFLOW_FILE, space.size)
            for number in space.available:
                self._files.write(PageId(OVERFLOW_FILE, number), b"")
            gathering = {name for name, _ in self._batch.tickets}
            self._checkpoint([each for each in self._remembered.all_kept() if each[0] not in gathering])

    def close(self) -> None:
        """Everything acknowledged is safe with or without this; it makes the next opening fast."""
        self.shield.close()
        if self._failure is None:
            self.commits.flush()
            self._checkpoint(self._remembered.all_kept())
        self._redo.close()
        self._files.close()


def open_hash(spec: VolumeSpec) -> HashVolume:
    """Opens for writing."""
    return HashVolume(spec)


def create_hash(spec: VolumeSpec, buckets: int) -> None:
    """Makes the files of an empty volume, durably."""
    identity = spec.identity
    files = HashFiles(spec.env, spec.directory, identity)
    empty = (empty_chain(BucketId(1, number, buckets)) for number in range(buckets))
    files.create(OVERFLOW_FILE, 0)
    files.create(1, buckets, {chain.bucket.number: chain.pack(0, identity.uid) for chain in empty})
    files.close()
    redo = RedoJournal(spec.env, spec.directory, identity)
    redo.renew(HashState(buckets=buckets).pack(()), ())
    redo.close()
