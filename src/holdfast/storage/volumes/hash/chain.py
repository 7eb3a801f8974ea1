"""The blocks of a bucket in memory: a chain of pages, and how they change.

A chain is never modified: an edit makes a new one, so that whatever fails leaves the old one as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.errors import VolumeFull
from holdfast.storage.volume import BlockKey
from holdfast.storage.volumes.hash.page import (
    BUCKET,
    CHAIN_BYTES,
    CHAINED,
    CHAINED_MAX,
    HEAD_BYTES,
    MOVED,
    HashEntry,
    Head,
    PageId,
    pack_page,
)


class BucketId(NamedTuple):
    """A bucket: generation of its file, its number there, and how many there are."""

    file: int
    number: int
    buckets: int

    @property
    def page(self) -> PageId:
        return PageId(self.file, self.number)


class ChainPage(NamedTuple):
    """A page and its entries, in ascending order."""

    id: PageId
    generation: int
    entries: tuple[HashEntry, ...]


class Chain(NamedTuple):
    """A bucket and what is chained to it; part 0 comes first. Without pages, it has been split."""

    bucket: BucketId
    pages: tuple[ChainPage, ...]
    generation: int = 0  # of a bucket that was split

    def entries(self) -> Iterator[HashEntry]:
        """In no particular order."""
        return (entry for page in self.pages for entry in page.entries)

    def places(self) -> dict[BlockKey, PageId]:
        """On which page each block is."""
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


def empty_chain(bucket: BucketId, generation: int = 0) -> Chain:
    return Chain(bucket, (ChainPage(bucket.page, generation, ()),))


class ChainEdit:
    """Changes to one chain. `allocate` gives the number of a free page of the overflow file."""

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
        """In the place of the block with this key, or wherever there is room."""
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
            self.put(entry)  # what had to make room for the new line may have filled the new page
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
        """Part 0 must have room for the line: if need be, a block goes from there into the new page."""
        most = min(CHAINED_MAX, (self._page_bytes - HEAD_BYTES) // CHAIN_BYTES - 1)
        if len(self._ids) > most:
            raise VolumeFull(f"bucket {self._chain.bucket.number} has {most} overflow buckets, and can have no more")
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
        """The new chain, the pages that must be written, and the overflow pages that have become free."""
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
        """Moves the blocks of the last page into the others, if they have room; says whether it is empty now."""
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
