"""The reading half of a hash volume, shared by the writer and by reader processes.

No index is needed: the signature tells the bucket, the bucket is read and searched. A page may be read in the very
moment in which it is written: then it is not sound, or does not fit to the others of its chain. Its new image was
durable in the journal before, so whoever finds such a page looks there and reads again (`_overlay`). What stays unsound
is damaged.

A scan delivers blocks in the order of their keys, bucket after bucket. The order does not depend on where a block is:
whatever moves inside a bucket, into an overflow bucket and back, or into another bucket when the number of buckets is
doubled, a mark is a key, and no block ever crosses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from holdfast.env import Environment, paths
from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.block import HEADER_BYTES
from holdfast.storage.identity import Identity
from holdfast.storage.volume import Block, BlockFacts, BlockKey, Encoded, ScanPosition, VolumeStat
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.dictionaries import DictionaryShelf
from holdfast.storage.volumes.hash.chain import BucketId
from holdfast.storage.volumes.hash.files import FILE_HEADER_BYTES, OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.journal import read_redo
from holdfast.storage.volumes.hash.page import (
    BUCKET,
    CHAINED,
    MOVED,
    HashEntry,
    Head,
    PageId,
    bucket_of,
    find_lines,
    lines,
    parse_head,
    read_entry,
)
from holdfast.storage.volumes.hash.salvage import Salvage, belongs, mended
from holdfast.storage.volumes.hash.state import HashState

SCAN_BATCH = 512
SCAN_BATCH_BYTES = 8 << 20
END = 1 << 32  # of the positions that a scan passes: the first four bytes of signatures

T = TypeVar("T")
Overlay = Mapping[PageId, bytes]


class Unsound(Exception):
    """A page or block is not as it must be: it has just been written, or it is damaged."""

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
    """An entry, and where it is."""

    entry: HashEntry
    page: PageId
    offset: int  # in the page

    @property
    def key(self) -> BlockKey:
        return self.entry.key


class HashReading:
    """Any thread may call any method."""

    organization = "hash"

    def __init__(self, name: str, directory: Path, identity: Identity, env: Environment) -> None:
        self.name = name
        self.directory = directory
        self.identity = identity
        self._env = env
        self._files = HashFiles(env, directory, identity, self._told)
        self._dictionaries = DictionaryShelf(env, directory, identity)
        self.damage = KnownDamage(env, directory)
        self._oldest: int | None = None  # generation of a bucket file, as of the last look

    # -- what may differ between the writer and others --------------------------------------------------------------

    def _overlay(self) -> tuple[Overlay, object]:
        """Images of pages that may be newer than what is in their places, and what changes with every write."""
        with suppress(FileNotFoundError, DamagedBlock):
            redone = read_redo(self._env.files.open(self.directory / paths.REDO), self.identity)
            return redone.images, redone.serial
        return {}, None

    def _first_file(self, signature: bytes) -> int:
        """The generation of the bucket file to look into first: the oldest, or a later one that has the bucket."""
        if self._oldest is None:
            self._oldest = min(self._files.generations(), default=1)
        return self._oldest

    def _told(self, file: int) -> int | None:
        """How many pages a file was made with, by the journal."""
        with suppress(FileNotFoundError, DamagedBlock):
            state = read_redo(self._env.files.open(self.directory / paths.REDO), self.identity).state
            return {OVERFLOW_FILE: 0, state.generation: state.buckets, state.generation + 1: 2 * state.buckets}.get(
                file
            )
        return None

    def _state(self) -> tuple[HashState, int]:
        """The state as of what is acknowledged, and the number of free overflow pages."""
        redone = read_redo(self._env.files.open(self.directory / paths.REDO), self.identity)
        return redone.state, len(redone.free)

    def _stretch(self, position: int) -> tuple[list[FoundBlock], int]:
        """What is in the bucket at this position of a scan, and the position behind it."""
        signature = position.to_bytes(4, "big")
        bucket, found = self._attempted(
            lambda overlay: self._bucket(signature, overlay), lambda _: self._salvaged(signature)
        )
        return found, -(-((bucket.number + 1) << 32) // bucket.buckets)

    # -- pages ----------------------------------------------------------------------------------------------------

    def _attempted(self, read: Callable[[Overlay], T], otherwise: Callable[[DamagedBlock], T] | None = None) -> T:
        """What `read` returns, once all it looks at is sound; else what `otherwise` does. Raises DamagedBlock.

        It is damaged if it is unsound in the same way twice, and nothing was written in between.
        """
        overlay: Overlay = {}
        seen: object = None
        while True:
            try:
                return read(overlay)
            except FileNotFoundError as error:
                failure: Exception = error
                self._oldest = None
                self._files.forget()
            except (Unsound, DamagedBlock) as error:
                failure = error
            overlay, written = self._overlay()
            if (str(failure), written) == seen:
                break
            seen = (str(failure), written)
        damage = DamagedBlock(str(failure))
        if isinstance(failure, FileNotFoundError):
            damage = DamagedBlock(f"'{failure.filename}' is missing; run 'holdfast check --repair'")
        if otherwise is None:
            raise damage from None
        return otherwise(damage)

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
            buckets = self._files.header(file).pages
            bucket = BucketId(file, bucket_of(signature, buckets), buckets)
            part = self._page(bucket.page, overlay)
            if part.head.kind != MOVED:
                break
            file += 1
        if (part.head.kind, part.head.bucket, part.head.buckets) != (BUCKET, bucket.number, buckets):
            raise self._unsound(bucket.page, 0, f"bucket {bucket.number} of {buckets}", f"{part.head[:4]}")
        return bucket, part

    def _parts(self, root: BucketPart, overlay: Overlay) -> Iterator[BucketPart]:
        """The pages of a chain, each as part 0 says that it must be."""
        yield root
        for at, (number, generation) in enumerate(root.head.chain, 1):
            part = self._page(PageId(OVERFLOW_FILE, number), overlay)
            head = part.head
            wanted = (CHAINED, root.head.bucket, root.head.buckets, at, generation)
            if (head.kind, head.bucket, head.buckets, head.part, head.generation) != wanted:
                raise self._unsound(part.id, 0, f"part {at} of bucket {root.head.bucket}", f"{head[:6]}")
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

    def _salvaged(self, signature: bytes) -> tuple[BucketId, list[FoundBlock]]:
        """What can be read of a damaged bucket. Where not even a file can be, the bucket is all that there is."""
        free: set[int] = set()
        with suppress(FileNotFoundError, DamagedBlock):
            free |= set(read_redo(self._env.files.open(self.directory / paths.REDO), self.identity).free)
        salvage = Salvage(self._files, free)
        for file in self._files.generations():
            with suppress(FileNotFoundError, DamagedBlock):
                buckets = self._files.header(file).pages
                bucket = BucketId(file, bucket_of(signature, buckets), buckets)
                if parts := salvage.bucket(bucket):
                    found = {
                        entry.key: FoundBlock(entry, part.id, offset)
                        for part in parts
                        for offset, entry in (*part.entries, *mended(part))
                        if belongs(entry, bucket)
                    }
                    return bucket, [found[key] for key in sorted(found)]
        return BucketId(1, 0, 1), []

    # -- blocks ---------------------------------------------------------------------------------------------------

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        found = [
            self._attempted(
                lambda overlay, signature=signature: self._facts(signature, overlay),  # type: ignore[misc]
                lambda _, signature=signature: self._sound_facts(signature),  # type: ignore[misc]
            )
            for signature in signatures
        ]
        damaged = self.damage.keys() if any(found) else frozenset()
        if not damaged:
            return found
        return [tuple(each._replace(damaged=each.key in damaged) for each in blocks) for blocks in found]

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        self.damage.note(keys)

    def may_be_damaged(self) -> bool:
        return bool(self.damage.keys())

    def _facts(self, signature: bytes, overlay: Overlay) -> tuple[BlockFacts, ...]:
        return tuple(each.entry.facts for each in self._having(signature, overlay))

    def _sound_facts(self, signature: bytes) -> tuple[BlockFacts, ...]:
        """Of the sound blocks: a replica must be found though the block is damaged."""
        _, found = self._salvaged(signature)
        return tuple(each.entry.facts for each in found if each.key.signature == signature)

    def _having(self, signature: bytes, overlay: Overlay) -> Iterator[FoundBlock]:
        """The entries with this signature."""
        _, root = self._root(signature, overlay)
        for part in self._parts(root, overlay):
            for offset, checksum in find_lines(part.raw, part.head, signature):
                entry = self._entry(part, offset, checksum)
                if entry.key.signature == signature:
                    yield FoundBlock(entry, part.id, offset)

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return [
            self._attempted(
                lambda overlay, key=key: self._fetch(key, overlay),  # type: ignore[misc]
                lambda damage, key=key: self._rescued(key, damage),  # type: ignore[misc]
            )
            for key in keys
        ]

    def _fetch(self, key: BlockKey, overlay: Overlay) -> Block | None:
        found = next((each for each in self._having(key.signature, overlay) if each.key == key), None)
        return None if found is None else self._block(found, overlay)

    def _rescued(self, key: BlockKey, damage: DamagedBlock) -> Block:
        """From a damaged bucket. Whether a block was in it that is not found, nobody can tell."""
        _, found = self._salvaged(key.signature)
        for each in found:
            if each.key == key:
                with suppress(Unsound, FileNotFoundError, DamagedBlock):
                    return self._block(each, {})
                self.damage.note([key])
        raise damage

    def _block(self, found: FoundBlock, overlay: Overlay) -> Block:
        """The block with its data, verified."""
        entry, page, offset = found
        header, data = entry.header, memoryview(entry.raw)[HEADER_BYTES:]
        kind_checksum = header.checksum
        if entry.large is not None:
            page, offset = PageId(OVERFLOW_FILE, entry.large.page), 0
            raw = self._run(page, HEADER_BYTES + entry.large.stored, overlay)
            written = block.parse(raw)
            if written is None or not entry.stands_for(written):
                raise self._unsound(page, 0, f"the header of block '{entry.key.signature.hex()}'", repr(raw[:28]))
            data, kind_checksum = memoryview(raw)[HEADER_BYTES:], entry.large.checksum
        found_checksum = block.checksum(data)
        if found_checksum != kind_checksum:
            raise self._unsound(page, offset, f"crc32 {kind_checksum:08x}", f"{found_checksum:08x}")
        encoded = Encoded(header.codec.decode(), header.dictionary, header.size, data)
        path, at = self._files.path(page.file), self._files.offset(page) + offset
        return Block(entry.key, entry.replica, header.references, encoded, path, at, header.serial)

    def _run(self, first: PageId, length: int, overlay: Overlay) -> bytes:
        """The bytes of a large block."""
        if first not in overlay:
            return self._files.read_at(OVERFLOW_FILE, self._files.offset(first), length)
        pages = -(-length // self.identity.shape)
        parts = [overlay.get(PageId(OVERFLOW_FILE, first.number + at), b"") for at in range(pages)]
        return b"".join(parts)[:length]

    # -- all of them ------------------------------------------------------------------------------------------------

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        batch: list[Block] = []
        batch_bytes = 0
        for found in self._entries(after.key if after is not None else None):
            if (block := self._scanned(found)) is None:
                continue
            batch.append(block)
            batch_bytes += len(block.encoded.data)
            if len(batch) >= SCAN_BATCH or batch_bytes >= SCAN_BATCH_BYTES:
                yield batch
                batch, batch_bytes = [], 0
        if batch:
            yield batch

    def _entries(self, after: BlockKey | None) -> Iterator[FoundBlock]:
        """Behind a key, by ascending key."""
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

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        return self._dictionaries.newest() if number is None else self._dictionaries.read(number)

    def refresh(self) -> None:
        """Pages are written before a commit is acknowledged, and every look-up reads them."""

    def stat(self) -> VolumeStat:
        state, free = self._state()
        pages = state.buckets * (3 if state.is_growing else 1) + state.overflow
        files = 3 if state.is_growing else 2
        return VolumeStat(
            organization=self.organization,
            blocks=state.blocks,
            replicas=state.replicas,
            references=state.references,
            content_bytes=state.content_bytes,
            stored_bytes=state.stored_bytes,
            referenced_bytes=state.referenced_bytes,
            disk_bytes=files * FILE_HEADER_BYTES + pages * self.identity.shape,
            dead_bytes=free * self.identity.shape,
            free_bytes=self._env.files.free_bytes(self.directory),
            dictionaries=len(self._dictionaries.numbers()),
        )

    def close(self) -> None:
        self._files.close()
