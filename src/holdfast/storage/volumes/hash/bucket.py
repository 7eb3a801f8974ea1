"""A bucket in memory, as a chain of pages, and changes to it.

Chains are immutable: an edit makes a new one, so a failure leaves the old one intact. A `HashChange` has the chains and
the state as one group of commits will leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from holdfast.env.files import Buffer
from holdfast.errors import VolumeFull
from holdfast.storage import block
from holdfast.storage.block import COUNT
from holdfast.storage.identity import Identity
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.hash.page import (
    BUCKET,
    CHAIN_BYTES,
    CHAINED,
    CHAINED_MAX,
    HEAD_BYTES,
    LINE_BYTES,
    MOVED,
    BucketId,
    HashEntry,
    Head,
    PageId,
    large_entry,
    pack_page,
)
from holdfast.storage.volumes.hash.state import NOT_GROWING, HashState
from holdfast.storage.volumes.operations import Change


class ChainPage(NamedTuple):
    """A page and its entries, in ascending order."""

    id: PageId
    generation: int
    entries: tuple[HashEntry, ...]


class Chain(NamedTuple):
    """A bucket and its overflow buckets; part 0 comes first. Without pages, the bucket has been split."""

    bucket: BucketId
    pages: tuple[ChainPage, ...]
    generation: int = 0  # of a bucket that was split

    def entries(self) -> Iterator[HashEntry]:
        """In no particular order."""
        return (entry for page in self.pages for entry in page.entries)

    def places(self) -> dict[BlockKey, PageId]:
        """The page of each block."""
        return {entry.key: page.id for page in self.pages for entry in page.entries}

    def find(self, key: BlockKey) -> HashEntry | None:
        return next((entry for entry in self.entries() if entry.key == key), None)

    def pack(self, part: int, uid: bytes) -> bytes:
        """The bytes of one of its pages."""
        _, number, buckets = self.bucket
        if not self.pages:
            return pack_page(uid, Head(MOVED, number, buckets, 0, number, self.generation, (), 0), ())
        page = self.pages[part]
        chain = tuple((each.id.number, each.generation) for each in self.pages[1:]) if part == 0 else ()
        kind = CHAINED if part else BUCKET
        head = Head(kind, number, buckets, part, page.id.number, page.generation, chain, len(page.entries))
        return pack_page(uid, head, page.entries)


def empty_chain(bucket: BucketId) -> Chain:
    return Chain(bucket, (ChainPage(bucket.page, 0, ()),))


def chained_max(page_bytes: int) -> int:
    """Overflow buckets that one bucket may have: part 0 has a line for each."""
    return min(CHAINED_MAX, (page_bytes - HEAD_BYTES) // CHAIN_BYTES - 1)


class ChainEdit:
    """Changes to one chain. `allocate` returns the number of a free page of the overflow file."""

    def __init__(self, chain: Chain, page_bytes: int, allocate: Callable[[], int]) -> None:
        self._chain = chain
        self._page_bytes = page_bytes
        self._allocate = allocate
        self._ids = [page.id for page in chain.pages]
        self._pages = [{entry.key: entry for entry in page.entries} for page in chain.pages]
        self._used = [sum(entry.cost for entry in page.entries) for page in chain.pages]
        self._where = {key: at for at, page in enumerate(self._pages) for key in page}
        self._touched: set[int] = set()
        self._removed = False

    def find(self, key: BlockKey) -> HashEntry | None:
        at = self._where.get(key)
        return None if at is None else self._pages[at][key]

    def put(self, entry: HashEntry) -> None:
        """Replaces the block with this key, or adds it to the first page with room."""
        if entry.key in self._where:
            at = self._where[entry.key]
            old = self._pages[at][entry.key]
            if self._room(at) >= entry.cost - old.cost:
                self._set(at, entry)
                return
            self.remove(entry.key)
        at = next((at for at in range(len(self._ids)) if self._room(at) >= entry.cost), len(self._ids))
        if at == len(self._ids):
            self._chain_one_more()
            self.put(entry)  # blocks that made room for the new line may have filled the new page
        else:
            self._set(at, entry)

    def remove(self, key: BlockKey) -> None:
        at = self._where.pop(key)
        self._used[at] -= self._pages[at].pop(key).cost
        self._touched.add(at)
        self._removed = True

    def _set(self, at: int, entry: HashEntry) -> None:
        old = self._pages[at].get(entry.key)
        self._used[at] += entry.cost - (old.cost if old is not None else 0)
        self._pages[at][entry.key] = entry
        self._where[entry.key] = at
        self._touched.add(at)

    def _room(self, at: int) -> int:
        lines = CHAIN_BYTES * (len(self._ids) - 1) if at == 0 else 0
        return self._page_bytes - HEAD_BYTES - lines - self._used[at]

    def _chain_one_more(self) -> None:
        """Adds a page. Part 0 needs room for its line: if necessary, blocks move from there to the new page."""
        if len(self._ids) > (most := chained_max(self._page_bytes)):
            raise VolumeFull(f"bucket {self._chain.bucket.number} has {most} overflow buckets, the maximum")
        self._ids.append(PageId(0, self._allocate()))
        self._pages.append({})
        self._used.append(0)
        self._touched.add(len(self._ids) - 1)
        while self._room(0) < 0:
            last = max(self._pages[0])
            entry = self._pages[0][last]
            self.remove(last)
            self.put(entry)

    def finish(self, generation: int) -> tuple[Chain, list[PageId], list[int]]:
        """The new chain, the pages to write, and the overflow pages that are free now."""
        freed = []
        while self._removed and len(self._ids) > 1 and self._empty_last():
            freed.append(self._ids.pop().number)
            self._pages.pop()
            self._used.pop()
        self._touched = {at for at in self._touched if at < len(self._ids)} | {0}
        pages = tuple(
            ChainPage(self._ids[at], generation, tuple(sorted(page.values())))
            if at in self._touched
            else self._chain.pages[at]
            for at, page in enumerate(self._pages)
        )
        return Chain(self._chain.bucket, pages), [self._ids[at] for at in sorted(self._touched)], freed

    def _empty_last(self) -> bool:
        """Moves the blocks of the last page to the others; False if there is no room."""
        last = len(self._ids) - 1
        room = [self._room(at) for at in range(last)]
        room[0] += CHAIN_BYTES
        moves: list[tuple[int, HashEntry]] = []
        for entry in sorted(self._pages[last].values(), key=lambda each: -each.cost):
            at = next((at for at in range(last) if room[at] >= entry.cost), None)
            if at is None:
                return False
            room[at] -= entry.cost
            moves.append((at, entry))
        for at, entry in moves:
            self.remove(entry.key)
            self._set(at, entry)
        return True


class HashChange:
    """The buckets, pages and state as one group of commits will leave them. For one thread.

    `chains` returns a bucket as it is. Pages that the change frees are not taken again before the next one.
    """

    def __init__(self, chains: Callable[[BucketId], Chain], state: HashState, serial: int, identity: Identity) -> None:
        self.state = state.copy()
        self.state.serial = serial
        self.before: dict[BucketId, Chain] = {}
        self.after: dict[BucketId, Chain] = {}
        self.freed: set[int] = set()
        self.outgrown: int | None = None  # generation of a bucket file that is no longer needed
        self._chains = chains
        self._identity = identity
        self._dirty: set[PageId] = set()  # pages of chains to write
        self._runs: dict[PageId, Buffer] = {}  # pages of large blocks

    def chain(self, bucket: BucketId) -> Chain:
        """The bucket after the change so far. Raises DamagedBlock."""
        return self.after.get(bucket) or self._chains(bucket)

    def finish(self) -> list[tuple[PageId, Buffer]]:
        """Completes the state; returns every page to write, in file order."""
        self.state.free = sorted(self.freed.union(self.state.free))
        images: dict[PageId, Buffer] = dict(self._runs)
        for bucket, chain in self.after.items():
            if not chain.pages:
                images[bucket.page] = chain.pack(0, self._identity.uid)
            for part, page in enumerate(chain.pages):
                if page.id in self._dirty:
                    images[page.id] = chain.pack(part, self._identity.uid)
        return sorted(images.items(), key=lambda each: each[0])

    # -- blocks -------------------------------------------------------------------------------------------------

    def apply(self, changes: Iterable[Change]) -> None:
        """Applies the changes bucket by bucket: each page is written once."""
        edits: dict[BucketId, ChainEdit] = {}
        for change in changes:
            bucket = self.state.bucket(change.key.signature)
            if bucket not in edits:
                edits[bucket] = self._edit(self.chain(bucket))
            self._change(edits[bucket], change)
        for bucket in sorted(edits):
            self._finish(self.chain(bucket), edits[bucket])

    def _change(self, edit: ChainEdit, change: Change) -> None:
        old = edit.find(change.key)
        if change.kind == COUNT:
            assert old is not None, "only a stored block is counted"
            new = old.counted(change.references) if change.references else None
        else:
            new = self._entry(change)
        if old is not None:
            self.state.count(old, -1)
            if old.large is not None and (new is None or new.large != old.large):
                self.freed.update(old.large.run)
        if new is not None:
            self.state.count(new, +1)
            edit.put(new)
        else:
            edit.remove(change.key)

    def _entry(self, change: Change) -> HashEntry:
        serial, data = self.state.serial, change.encoded.data
        header = change.header(self._identity, serial, serial - 1)
        if HEAD_BYTES + LINE_BYTES + header.length <= self._identity.shape:  # it fits into a page
            return HashEntry(change.key, header, block.pack(header) + bytes(data))
        return self.large(header, block.pack(header) + bytes(data))

    def large(self, header: block.Header, raw: Buffer) -> HashEntry:
        """Takes a run of pages for a block; returns the `large` entry for its bucket."""
        size = self._identity.shape
        pages = -(-len(raw) // size)
        first = self.state.take(pages)
        view = memoryview(raw)
        for at in range(pages):
            self._runs[PageId(0, first + at)] = view[at * size : (at + 1) * size]
        return large_entry(header, first, pages)

    # -- buckets ------------------------------------------------------------------------------------------------

    def refill(self, chain: Chain, entries: Iterable[HashEntry]) -> None:
        """Gives the bucket exactly these entries, on as few pages as possible and as near the front as possible."""
        self.freed.update(page.id.number for page in chain.pages[1:])
        edit = self._edit(empty_chain(chain.bucket))
        for entry in sorted(entries):
            edit.put(entry)
        self._finish(chain, edit)

    def split(self) -> None:
        """Splits the next bucket into two of the next generation. Changes nothing if it raises."""
        state = self.state
        old = BucketId(state.generation, state.split, state.buckets)
        chain, buckets = self.chain(old), 2 * state.buckets
        if 2 * len(chain.pages) > chained_max(self._identity.shape):  # a half may need as many pages, and more
            raise VolumeFull(f"bucket {old.number} has {len(chain.pages) - 1} overflow buckets, too many to split it")
        self.freed.update(page.id.number for page in chain.pages[1:])
        for number in (2 * old.number, 2 * old.number + 1):
            half = BucketId(state.generation + 1, number, buckets)
            self.refill(empty_chain(half), (entry for entry in chain.entries() if half.owns(entry.key.signature)))
        self._replace(chain, Chain(old, (), state.serial))
        state.split += 1
        if state.split == state.buckets:
            self.outgrown = state.generation
            state.generation, state.buckets, state.split = state.generation + 1, buckets, NOT_GROWING

    def _edit(self, chain: Chain) -> ChainEdit:
        return ChainEdit(chain, self._identity.shape, self.state.take)

    def _finish(self, before: Chain, edit: ChainEdit) -> None:
        chain, dirty, freed = edit.finish(self.state.serial)
        self.freed.update(freed)
        self._dirty.update(dirty)
        self._replace(before, chain)

    def _replace(self, before: Chain, after: Chain) -> None:
        self.before.setdefault(before.bucket, before)
        self.after[after.bucket] = after


def chain_of(bucket: BucketId, parts: Iterable[tuple[PageId, int, Iterable[HashEntry]]]) -> Chain:
    """A chain as it was read: pages, their generations and their entries."""
    return Chain(bucket, tuple(ChainPage(page, generation, tuple(entries)) for page, generation, entries in parts))
