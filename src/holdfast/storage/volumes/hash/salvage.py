"""What can be read of damaged pages: their blocks are found by their magic, and vouched for by their own checksums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from typing import NamedTuple

from isal.isal_zlib import crc32

from holdfast.errors import DamagedBlock
from holdfast.storage import block
from holdfast.storage.block import BLOCK, HEADER_BYTES, REPLICA
from holdfast.storage.volumes.hash.chain import BucketId
from holdfast.storage.volumes.hash.files import FILE_HEADER_BYTES, OVERFLOW_FILE, HashFiles
from holdfast.storage.volumes.hash.page import (
    CHAIN_BYTES,
    CHAINED,
    HEAD_BYTES,
    LARGE,
    LINE_BYTES,
    MOVED,
    HashEntry,
    Head,
    PageId,
    bucket_of,
    lines,
    parse_head,
    read_entry,
)

_CHECKED_BYTES = 310
_HEAD_CRC = 138  # where the checksum of a page's head stands
_COUNTS = (*range(119, 123), *range(132, 137))  # the digits of `chained` and `entries`


class Salvaged(NamedTuple):
    """A page, and what could be read of it."""

    id: PageId
    raw: bytes
    head: Head | None  # None: it is not sound
    entries: list[tuple[int, HashEntry]]  # with their offsets; their data is not verified
    damaged: list[int]  # offsets of entries that cannot be read, as far as the head tells them


def salvaged_page(page: PageId, raw: bytes, uid: bytes) -> Salvaged:
    head = parse_head(raw, uid)
    if head is None or head.page != page.number:
        return Salvaged(page, raw, None, list(_by_magic(raw, uid)), [])
    entries, damaged = [], []
    for offset, checksum in lines(raw, head):
        entry = read_entry(raw, offset, checksum)
        if entry is None:
            damaged.append(offset)
        else:
            entries.append((offset, entry))
    return Salvaged(page, raw, head, entries, damaged)


def _by_magic(raw: bytes, uid: bytes) -> Iterator[tuple[int, HashEntry]]:
    """Behind the last block a page has nothing but zeros: what is found was there."""
    offset = raw.find(block.MAGIC)
    while offset >= 0:
        header = block.parse(raw[offset : offset + HEADER_BYTES])
        step = 1
        if header is not None and header.uid == uid and header.kind in (BLOCK, REPLICA, LARGE):
            entry = read_entry(raw, offset, raw[offset + 310 : offset + 318])
            if entry is not None:
                yield offset, entry
                step = header.length
        offset = raw.find(block.MAGIC, offset + step)


def mended(salvaged: Salvaged) -> list[tuple[int, HashEntry]]:
    """Damaged entries in whose header one byte is wrong: which one, and what it was, the line's checksum tells."""
    found: list[tuple[int, HashEntry]] = []
    if salvaged.head is None or not salvaged.damaged:
        return found
    for offset, checksum in lines(salvaged.raw, salvaged.head):
        if offset not in salvaged.damaged:
            continue
        head = salvaged.raw[offset : offset + _CHECKED_BYTES]
        fixed = block.corrected(head, int(checksum, 16))
        if fixed is not None:
            raw = salvaged.raw[:offset] + fixed + checksum + b"\n\n" + salvaged.raw[offset + HEADER_BYTES :]
            if (entry := read_entry(raw, offset, checksum)) is not None:
                found.append((offset, entry))
    return found


class CorrectedPage(NamedTuple):
    """A damaged page as it was."""

    id: PageId
    head: Head
    entries: list[HashEntry]


def mended_page(page: Salvaged, uid: bytes) -> CorrectedPage | None:
    """The page as it was, if at most one byte of its head and lines is wrong, and one of each header; else None."""
    if page.head is None:
        raw = _with_mended_head(page.raw, uid)
        page = salvaged_page(page.id, raw, uid) if raw is not None else page
    fixed = mended(page)
    if page.head is None or len(fixed) < len(page.damaged):
        return None
    return CorrectedPage(page.id, page.head, [entry for _, entry in sorted([*page.entries, *fixed], key=itemgetter(0))])


def _with_mended_head(raw: bytes, uid: bytes) -> bytes | None:
    """The bytes of a page with a sound head and sound lines: what the one wrong byte was, the checksum tells."""
    if len(raw) < HEAD_BYTES:
        return None
    raw = raw[:_HEAD_CRC] + b"crc32 " + raw[_HEAD_CRC + 6 : _HEAD_CRC + 14] + b"\n\n" + raw[HEAD_BYTES:]
    for at in _COUNTS:  # they say how many lines there are, hence what the checksum is of
        for digit in b"0123456789":
            changed = raw[:at] + bytes([digit]) + raw[at + 1 :]
            if parse_head(changed, uid) is not None:
                return changed
    try:
        chained, entries = int(raw[_COUNTS[0] : _COUNTS[0] + 4]), int(raw[_COUNTS[4] : _COUNTS[4] + 5])
    except ValueError:
        return None
    end = HEAD_BYTES + CHAIN_BYTES * chained + LINE_BYTES * entries
    if end > len(raw):
        return None
    text, told = raw[:_HEAD_CRC] + raw[HEAD_BYTES:end], raw[_HEAD_CRC + 6 : _HEAD_CRC + 14]
    found = b"%08x" % crc32(text)
    if sum(a != b for a, b in zip(found, told, strict=True)) > 1:  # else it is a digit of the checksum
        try:
            fixed = block.corrected(text, int(told, 16))
        except ValueError:
            return None
        if fixed is None:
            return None
        text, found = fixed, told
    changed = text[:_HEAD_CRC] + b"crc32 " + found + b"\n\n" + text[_HEAD_CRC:] + raw[end:]
    return changed if parse_head(changed, uid) is not None else None


class Salvage:
    """Looks for all that is left of buckets. `free`: overflow pages that hold nothing any more."""

    def __init__(self, files: HashFiles, free: set[int]) -> None:
        self._files = files
        self._free = free

    def page(self, page: PageId) -> Salvaged:
        raw = b""
        with suppress(FileNotFoundError, DamagedBlock):
            raw = self._files.read(page)
        return salvaged_page(page, raw, self._files.uid)

    def bucket(self, bucket: BucketId) -> list[Salvaged]:
        """The pages of a bucket: those that part 0 names, or, if it cannot be read, those that say they belong to it.

        Nothing, if it was split.
        """
        root = self.page(bucket.page)
        if root.head is not None and root.head.kind == MOVED:
            return []
        if root.head is None:
            return [root, *self._owned(bucket)]
        parts = [root]
        for at, (number, generation) in enumerate(root.head.chain, 1):
            part = self.page(PageId(OVERFLOW_FILE, number))
            wanted = (CHAINED, *bucket[1:], at, generation)
            head = part.head
            if head is not None and (head.kind, head.bucket, head.buckets, head.part, head.generation) != wanted:
                part = part._replace(head=None, entries=[])  # it is another's
            parts.append(part)
        return parts

    def _owned(self, bucket: BucketId) -> Iterator[Salvaged]:
        size = 0
        with suppress(FileNotFoundError, DamagedBlock):
            size = self._files.size(OVERFLOW_FILE)
        for number in range((size - FILE_HEADER_BYTES) // self._files.page_bytes):
            if number not in self._free:
                part = self.page(PageId(OVERFLOW_FILE, number))
                if part.head is not None and (part.head.kind, *part.head[1:3]) == (CHAINED, *bucket[1:]):
                    yield part


def belongs(entry: HashEntry, bucket: BucketId) -> bool:
    return bucket_of(entry.key.signature, bucket.buckets) == bucket.number
