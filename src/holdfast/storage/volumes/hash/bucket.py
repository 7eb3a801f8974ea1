"""A bucket in memory, as a chain of pages, and changes to it.

Chains are immutable: an edit makes a new one, so a failure leaves the old one intact. A `ChangeDraft` has chains, state
and space as one commit will leave them. A `GroupChange` collects the drafts of a group of commits until it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
from holdfast.storage.volumes.hash.state import NOT_GROWING, HashState, Space
from holdfast.storage.volumes.journal import Ticket
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
        most = min(CHAINED_MAX, (self._page_bytes - HEAD_BYTES) // CHAIN_BYTES - 1)
        if len(self._ids) > most:
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


@dataclass(slots=True)
class GroupChange:
    """What one group of commits changes."""

    before: dict[BucketId, Chain] = field(default_factory=dict)
    after: dict[BucketId, Chain] = field(default_factory=dict)
    dirty: set[PageId] = field(default_factory=set)  # pages of chains to write
    runs: dict[PageId, Buffer] = field(default_factory=dict)  # pages of large blocks
    tickets: list[Ticket] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    outgrown: int | None = None  # generation of a bucket file that is no longer needed
    state: HashState = field(default_factory=HashState)  # after the group, with `space`
    space: Space = field(default_factory=lambda: Space(0, ()))
    kept: list[Ticket] | None = None  # all tickets, if a checkpoint follows

    def absorb(self, draft: GroupChange) -> None:
        for bucket, chain in draft.before.items():
            self.before.setdefault(bucket, chain)
        self.after |= draft.after
        self.dirty |= draft.dirty
        self.runs |= draft.runs
        self.freed += draft.freed
        if draft.outgrown is not None:
            self.outgrown = draft.outgrown

    def images(self, uid: bytes) -> list[tuple[PageId, Buffer]]:
        """Every page to write, in file order."""
        images: dict[PageId, Buffer] = dict(self.runs)
        for bucket, chain in self.after.items():
            if not chain.pages:
                images[bucket.page] = chain.pack(0, uid)
            for part, page in enumerate(chain.pages):
                if page.id in self.dirty:
                    images[page.id] = chain.pack(part, uid)
        return sorted(images.items(), key=lambda each: each[0])


class ChangeDraft(GroupChange):
    """The change of one commit. `chains` returns a bucket as it is. Guarded by the volume's lock."""

    def __init__(self, chains: Callable[[BucketId], Chain], state: HashState, space: Space, identity: Identity) -> None:
        super().__init__(state=state.copy(), space=space.copy())
        self.state.serial += 1
        self._chains = chains
        self._identity = identity

    # -- blocks -------------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change]) -> None:
        """Applies the changes bucket by bucket: each page is written once."""
        edits: dict[BucketId, ChainEdit] = {}
        for change in changes:
            bucket = self.state.bucket(change.key.signature)
            if bucket not in edits:
                edits[bucket] = self._edit(self._chains(bucket))
            self._change(edits[bucket], change)
        for bucket in sorted(edits):
            self._finish(self._chains(bucket), edits[bucket])

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
                self.free(old.large.run)
        if new is not None:
            self.state.count(new, +1)
            edit.put(new)
        else:
            edit.remove(change.key)

    def _entry(self, change: Change) -> HashEntry:
        serial, data = self.state.serial, change.encoded.data
        header = change.header(self._identity, serial, serial - 1)
        if self.fits(header.length):
            return HashEntry(change.key, header, block.pack(header) + bytes(data))
        return self.large(header, block.pack(header) + bytes(data))

    def fits(self, length: int) -> bool:
        """True if a block of this length, including its header, fits into a page."""
        return HEAD_BYTES + LINE_BYTES + length <= self._identity.shape

    def large(self, header: block.Header, raw: Buffer) -> HashEntry:
        """Takes a run of pages for a block; returns the `large` entry for its bucket."""
        size = self._identity.shape
        pages = -(-len(raw) // size)
        first = self.space.take(pages)
        view = memoryview(raw)
        for at in range(pages):
            self.runs[PageId(0, first + at)] = view[at * size : (at + 1) * size]
        return large_entry(header, first, pages)

    # -- buckets ------------------------------------------------------------------------------------------------

    def replace(self, bucket: BucketId, entries: Iterable[HashEntry]) -> None:
        """Gives the bucket exactly these entries, on as few pages as possible and as near the front as possible."""
        old = self._chains(bucket)
        self.free(page.id.number for page in old.pages[1:])
        self._fill(old, entries)

    def split(self) -> None:
        """Splits the next bucket into two of the next generation."""
        state = self.state
        old = BucketId(state.generation, state.split, state.buckets)
        chain, buckets = self._chains(old), 2 * state.buckets
        self.free(page.id.number for page in chain.pages[1:])
        for number in (2 * old.number, 2 * old.number + 1):
            half = BucketId(state.generation + 1, number, buckets)
            self._fill(empty_chain(half), (entry for entry in chain.entries() if half.owns(entry.key.signature)))
        self.before[old], self.after[old] = chain, Chain(old, (), state.serial)
        state.split += 1
        if state.split == state.buckets:
            self.outgrown = state.generation
            state.generation, state.buckets, state.split = state.generation + 1, buckets, NOT_GROWING

    def _fill(self, before: Chain, entries: Iterable[HashEntry]) -> None:
        edit = self._edit(empty_chain(before.bucket))
        for entry in sorted(entries):
            edit.put(entry)
        self._finish(before, edit)

    def shrink(self) -> None:
        """Drops free pages at the end of the overflow file."""
        space = self.space
        while space.available and space.available[-1] == space.size - 1:
            space.available.pop()
            space.size -= 1

    def _edit(self, chain: Chain) -> ChainEdit:
        return ChainEdit(chain, self._identity.shape, self.space.take)

    def _finish(self, before: Chain, edit: ChainEdit) -> None:
        chain, dirty, freed = edit.finish(self.state.serial)
        self.free(freed)
        self.before[chain.bucket], self.after[chain.bucket] = before, chain
        self.dirty.update(dirty)

    def free(self, pages: Iterable[int]) -> None:
        numbers = list(pages)
        self.space.give_back(numbers)
        self.freed += numbers


def chain_of(bucket: BucketId, parts: Iterable[tuple[PageId, int, Iterable[HashEntry]]]) -> Chain:
    """A chain as it was read: pages, their generations and their entries."""
    return Chain(bucket, tuple(ChainPage(page, generation, tuple(entries)) for page, generation, entries in parts))
