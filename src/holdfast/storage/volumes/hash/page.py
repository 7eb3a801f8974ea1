"""The bytes of a page: a bucket of the `hash` organization, or an overflow bucket chained to it.

    byte  text                                                     meaning
    ----  -------------------------------------------------------  --------------------------------------------
       0  HOLDFAST-BUCKET/1 9f3a61c2 bucket \\n                      magic and version, uid of the volume, kind
      35  bucket 00000012 of 00000064 part 0000 page 00000012\\n     bucket; page of the chain; page of the file
      87  generation 000000000042 chained 0001 entries 00007\\n      of this page; numbers of lines below
     138  crc32 1a2b3c4d\\n\\n                                        of the bytes before and of all lines
     154  page 00000003 generation 000000000041\\n                   for each chained page, 38 bytes; part 0 only
          a1b2c3d4e5f60718 at 00000512 crc32 5e6f7a8b\\n             for each block, ascending, 44 bytes: first 8
                                                                   bytes of its signature, its offset, and the
                                                                   checksum in its header
          blocks, as `holdfast.storage.block` describes
          zeros, to the end of the page

Kinds: `bucket` is part 0, at the bucket's own place; `chained` is another part, in the overflow file; `moved` is a
bucket that was split: its blocks are in buckets 2n and 2n+1 of the next generation.

The checksum covers the lines, each line a header, each header its data. So a torn page is noticed, and a page can be
read, searched and written without touching the data of its blocks. The generations in part 0 cover the other parts.

A block larger than a page has its own run of pages in the overflow file. Its bucket has an entry of kind `large`: the
block's header with the current counter, and as its data one line of text,

    block   at 00000120 pages 00009 stored 000000512345 crc32 1a2b3c4d\\n
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env.files import Buffer
from holdfast.storage import block
from holdfast.storage.block import BLOCK, HEADER_BYTES, REPLICA, Header
from holdfast.storage.volume import BlockFacts, BlockKey
from holdfast.storage.volumes.local import key_of

HEAD_BYTES: Final = 154
CHAIN_BYTES: Final = 38  # of a line
LINE_BYTES: Final = 44
PAGE_BYTES_MIN: Final = 4096
CHAINED_MAX: Final = 9999
MAGIC: Final = b"HOLDFAST-BUCKET/1 "

BUCKET: Final = b"bucket"
CHAINED: Final = b"chained"
MOVED: Final = b"moved"
LARGE: Final = b"large"  # kind of an entry

_CHECKED_BYTES = 138
_CHAINED_DIGITS, _ENTRIES_DIGITS = range(119, 123), range(132, 137)
_HEAD = (
    b"HOLDFAST-BUCKET/1 %-8b %-7b\n"
    b"bucket %08d of %08d part %04d page %08d\n"
    b"generation %012d chained %04d entries %05d\n"
)
_FIELDS = struct.Struct("18s8sx7sx7x8s4x8s6x4s6x8sx11x12s9x4s9x5sx6x8s2s")
assert _FIELDS.size == HEAD_BYTES
_LARGE = b"%-7b at %08d pages %05d stored %012d crc32 %08x\n"


class PageId(NamedTuple):
    """A page: the generation of its bucket file, or 0 for the overflow file, and its number there."""

    file: int
    number: int


class BucketId(NamedTuple):
    """A bucket: the generation of its file, its number there, and the number of buckets."""

    file: int
    number: int
    buckets: int

    @property
    def page(self) -> PageId:
        return PageId(self.file, self.number)

    @property
    def end(self) -> int:
        """Where the next bucket begins, by the first four bytes of signatures."""
        return -(-((self.number + 1) << 32) // self.buckets)

    def owns(self, signature: bytes) -> bool:
        return bucket_of(signature, self.buckets) == self.number


class Head(NamedTuple):
    """The head of a page."""

    kind: bytes
    bucket: int
    buckets: int
    part: int
    page: int
    generation: int
    chain: tuple[tuple[int, int], ...]  # page and generation of parts 1, 2, ...
    entries: int

    @property
    def lines_at(self) -> int:
        return HEAD_BYTES + CHAIN_BYTES * len(self.chain)

    def is_part(self, at: int, generation: int, root: Head) -> bool:
        """True if this is the page that part 0 lists as part `at`."""
        wanted = (CHAINED, root.bucket, root.buckets, at, generation)
        return (self.kind, self.bucket, self.buckets, self.part, self.generation) == wanted


class LargeEntry(NamedTuple):
    """Where a large block is."""

    kind: bytes  # block or replica
    page: int
    pages: int
    stored: int
    checksum: int

    @property
    def run(self) -> range:
        """Its pages in the overflow file."""
        return range(self.page, self.page + self.pages)


class HashEntry(NamedTuple):
    """A block in a bucket: its header and data, or the `large` entry that refers to them."""

    key: BlockKey
    header: Header
    raw: Buffer
    large: LargeEntry | None = None

    @property
    def cost(self) -> int:
        """Bytes it takes in a page."""
        return LINE_BYTES + len(self.raw)

    @property
    def replica(self) -> bool:
        return (self.large.kind if self.large else self.header.kind) == REPLICA

    @property
    def stored(self) -> int:
        return self.large.stored if self.large else self.header.stored

    @property
    def facts(self) -> BlockFacts:
        return BlockFacts(self.key, self.replica, self.header.size, self.stored, self.header.references)

    def stands_for(self, written: Header) -> bool:
        """True if `written` is the header at the start of this large block's run, where the counter may be outdated."""
        large, facts = self.large, (written.kind, written.stored, written.checksum)
        return large is not None and key_of(written) == self.key and facts == (large.kind, large.stored, large.checksum)

    def counted(self, references: int) -> HashEntry:
        """The same entry with another counter."""
        header = self.header._replace(references=references)
        return self._replace(header=header, raw=block.pack(header) + bytes(self.raw[HEADER_BYTES:]))


def bucket_of(signature: bytes, buckets: int) -> int:
    """The bucket of a signature: ascending buckets hold ascending ranges of signatures."""
    return int.from_bytes(signature[:4].ljust(4, b"\0"), "big") * buckets >> 32


def prefix_of(signature: bytes) -> bytes:
    """The part of a signature that is in its line."""
    return signature[:8].ljust(8, b"\0").hex().encode()


def pack_page(uid: bytes, head: Head, entries: Sequence[HashEntry]) -> bytes:
    """The bytes of a page, without the zeros at its end."""
    lines = [b"page %08d generation %012d\n" % each for each in head.chain]
    offset = head.lines_at + LINE_BYTES * len(entries)
    for entry in entries:
        checksum = bytes(entry.raw[310:318])
        lines.append(b"%b at %08d crc32 %b\n" % (prefix_of(entry.key.signature), offset, checksum))
        offset += len(entry.raw)
    text = _HEAD % (uid, *head[:6], len(head.chain), len(entries))
    table = b"".join(lines)
    return b"".join([text, b"crc32 %08x\n\n" % crc32(table, crc32(text)), table, *(entry.raw for entry in entries)])


def parse_head(raw: Buffer, uid: bytes) -> Head | None:
    """The head of a page of this volume; None if it is unsound."""
    if len(raw) < HEAD_BYTES:
        return None
    magic, owner, kind, *numbers, checksum, end = _FIELDS.unpack_from(raw)
    if magic != MAGIC or owner != uid or raw[_CHECKED_BYTES : _CHECKED_BYTES + 6] != b"crc32 " or end != b"\n\n":
        return None
    try:
        bucket, buckets, part, page, generation, chained, entries = map(int, numbers)
    except ValueError:
        return None
    lines_at = HEAD_BYTES + CHAIN_BYTES * chained
    table = memoryview(raw)[HEAD_BYTES : lines_at + LINE_BYTES * entries]
    if b"%08x" % crc32(table, crc32(raw[:_CHECKED_BYTES])) != checksum:
        return None
    chain = tuple(
        (int(raw[at + 5 : at + 13]), int(raw[at + 25 : at + 37])) for at in range(HEAD_BYTES, lines_at, CHAIN_BYTES)
    )
    return Head(kind.rstrip(), bucket, buckets, part, page, generation, chain, entries)


def lines(raw: Buffer, head: Head) -> list[tuple[int, bytes]]:
    """Offset and header checksum of each entry, in order."""
    start = head.lines_at
    return [
        (int(raw[at + 20 : at + 28]), bytes(raw[at + 35 : at + 43]))
        for at in range(start, start + LINE_BYTES * head.entries, LINE_BYTES)
    ]


def find_lines(raw: bytes, head: Head, signature: bytes) -> list[tuple[int, bytes]]:
    """As `lines`, of the entries that may have this signature."""
    start = head.lines_at
    end = start + LINE_BYTES * head.entries
    prefix = prefix_of(signature)
    found = []
    at = raw.find(prefix, start, end)
    while at >= 0:
        if (at - start) % LINE_BYTES == 0:
            found.append((int(raw[at + 20 : at + 28]), raw[at + 35 : at + 43]))
        at = raw.find(prefix, at + 1, end)
    return found


def read_entry(raw: Buffer, offset: int, checksum: bytes) -> HashEntry | None:
    """The entry of a line, its data not verified; None if its header does not match the line's checksum."""
    view = memoryview(raw)[offset:]
    header = block.parse(view[:HEADER_BYTES])
    if header is None or view[310:318] != checksum or len(view) < header.length:
        return None
    key, entry = key_of(header), view[: header.length]
    if header.kind != LARGE:
        return HashEntry(key, header, entry)
    text = bytes(entry[HEADER_BYTES:])
    if block.checksum(text) != header.checksum:
        return None
    large = LargeEntry(text[:7].rstrip(), int(text[11:19]), int(text[26:31]), int(text[39:51]), int(text[58:66], 16))
    return HashEntry(key, header, entry, large)


def large_entry(header: Header, page: int, pages: int) -> HashEntry:
    """The `large` entry for a block with this header, which has its own run of pages."""
    assert header.kind in (BLOCK, REPLICA)
    large = LargeEntry(header.kind, page, pages, header.stored, header.checksum)
    text = _LARGE % large
    stub = header._replace(kind=LARGE, stored=len(text), checksum=block.checksum(text))
    return HashEntry(key_of(header), stub, block.pack(stub) + text, large)


# -- damaged pages ----------------------------------------------------------------------------------------------------


class Salvaged(NamedTuple):
    """A page and what could be read of it. One wrong byte of the head, and of each header, is corrected."""

    id: PageId
    raw: bytes
    head: Head | None  # None: unreadable
    entries: list[tuple[int, HashEntry]]  # with their offsets; their data is not verified
    damaged: list[int]  # offsets of unsound headers
    head_is_sound: bool

    @property
    def is_whole(self) -> bool:
        """True if everything on the page is known."""
        return self.head is not None and len(self.entries) == self.head.entries


def salvaged_page(page: PageId, raw: bytes, uid: bytes) -> Salvaged:
    """What a page holds. Without a head, its blocks are found by their magic and verified by their checksums."""
    text, head = raw, parse_head(raw, uid)
    is_sound = head is not None and head.page == page.number
    if not is_sound:
        text = _with_mended_head(raw, uid) or b""
        head = parse_head(text, uid)
    if head is None or head.page != page.number:
        return Salvaged(page, raw, None, list(_by_magic(raw, uid)), [], head_is_sound=False)
    entries, damaged = [], []
    for offset, checksum in lines(text, head):
        entry = read_entry(text, offset, checksum)
        if entry is None:
            damaged.append(offset)
            entry = _mended_entry(text, offset, checksum)
        if entry is not None:
            entries.append((offset, entry))
    return Salvaged(page, raw, head, entries, damaged, is_sound)


def _by_magic(raw: bytes, uid: bytes) -> Iterator[tuple[int, HashEntry]]:
    """After its last block a page has only zeros: every block found was on the page."""
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


def _mended_entry(raw: bytes, offset: int, checksum: bytes) -> HashEntry | None:
    """The entry whose header has one wrong byte, corrected by the checksum in its line."""
    fixed = block.corrected(raw[offset : offset + 310], int(checksum, 16))
    if fixed is None:
        return None
    return read_entry(fixed + checksum + b"\n\n" + raw[offset + HEADER_BYTES :], 0, checksum)


def _with_mended_head(raw: bytes, uid: bytes) -> bytes | None:
    """The page with one wrong byte of its head or lines corrected by their checksum."""
    if len(raw) < HEAD_BYTES:
        return None
    checksum = raw[_CHECKED_BYTES + 6 : _CHECKED_BYTES + 14]
    raw = b"%bcrc32 %b\n\n%b" % (raw[:_CHECKED_BYTES], checksum, raw[HEAD_BYTES:])
    for at in (*_CHAINED_DIGITS, *_ENTRIES_DIGITS):  # they determine what the checksum covers
        for digit in b"0123456789":
            changed = raw[:at] + bytes([digit]) + raw[at + 1 :]
            if parse_head(changed, uid) is not None:
                return changed
    try:
        chained, entries = (int(raw[each.start : each.stop]) for each in (_CHAINED_DIGITS, _ENTRIES_DIGITS))
    except ValueError:
        return None
    end = HEAD_BYTES + CHAIN_BYTES * chained + LINE_BYTES * entries
    fixed = block.mended_text(raw[:_CHECKED_BYTES] + raw[HEAD_BYTES:end], checksum) if end <= len(raw) else None
    if fixed is None:
        return None
    text, checksum = fixed
    return b"%bcrc32 %b\n\n%b%b" % (text[:_CHECKED_BYTES], checksum, text[_CHECKED_BYTES:], raw[end:])
