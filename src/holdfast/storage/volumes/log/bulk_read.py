"""Bulk reads: many blocks by their slots, neighbours with one read, verified by column as a scan's spans are.

Signature, sizes and owner must match the keydir, and both checksums must hold. Blocks for which any of that fails are
left to the reader of single blocks, which reports why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from isal.isal_zlib import crc32

from holdfast.env import File
from holdfast.storage.block import BLOCK, CHECKED_BYTES, HEADER_BYTES, MAGIC
from holdfast.storage.volume import EncodedGroup, Gathered
from holdfast.storage.volumes.log.span import HEADER_END, HEADER_FIELDS, OWN_FIRST, are_checksums, encoding_of

RUN_BYTES: Final = 4 << 20  # most that is read with one call, unless one block is larger
GAP_BYTES: Final = 32 << 10  # between two wanted blocks, that is read rather than skipped
_SLOT = struct.Struct("<IxBIIQQQ24x")  # of a slot in the keydir: overflow, length of home, place, stored, size
_KIND = BLOCK.ljust(8)
_SIGNATURE_CHARS = 64
_OFFSET, _END, _SIZE, _PLACE = 2, 3, 4, 5


_Wanted = tuple[int, int, int, int, int, int]  # segment, generation, offset, end, size, and place in the request
_Read = tuple[_Wanted, memoryview]  # with the bytes of the block, header included


def gather(
    signatures: Sequence[bytes], packed: Sequence[bytes | None], open_file: Callable[[int, int], File], uid: bytes
) -> Gathered:
    """The volume's own blocks, overflow 0, of the signatures; `packed` are their slots."""
    alone = [place for place, slots in enumerate(packed) if slots is not None and len(slots) == _SLOT.size]
    fields = _SLOT.iter_unpack(b"".join([packed[place] or b"" for place in alone]))
    wanted = [
        (segment, generation, offset, offset + HEADER_BYTES + stored, size, place)
        for place, (overflow, home, segment, generation, offset, stored, size) in zip(alone, fields, strict=True)
        if not overflow and not home
    ]
    groups: dict[bytes, EncodedGroup] = {}
    for read, encodings in _sound(list(_read(sorted(wanted), open_file)), signatures, uid):
        for encoding in set(encodings):
            group = groups.setdefault(encoding, EncodedGroup(*encoding_of(encoding), [], [], []))
            chosen = [each for each, other in zip(read, encodings, strict=True) if other == encoding]
            group.indexes.extend([each[_PLACE] for each, _ in chosen])
            group.sizes.extend([each[_SIZE] for each, _ in chosen])
            group.data.extend([raw[HEADER_BYTES:] for _, raw in chosen])
    found = [place for group in groups.values() for place in group.indexes]
    left = set(range(len(signatures))).difference(found) if len(found) < len(signatures) else ()
    return Gathered(list(groups.values()), sorted(left))


def _read(wanted: list[_Wanted], open_file: Callable[[int, int], File]) -> Iterator[_Read]:
    """The blocks, unverified. What cannot be read, because it was compacted since, is left out."""
    for run in _runs(wanted):
        segment, generation, start, *_ = run[0]
        size = max([end for _, _, _, end, _, _ in run]) - start
        try:
            raw = memoryview(open_file(segment, generation).read(start, size))
        except FileNotFoundError:
            continue
        if len(raw) == size:
            yield from [(each, raw[each[_OFFSET] - start : each[_END] - start]) for each in run]


def _runs(wanted: list[_Wanted]) -> Iterator[list[_Wanted]]:
    """Blocks that lie close together in one file."""
    run: list[_Wanted] = []
    number = version = limit = near = 0
    for each in wanted:
        segment, generation, offset, end, _, _ = each
        if run and (segment != number or generation != version or offset > near or offset > limit):
            yield run
            run = []
        if not run:
            number, version, limit = segment, generation, offset + RUN_BYTES
        run.append(each)
        near = end + GAP_BYTES
    if run:
        yield run


def _sound(
    read: list[_Read], signatures: Sequence[bytes], uid: bytes
) -> Iterator[tuple[list[_Read], tuple[bytes, ...]]]:
    """The sound blocks, and how each is encoded."""
    if not read:
        return
    count = len(read)
    columns = zip(*[HEADER_FIELDS.unpack_from(raw) for _, raw in read], strict=True)
    magics, kinds, uids, _, names, owners, encodings, sizes, stored, _, data_checksums, checksums, ends = columns
    is_sound = (
        magics.count(MAGIC) == kinds.count(_KIND) == uids.count(uid) == ends.count(HEADER_END) == count
        and owners.count(OWN_FIRST) == count
        and list(names) == [signatures[each[_PLACE]].hex().encode().ljust(_SIGNATURE_CHARS) for each, _ in read]
        and are_checksums(checksums, [crc32(raw[:CHECKED_BYTES]) for _, raw in read])
        and are_checksums(data_checksums, [crc32(raw[HEADER_BYTES:]) for _, raw in read])
        and list(map(int, sizes)) == [each[_SIZE] for each, _ in read]
        and list(map(int, stored)) == [len(raw) - HEADER_BYTES for _, raw in read]
    )
    if is_sound:
        yield read, encodings
    elif count > 1:
        yield from _sound(read[: count // 2], signatures, uid)
        yield from _sound(read[count // 2 :], signatures, uid)
