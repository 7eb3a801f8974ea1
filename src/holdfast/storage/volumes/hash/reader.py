"""The reading half of a hash volume, shared by the writer and by reader processes.

There is no index: the signature gives the bucket, which is read and searched. A page may be read while it is written;
then it is unsound, or does not match the other pages of its chain. Its new image was made durable in the journal first,
so the reader takes it from there and reads again (`_overlay`). A page that stays unsound is damaged; its readable
blocks are still found.

A scan delivers blocks in the order of their keys, bucket after bucket. A block may move within a bucket, to an overflow
bucket and back, or to another bucket when their number doubles: the order stays the same, and a scan position is a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from holdfast.env import paths
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.volume import Block, BlockFacts, BlockKey, ScanPosition, VolumeStat
from holdfast.storage.volumes.hash.files import FILE_HEADER_BYTES, OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.page import (
    BUCKET,
    CHAINED,
    MOVED,
    BucketId,
    HashEntry,
    Head,
    PageId,
    Salvaged,
    bucket_of,
    find_lines,
    lines,
    parse_head,
    read_entry,
    salvaged_page,
)
from holdfast.storage.volumes.hash.state import HashState, Redone, redone
from holdfast.storage.volumes.journal import read_journal
from holdfast.storage.volumes.local import LocalVolume, VolumeSpec, batched, encoded_of

END = 1 << 32  # of the positions that a scan passes: the first four bytes of signatures

T = TypeVar("T")
Overlay = Mapping[PageId, bytes]


class Unsound(Exception):
    """A page or block is inconsistent: it is being written, or damaged."""

    def __init__(self, path: Path, offset: int, expected: str, found: str) -> None:
        super().__init__(
            f"cannot read '{path}' at {offset}: expected {expected}, found {found}; run 'holdfast check --repair'"
        )
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class BucketPart(NamedTuple):
    """A page of a chain, read."""

    id: PageId
    raw: bytes
    head: Head


class FoundBlock(NamedTuple):
    """An entry and its place."""

    entry: HashEntry
    page: PageId
    offset: int  # in the page

    @property
    def key(self) -> BlockKey:
        return self.entry.key


class HashReading(LocalVolume):
    """Any thread may call any method."""

    organization = "hash"

    def __init__(self, spec: VolumeSpec) -> None:
        super().__init__(spec)
        self._files = HashFiles(spec.env, spec.directory, spec.identity, self._recorded_pages)
        self._oldest: int | None = None  # generation of the oldest bucket file, as last seen

    # -- overridden by the writer -----------------------------------------------------------------------------------

    def _redone(self) -> Redone:
        """The journal's contents. Raises FileNotFoundError or DamagedBlock."""
        return redone(read_journal(self._env.files.open(self.directory / paths.REDO), self.identity))

    def _overlay(self) -> tuple[Overlay, object]:
        """Page images that may be newer than those in place, and a value that changes with every write."""
        with suppress(FileNotFoundError, DamagedBlock):
            known = self._redone()
            return known.images, known.serial
        return {}, None

    def _first_file(self, signature: bytes) -> int:
        """The generation of the bucket file to start with: the oldest, or a later one that has the bucket."""
        if self._oldest is None:
            self._oldest = min(self._files.generations(), default=1)
        return self._oldest

    def _recorded_pages(self, file: int) -> int | None:
        """The number of pages a file was created with, from the journal."""
        with suppress(FileNotFoundError, DamagedBlock):
            state = self._redone().state
            pages = {OVERFLOW_FILE: 0, state.generation: state.buckets, state.generation + 1: 2 * state.buckets}
            return pages.get(file)
        return None

    def _state(self) -> HashState:
        """The acknowledged state."""
        return self._redone().state

    def _stretch(self, position: int) -> tuple[list[FoundBlock], int]:
        """The blocks of the bucket at this position of a scan, and the position of the next bucket."""
        signature = position.to_bytes(4, "big")
        bucket, found = self._attempted(partial(self._bucket, signature), lambda _: self._salvaged(signature))
        return found, bucket.end

    # -- pages ----------------------------------------------------------------------------------------------------

    def _attempted(self, read: Callable[[Overlay], T], otherwise: Callable[[DamagedBlock], T] | None = None) -> T:
        """Retries `read` until everything it reads is sound; returns `otherwise` if it is damaged. Raises DamagedBlock.

        It is damaged if it is unsound in the same way twice with no write in between.
        """
        overlay: Overlay = {}
        seen: object = None
        while True:
            try:
                return read(overlay)
            except FileNotFoundError as error:
                failure = f"'{error.filename}' is missing; run 'holdfast check --repair'"
                self._oldest = None
                self._files.forget()
            except (Unsound, DamagedBlock) as error:
                failure = str(error)
            overlay, written = self._overlay()
            if (failure, written) == seen:
                break
            seen = (failure, written)
        if otherwise is None:
            raise DamagedBlock(failure)
        return otherwise(DamagedBlock(failure))

    def _page(self, page: PageId, overlay: Overlay) -> BucketPart:
        raw = self._files.read(page)
        head = parse_head(raw, self.identity.uid)
        if page in overlay:
            newer = parse_head(overlay[page], self.identity.uid)
            if newer is not None and (head is None or newer.generation > head.generation):
                raw, head = overlay[page], newer
        if head is None or head.page != page.number:
            raise self._unsound(page, 0, f"a sound page {page.number}", repr(bytes(raw[:35])))
        return BucketPart(page, raw, head)

    def _unsound(self, page: PageId, offset: int, expected: str, found: str) -> Unsound:
        return Unsound(self._files.path(page.file), self._files.offset(page) + offset, expected, found)

    def _root(self, signature: bytes, overlay: Overlay) -> tuple[BucketId, BucketPart]:
        """The bucket of a signature: in the oldest file, or, if it was split, in a newer one."""
        file = self._first_file(signature)
        while True:
            buckets = self._files.pages(file)
            bucket = BucketId(file, bucket_of(signature, buckets), buckets)
            part = self._page(bucket.page, overlay)
            if part.head.kind != MOVED:
                break
            file += 1
        if (part.head.kind, part.head.bucket, part.head.buckets) != (BUCKET, bucket.number, buckets):
            raise self._unsound(bucket.page, 0, f"bucket {bucket.number} of {buckets}", f"{part.head[:4]}")
        return bucket, part

    def _parts(self, root: BucketPart, overlay: Overlay) -> Iterator[BucketPart]:
        """The pages of a chain, each verified against part 0."""
        yield root
        for at, (number, generation) in enumerate(root.head.chain, 1):
            part = self._page(PageId(OVERFLOW_FILE, number), overlay)
            if not part.head.is_part(at, generation, root.head):
                raise self._unsound(part.id, 0, f"part {at} of bucket {root.head.bucket}", f"{part.head[:6]}")
            yield part

    def _entry(self, part: BucketPart, offset: int, checksum: bytes) -> HashEntry:
        entry = read_entry(part.raw, offset, checksum)
        if entry is None:
            raise self._unsound(part.id, offset, f"a header with crc32 {checksum.decode()}", "another")
        return entry

    def _bucket(self, signature: bytes, overlay: Overlay) -> tuple[BucketId, list[FoundBlock]]:
        """Everything in the bucket of a signature, by ascending key."""
        bucket, root = self._root(signature, overlay)
        return bucket, self._found_on(self._parts(root, overlay))

    def _found_on(self, parts: Iterable[BucketPart]) -> list[FoundBlock]:
        """Everything on some pages, by ascending key."""
        found = [
            FoundBlock(self._entry(part, offset, checksum), part.id, offset)
            for part in parts
            for offset, checksum in lines(part.raw, part.head)
        ]
        return sorted(found, key=lambda each: each.key)

    # -- damaged buckets ------------------------------------------------------------------------------------------

    def _salvaged(self, signature: bytes) -> tuple[BucketId, list[FoundBlock]]:
        """What can be read of a damaged bucket. If no file can be read, the whole range counts as one bucket."""
        free: set[int] = set()
        with suppress(FileNotFoundError, DamagedBlock):
            free = set(self._redone().state.free)
        for file in self._files.generations():
            with suppress(FileNotFoundError, DamagedBlock):
                buckets = self._files.pages(file)
                bucket = BucketId(file, bucket_of(signature, buckets), buckets)
                if parts := self._salvaged_parts(bucket, free):
                    found = {
                        entry.key: FoundBlock(entry, part.id, offset)
                        for part in parts
                        for offset, entry in part.entries
                        if bucket.owns(entry.key.signature)
                    }
                    return bucket, [found[key] for key in sorted(found)]
        return BucketId(1, 0, 1), []

    def _salvaged_page(self, page: PageId) -> Salvaged:
        raw = b""
        with suppress(FileNotFoundError, DamagedBlock):
            raw = self._files.read(page)
        return salvaged_page(page, raw, self.identity.uid)

    def _salvaged_parts(self, bucket: BucketId, free: Iterable[int] = ()) -> list[Salvaged]:
        """The pages of a bucket: those that part 0 lists or, if it is unreadable, those that name this bucket.

        Empty if it was split. `free`: overflow pages that belong to no bucket.
        """
        root = self._salvaged_page(bucket.page)
        if root.head is None:
            return [root, *self._owned(bucket, set(free))]
        if root.head.kind == MOVED:
            return []
        parts = [root]
        for at, (number, generation) in enumerate(root.head.chain, 1):
            part = self._salvaged_page(PageId(OVERFLOW_FILE, number))
            if part.head is not None and not part.head.is_part(at, generation, root.head):
                part = part._replace(head=None, entries=[], head_is_sound=False)  # of another bucket
            parts.append(part)
        return parts

    def _owned(self, bucket: BucketId, free: set[int]) -> Iterator[Salvaged]:
        size = 0
        with suppress(FileNotFoundError, DamagedBlock):
            size = self._files.size(OVERFLOW_FILE)
        for number in range((size - FILE_HEADER_BYTES) // self.identity.shape):
            if number not in free:
                part = self._salvaged_page(PageId(OVERFLOW_FILE, number))
                if part.head is not None and (part.head.kind, *part.head[1:3]) == (CHAINED, *bucket[1:]):
                    yield part

    # -- blocks ---------------------------------------------------------------------------------------------------

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        found = [
            self._attempted(partial(self._facts, signature), partial(self._sound_facts, signature))
            for signature in signatures
        ]
        damaged = self.damage.keys() if any(found) else frozenset()
        if not damaged:
            return found
        return [tuple(each._replace(damaged=each.key in damaged) for each in blocks) for blocks in found]

    def _facts(self, signature: bytes, overlay: Overlay) -> tuple[BlockFacts, ...]:
        return tuple(each.entry.facts for each in self._having(signature, overlay))

    def _sound_facts(self, signature: bytes, _: DamagedBlock) -> tuple[BlockFacts, ...]:
        """Facts of the readable blocks: a replica is found although another block is damaged."""
        return tuple(each.entry.facts for each in self._salvaged(signature)[1] if each.key.signature == signature)

    def _having(self, signature: bytes, overlay: Overlay) -> Iterator[FoundBlock]:
        """The entries with this signature."""
        _, root = self._root(signature, overlay)
        for part in self._parts(root, overlay):
            for offset, checksum in find_lines(part.raw, part.head, signature):
                entry = self._entry(part, offset, checksum)
                if entry.key.signature == signature:
                    yield FoundBlock(entry, part.id, offset)

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return [self._attempted(partial(self._fetch, key), partial(self._rescued, key)) for key in keys]

    def _fetch(self, key: BlockKey, overlay: Overlay) -> Block | None:
        found = next((each for each in self._having(key.signature, overlay) if each.key == key), None)
        return None if found is None else self._block(found, overlay)

    def _rescued(self, key: BlockKey, damage: DamagedBlock) -> Block:
        """A block of a damaged bucket. One that is not found may have been there: raises the damage."""
        for each in self._salvaged(key.signature)[1]:
            if each.key == key:
                with suppress(Unsound, FileNotFoundError, DamagedBlock):
                    return self._block(each, {})
                self.damage.note([key])
        raise damage

    def _block(self, found: FoundBlock, overlay: Overlay) -> Block:
        """The block with its data, verified."""
        entry, page, offset = found
        header, data, wanted = entry.header, memoryview(entry.raw)[HEADER_BYTES:], entry.header.checksum
        if entry.large is not None:
            page, offset = PageId(OVERFLOW_FILE, entry.large.page), 0
            raw = self._run(page, HEADER_BYTES + entry.large.stored, overlay)
            written = block.parse(raw)
            if written is None or not entry.stands_for(written):
                raise self._unsound(page, 0, f"the header of block '{entry.key.signature.hex()}'", repr(raw[:28]))
            data, wanted = memoryview(raw)[HEADER_BYTES:], entry.large.checksum
        checksum = block.checksum(data)
        if checksum != wanted:
            raise self._unsound(page, offset, f"crc32 {wanted:08x}", f"{checksum:08x}")
        path, at = self._files.path(page.file), self._files.offset(page) + offset
        return Block(entry.key, entry.replica, header.references, encoded_of(header, data), path, at, header.serial)

    def _run(self, first: PageId, length: int, overlay: Overlay) -> bytes:
        """The bytes of a large block."""
        if first not in overlay:
            return self._files.read_at(OVERFLOW_FILE, self._files.offset(first), length)
        pages = -(-length // self.identity.shape)
        parts = [overlay.get(PageId(OVERFLOW_FILE, first.number + at), b"") for at in range(pages)]
        return b"".join(parts)[:length]

    # -- scans ------------------------------------------------------------------------------------------------------

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        found = self._entries(after.key if after is not None else None)
        return batched(block for each in found if (block := self._scanned(each)) is not None)

    def _entries(self, after: BlockKey | None) -> Iterator[FoundBlock]:
        """The blocks after a key, by ascending key."""
        position = int.from_bytes(after.signature[:4].ljust(4, b"\0"), "big") if after is not None else 0
        while position < END:
            found, position = self._stretch(position)
            for each in found:
                if after is None or each.key > after:
                    after = each.key
                    yield each

    def _scanned(self, found: FoundBlock) -> Block | None:
        try:
            return self._block(found, {})
        except (Unsound, FileNotFoundError, DamagedBlock):  # changed since it was found, or for `check` to report
            with suppress(DamagedBlock):
                return self.fetch([found.key])[0]
            return None

    def signatures(self) -> Iterator[bytes]:
        previous = None
        for found in self._entries(None):
            if found.key.signature != previous:
                yield found.key.signature
            previous = found.key.signature

    def refresh(self) -> None:
        """Nothing to do: every lookup reads pages, which are written before a commit is acknowledged."""

    def stat(self) -> VolumeStat:
        state = self._state()
        pages = state.buckets * (3 if state.is_growing else 1) + state.overflow
        files = 3 if state.is_growing else 2
        return self._stat(
            state, files * FILE_HEADER_BYTES + pages * self.identity.shape, len(state.free) * self.identity.shape
        )

    def close(self) -> None:
        self._files.close()
