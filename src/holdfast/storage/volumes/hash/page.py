"""The bytes of a page: a bucket of the `hash` organization, or a bucket chained to one that overflowed.

    byte  text                                                     meaning
    ----  -------------------------------------------------------  --------------------------------------------
       0  HOLDFAST-BUCKET/1 9f3a61c2 bucket \\n                      magic and version, uid of the volume, kind
      35  bucket 00000012 of 00000064 part 0000 page 00000012\\n     whose blocks; page of the chain; page of the file
      87  generation 000000000042 chained 0001 entries 00007\\n      of this page; how many lines follow
     138  crc32 1a2b3c4d\\n\\n                                        of the bytes before, and of all lines
     154  page 00000003 generation 000000000041\\n                   for each chained page, 38 bytes; in part 0 only
          a1b2c3d4e5f60718 at 00000512 crc32 5e6f7a8b\\n             for each block, ascending, 44 bytes: how its
                                                                   signature begins, where it is, and the
                                                                   checksum that stands in its header
          blocks, as `holdfast.storage.block` describes
          zeros, to the end of the page

Kinds: `bucket` is part 0, at the bucket's own place; `chained` is another part, in the file of overflow buckets;
`moved` is what is left of a bucket that was split: its blocks are in buckets 2n and 2n+1 of the next generation.

So one checksum vouches for the lines, each line for a header, each header for its data: a page that was written in part
only is noticed, and a page can be read, searched and written without touching the data of its blocks. The generations
in part 0 vouch for the other parts.

A block that is larger than a page stands in a run of pages of its own in the file of overflow buckets, as it is. In its
bucket is an entry of kind `large`: the block's header, with the counter in force, and as its data a line of text,

    block   at 00000120 pages 00009 stored 000000512345 crc32 1a2b3c4d\\n
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env.files import Buffer
from holdfast.storage import block
from holdfast.storage.block import BLOCK, HEADER_BYTES, REPLICA, Header
from holdfast.storage.volume import BlockFacts, BlockKey

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
_HEAD = (
    b"HOLDFAST-BUCKET/1 %-8b %-7b\n"
    b"bucket %08d of %08d part %04d page %08d\n"
    b"generation %012d chained %04d entries %05d\n"
)
_FIELDS = struct.Struct("18s8sx7sx7x8s4x8s6x4s6x8sx11x12s9x4s9x5sx6x8s2s")
assert _FIELDS.size == HEAD_BYTES
_LARGE = b"%-7b at %08d pages %05d stored %012d crc32 %08x\n"


class PageId(NamedTuple):
    """Names a page: the generation of a bucket file, 0 for the file of overflow buckets, and its number there."""

    file: int
    number: int


class Head(NamedTuple):
    """What the head of a page says."""

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


class LargeEntry(NamedTuple):
    """Where a large block is."""

    kind: bytes  # block or replica
    page: int
    pages: int
    stored: int
    checksum: int


class HashEntry(NamedTuple):
    """A block in a bucket: its header and data, or, if it is large, what stands for them."""

    key: BlockKey
    header: Header
    raw: Buffer
    large: LargeEntry | None = None

    @property
    def cost(self) -> int:
        """Bytes of a page that it takes."""
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
        """Whether this is the header at the beginning of its run: the counter there may be an old one."""
        key, large = BlockKey(written.signature, written.overflow, written.home), self.large
        facts = (written.kind, written.stored, written.checksum)
        return large is not None and key == self.key and facts == (large.kind, large.stored, large.checksum)

    def counted(self, references: int) -> HashEntry:
        """The same with another counter."""
        header = self.header._replace(references=references)
        return self._replace(header=header, raw=block.pack(header) + bytes(self.raw[HEADER_BYTES:]))


def bucket_of(signature: bytes, buckets: int) -> int:
    """The bucket that a signature belongs to: buckets in ascending order hold ascending ranges of signatures."""
    return int.from_bytes(signature[:4].ljust(4, b"\0"), "big") * buckets >> 32


def prefix_of(signature: bytes) -> bytes:
    """What a line says of a signature."""
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
    """The head of a page of this volume; None if it is not sound."""
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
    """Of the entries that may have this signature."""
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
    """The entry that a line tells of, its data not verified; None if its header is not what the line vouches for."""
    view = memoryview(raw)[offset:]
    header = block.parse(view[:HEADER_BYTES])
    if header is None or view[310:318] != checksum or len(view) < header.length:
        return None
    key = BlockKey(header.signature, header.overflow, header.home)
    entry = view[: header.length]
    if header.kind != LARGE:
        return HashEntry(key, header, entry)
    text = bytes(entry[HEADER_BYTES:])
    if block.checksum(text) != header.checksum:
        return None
    large = LargeEntry(text[:7].rstrip(), int(text[11:19]), int(text[26:31]), int(text[39:51]), int(text[58:66], 16))
    return HashEntry(key, header, entry, large)


def large_entry(header: Header, page: int, pages: int) -> HashEntry:
    """What stands in the bucket for a block with this header, which is in a run of its own."""
    assert header.kind in (BLOCK, REPLICA)
    large = LargeEntry(header.kind, page, pages, header.stored, header.checksum)
    text = _LARGE % large
    stub = header._replace(kind=LARGE, stored=len(text), checksum=block.checksum(text))
    return HashEntry(BlockKey(header.signature, header.overflow, header.home), stub, block.pack(stub) + text, large)
