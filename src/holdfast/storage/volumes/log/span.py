"""Spans: neighbouring entries of a segment, read with one call and verified together.

A span costs a tenth of what `segment.walk` costs: fields are taken from the fixed places of the headers, and every
check is made on columns. The checks are the same: magic, uid, ascending serials, and the checksums of header and data.
At the first entry that fails any of them the span ends, and `walk` goes on from there and names the damage.

A span is small, so that its data is still in the processor's cache when it is decoded.
"""

from __future__ import annotations

import struct
from binascii import unhexlify
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from operator import lt
from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env.files import File
from holdfast.storage.block import BLOCK, CHECKED_BYTES, HEADER_BYTES, MAGIC, REPLICA
from holdfast.storage.volume import Block, BlockKey, Encoded
from holdfast.storage.volumes.log.segment import Damage, SegmentEntry, walk

SPAN_BYTES: Final = 256 << 10
# Kind and uid, serial, signature, overflow and home, codec and dictionary, size, stored, references, checksum of the
# data and of the header; see `holdfast.storage.block`.
HEADER_FIELDS: Final = struct.Struct("11s8sx8s8x12s39x64s10x27s7x32s6x12s8x12s12x10s7x8s8x8s2s")
assert HEADER_FIELDS.size == HEADER_BYTES
_STORED = 8  # among the fields
HEADER_END: Final = b"\n\n"
_KINDS = {BLOCK.ljust(8): False, REPLICA.ljust(8): True}  # of blocks, and whether they are replicas
OWN_FIRST: Final = b"00000 home -               "  # overflow 0, home in the volume itself


class EntrySpan(NamedTuple):
    """Sound entries, in order. Columns hold header fields as text."""

    end: int  # offset behind the last entry
    offsets: list[int]
    data: list[memoryview]
    kinds: Sequence[bytes]
    serials: Sequence[bytes]
    signatures: Sequence[bytes]
    owners: Sequence[bytes]  # overflow and home
    encodings: Sequence[bytes]  # codec and dictionary
    sizes: Sequence[bytes]
    references: Sequence[bytes]

    @property
    def serial(self) -> int:
        """Serial of the last entry."""
        return int(self.serials[-1])

    def blocks(self, path: Path, seen: int) -> list[Block]:
        """The blocks and replicas with serials above `seen`. Counters are those of the headers."""
        signatures = _signatures(self.signatures)
        if self.owners.count(OWN_FIRST) == len(self.owners):
            keys = map(BlockKey, signatures)
        else:
            keys = map(BlockKey, signatures, *zip(*map(_owner, self.owners), strict=True))
        known = {text: encoding_of(text) for text in set(self.encodings)}
        codecs, dictionaries = zip(*map(known.__getitem__, self.encodings), strict=True)
        encoded = map(Encoded, codecs, dictionaries, map(int, self.sizes), self.data)
        replicas, counters = map(_KINDS.get, self.kinds), map(int, self.references)
        blocks = list(map(Block, keys, replicas, counters, encoded, repeat(path), self.offsets, map(int, self.serials)))
        if blocks[0].serial > seen and _KINDS.keys() >= set(self.kinds):
            return blocks
        return [block for block in blocks if block.replica is not None and block.serial > seen]


def walk_spans(
    file: File, uid: bytes, start: int, end: int, span_bytes: int = SPAN_BYTES
) -> Iterator[EntrySpan | SegmentEntry | Damage]:
    """As `segment.walk`, with sound entries in spans where possible."""
    floor = -1
    while start < end:
        length = min(span_bytes, end - start)
        span = _read_span(file.read(start, length), uid, start, floor)
        if span is not None:
            yield span
            start, floor = span.end, span.serial
            continue
        behind = start + length
        for step in walk(file, uid, start, end, floor):
            yield step
            if step.header is not None:
                floor = step.header.serial
            start = step.offset + (step.length if isinstance(step, Damage) else len(step.raw))
            if start >= behind:
                break


def _read_span(raw: bytes, uid: bytes, start: int, floor: int) -> EntrySpan | None:
    """The first sound entries of `raw`, perhaps not all; None if the first entry is unsound or incomplete."""
    rows, places = _headers(raw)
    if not rows:
        return None
    count, view = len(rows), memoryview(raw)
    data = [view[place + HEADER_BYTES : end] for place, end in pairwise(places)]
    magics, kinds, uids, serials, signatures, owners, encodings, sizes, _, references, *checks = zip(*rows, strict=True)
    data_checksums, header_checksums, ends = checks
    is_sound = (
        magics.count(MAGIC) == uids.count(uid) == ends.count(HEADER_END) == count
        and are_checksums(header_checksums, [crc32(view[place : place + CHECKED_BYTES]) for place in places[:-1]])
        and are_checksums(data_checksums, map(crc32, data))
        and int(serials[0]) > floor
        and all(map(lt, serials, serials[1:]))
    )
    if not is_sound:
        return _read_span(raw[: places[count // 2]], uid, start, floor)
    offsets = [start + place for place in places[:-1]]
    return EntrySpan(
        start + places[-1], offsets, data, kinds, serials, signatures, owners, encodings, sizes, references
    )


def _headers(raw: bytes) -> tuple[list[tuple[bytes, ...]], list[int]]:
    """The fields of the headers of complete entries, unverified, and where each entry begins; last, where they end."""
    rows, places = [], [0]
    place, last = 0, len(raw) - HEADER_BYTES
    unpack = HEADER_FIELDS.unpack_from
    while place <= last:
        row = unpack(raw, place)
        if not row[_STORED].isdigit():
            break
        place += HEADER_BYTES + int(row[_STORED])
        if place > len(raw):
            break
        rows.append(row)
        places.append(place)
    return rows, places


def are_checksums(texts: Sequence[bytes], checksums: Iterable[int]) -> bool:
    """True if the texts are these checksums in hexadecimal."""
    return struct.pack(f">{len(texts)}I", *checksums).hex().encode() == b"".join(texts)


def encoding_of(text: bytes) -> tuple[str, int]:
    """Codec and dictionary."""
    return text[:12].rstrip().decode(), int(text[24:], 16)


def _signatures(texts: Sequence[bytes]) -> list[bytes]:
    joined = b"".join(texts)
    if b" " in joined:  # shorter than their field
        return [unhexlify(text.rstrip()) for text in texts]
    raw = unhexlify(joined)
    width = len(raw) // len(texts)
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def _owner(text: bytes) -> tuple[int, bytes]:
    """Overflow and home."""
    home = text[11:].rstrip()
    return int(text[:5]), b"" if home == b"-" else home
