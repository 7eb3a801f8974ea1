"""Changes to a hash volume before they are written.

A `ChangeDraft` has chains, state and space as one commit will leave them; if it fails, nothing has changed. A
`GroupChange` gathers the drafts of one group of commits until the group is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.env.files import Buffer
from holdfast.storage import block
from holdfast.storage.block import COUNT
from holdfast.storage.identity import Identity
from holdfast.storage.volumes.hash.chain import BucketId, Chain, ChainEdit, ChainPage, empty_chain
from holdfast.storage.volumes.hash.page import (
    HEAD_BYTES,
    LINE_BYTES,
    HashEntry,
    LargeEntry,
    PageId,
    bucket_of,
    large_entry,
)
from holdfast.storage.volumes.hash.state import NOT_GROWING, HashState, Space
from holdfast.storage.volumes.idempotency import Kept
from holdfast.storage.volumes.operations import Change


class ChangeDraft:
    """Made from what is there, `chains` telling of the pages. Not thread-safe: the volume's lock guards it."""

    def __init__(self, chains: Callable[[BucketId], Chain], state: HashState, space: Space, identity: Identity) -> None:
        self._chains = chains
        self._identity = identity
        self.state = state.copy()
        self.state.serial += 1
        self.space = space.copy()
        self.before: dict[BucketId, Chain] = {}
        self.after: dict[BucketId, Chain] = {}
        self.dirty: set[PageId] = set()  # pages of chains that must be written
        self.runs: dict[PageId, Buffer] = {}  # pages of large blocks
        self.freed: list[int] = []
        self.outgrown: int | None = None  # generation of a bucket file that is of no more use

    # -- blocks -------------------------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change]) -> None:
        """The changes, bucket by bucket in the order of their places: each page is written once."""
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
            assert old is not None, "what is counted is there"
            new = old.counted(change.references) if change.references else None
        else:
            new = self._entry(change)
        if old is not None:
            self.state.count(old, -1)
            if old.large is not None and (new is None or new.large != old.large):
                self.free(_pages_of(old.large))
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

    @property
    def page_bytes(self) -> int:
        return self._identity.shape

    def fits(self, length: int) -> bool:
        """Whether a block of so many bytes, its header included, can stand in a page."""
        return HEAD_BYTES + LINE_BYTES + length <= self._identity.shape

    def large(self, header: block.Header, raw: Buffer) -> HashEntry:
        """A run of pages for a block, and what stands in its bucket for it."""
        size = self._identity.shape
        pages = -(-len(raw) // size)
        first = self.space.take(pages)
        view = memoryview(raw)
        for at in range(pages):
            self.runs[PageId(0, first + at)] = view[at * size : (at + 1) * size]
        return large_entry(header, first, pages)

    # -- buckets ------------------------------------------------------------------------------------------------

    def replace(self, bucket: BucketId, entries: Iterable[HashEntry]) -> Chain:
        """The bucket has these entries and no others, on as few pages as possible, as far to the front as possible."""
        old = self._chains(bucket)
        self.free(page.id.number for page in old.pages[1:])
        edit = self._edit(empty_chain(bucket))
        for entry in sorted(entries):
            edit.put(entry)
        return self._finish(old, edit)

    def split(self) -> None:
        """The next bucket becomes two, of the next generation."""
        state = self.state
        old = BucketId(state.generation, state.split, state.buckets)
        chain, buckets = self._chains(old), 2 * state.buckets
        self.free(page.id.number for page in chain.pages[1:])
        halves: dict[int, list[HashEntry]] = {2 * old.number: [], 2 * old.number + 1: []}
        for entry in sorted(chain.entries()):
            halves[bucket_of(entry.key.signature, buckets)].append(entry)
        for number, entries in halves.items():
            empty = empty_chain(BucketId(state.generation + 1, number, buckets))
            edit = self._edit(empty)
            for entry in entries:
                edit.put(entry)
            self._finish(empty, edit)
        self.before[old], self.after[old] = chain, Chain(old, (), state.serial)
        state.split += 1
        if state.split == state.buckets:
            self.outgrown = state.generation
            state.generation, state.buckets, state.split = state.generation + 1, buckets, NOT_GROWING

    def shrink(self) -> None:
        """Free pages at the end of the overflow file leave it."""
        space = self.space
        while space.available and space.available[-1] == space.size - 1:
            space.available.pop()
            space.size -= 1

    def _edit(self, chain: Chain) -> ChainEdit:
        return ChainEdit(chain, self._identity.shape, self.space.take)

    def _finish(self, before: Chain, edit: ChainEdit) -> Chain:
        chain, dirty, freed = edit.finish(self.state.serial)
        self.free(freed)
        self.before[chain.bucket], self.after[chain.bucket] = before, chain
        self.dirty.update(dirty)
        return chain

    def free(self, pages: Iterable[int]) -> None:
        numbers = list(pages)
        self.space.give_back(numbers)
        self.freed += numbers


def _pages_of(large: LargeEntry) -> range:
    return range(large.page, large.page + large.pages)


def chain_of(bucket: BucketId, parts: Iterable[tuple[PageId, int, Iterable[HashEntry]]]) -> Chain:
    """A chain as it was read: pages, their generations and their entries."""
    return Chain(bucket, tuple(ChainPage(page, generation, tuple(entries)) for page, generation, entries in parts))


@dataclass(slots=True)
class GroupChange:
    """What one group of commits changes."""

    before: dict[BucketId, Chain] = field(default_factory=dict)
    after: dict[BucketId, Chain] = field(default_factory=dict)
    dirty: set[PageId] = field(default_factory=set)
    runs: dict[PageId, Buffer] = field(default_factory=dict)
    tickets: list[tuple[bytes, Kept]] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    outgrown: int | None = None
    state: HashState = field(default_factory=HashState)  # as it will be then, and the space
    space: Space = field(default_factory=lambda: Space(0, ()))
    kept: list[tuple[bytes, Kept]] | None = None  # all tickets, if there is to be a checkpoint

    def absorb(self, draft: ChangeDraft) -> None:
        for bucket, chain in draft.before.items():
            self.before.setdefault(bucket, chain)
        self.after |= draft.after
        self.dirty |= draft.dirty
        self.runs |= draft.runs
        self.freed += draft.freed
        if draft.outgrown is not None:
            self.outgrown = draft.outgrown

    def images(self, uid: bytes) -> list[tuple[PageId, Buffer]]:
        """Every page that must be written, in the order of their places."""
        images: dict[PageId, Buffer] = dict(self.runs)
        for bucket, chain in self.after.items():
            if not chain.pages:
                images[bucket.page] = chain.pack(0, uid)
            for part, page in enumerate(chain.pages):
                if page.id in self.dirty:
                    images[page.id] = chain.pack(part, uid)
        return sorted(images.items(), key=lambda each: each[0])
