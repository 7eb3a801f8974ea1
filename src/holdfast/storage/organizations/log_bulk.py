"""Reading many blocks of a log volume at once: places looked up together, neighbours read with one call.

Headers are checked as columns, not one by one: what they say of signature, sizes and encoding must be what the keydir
says, and both checksums must hold. A block for which any of that fails is left to whoever reads blocks alone, who knows
what may be the matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from isal.isal_zlib import crc32

from holdfast.env import File
from holdfast.storage.block import BLOCK, HEADER_BYTES, MAGIC
from holdfast.storage.volume import EncodedGroup, Gathered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RUN_BYTES = 4 << 20  # read with one call, and a block more at most
GAP_BYTES = 32 << 10  # of other blocks, that are read rather than skipped
_CHECKED_BYTES = 310
# Where in a header the texts stand; see `holdfast.storage.block`.
_BEGIN, _SIGNATURE, _HOME = slice(0, 28), slice(87, 151), slice(161, 188)
_SIGNATURE_CHARS = _SIGNATURE.stop - _SIGNATURE.start
_ENCODING = slice(195, 227)  # codec, 12 bytes, and from the 24th on the dictionary
_SIZE, _STORED, _DATA_CRC, _HEADER_CRC = slice(233, 245), slice(253, 265), slice(294, 302), slice(310, 318)
_OWN_FIRST = b"00000 home -               "  # overflow 0, and no home: the volume's own block


def slot_type() -> Any:
    """A slot as the keydir packs it, for those that are alone under their signature."""
    import numpy as np

    return np.dtype(
        [
            ("overflow", "<u4"),
            ("replica", "u1"),
            ("home", "u1"),
            ("segment", "<u4"),
            ("generation", "<u4"),
            ("offset", "<u8"),
            ("stored", "<u8"),
            ("size", "<u8"),
            ("references", "<u8"),
            ("count_serial", "<u8"),
            ("serial", "<u8"),
        ]
    )


class _Read(NamedTuple):
    """Blocks as they were read, none of them checked; in the same order."""

    places: list[int]  # among the slots
    headers: list[memoryview]
    data: list[memoryview]


def gather(
    signatures: Sequence[bytes],
    packed: Sequence[bytes | None],
    open_file: Callable[[int, int], File],
    uid: bytes,
) -> Gathered:
    """The volume's own blocks, overflow 0, of the signatures; `packed` are their slots."""
    import numpy as np

    kind = slot_type()
    alone = [index for index, each in enumerate(packed) if each is not None and len(each) == kind.itemsize]
    slots = np.frombuffer(b"".join([packed[index] or b"" for index in alone]), kind)
    is_own = (slots["overflow"] == 0) & (slots["home"] == 0)
    if not is_own.all():
        alone = [index for index, own in zip(alone, is_own.tolist(), strict=True) if own]
        slots = slots[is_own]
    groups: list[EncodedGroup] = []
    read = _read(slots, open_file)
    if read.places:
        asked = [alone[place] for place in read.places]
        begin = MAGIC + BLOCK.ljust(8) + b" " + uid
        sound, encodings = _checked(read, slots[read.places], [signatures[index] for index in asked], begin)
        sizes = slots["size"][read.places].tolist()
        for encoding in np.unique(encodings[sound]).tolist():
            chosen = np.flatnonzero(sound & (encodings == encoding)).tolist()
            columns = [asked[each] for each in chosen], [sizes[each] for each in chosen]
            data = [read.data[each] for each in chosen]
            groups.append(EncodedGroup(encoding[:12].rstrip().decode(), int(encoding[24:32], 16), *columns, data))
    if sum([len(group.indexes) for group in groups]) == len(signatures):
        return Gathered(groups, [])
    found = {index for group in groups for index in group.indexes}
    return Gathered(groups, [index for index in range(len(signatures)) if index not in found])


def _read(slots: NDArray[Any], open_file: Callable[[int, int], File]) -> _Read:
    import numpy as np

    order = np.lexsort((slots["offset"], slots["generation"], slots["segment"]))
    slots = slots[order]
    begins, datas = slots["offset"].tolist(), (slots["offset"] + HEADER_BYTES).tolist()
    ends = (slots["offset"] + HEADER_BYTES + slots["stored"]).tolist()
    places = order.tolist()
    read = _Read([], [], [])
    for first, behind in _runs(slots):
        start, size = begins[first], max(ends[first:behind]) - begins[first]
        try:
            raw = memoryview(open_file(int(slots["segment"][first]), int(slots["generation"][first])).read(start, size))
        except FileNotFoundError:  # compacted since
            continue
        if len(raw) != size:
            continue
        read.places.extend(places[first:behind])
        read.headers.extend([raw[at - start : at - start + HEADER_BYTES] for at in begins[first:behind]])
        bounds = zip(datas[first:behind], ends[first:behind], strict=True)
        read.data.extend([raw[at - start : end - start] for at, end in bounds])
    return read


def _runs(slots: NDArray[Any]) -> Iterable[tuple[int, int]]:
    """Slots in the order of files and offsets, cut where they do not lie close together in one file."""
    import numpy as np

    begins, files = slots["offset"], slots[["segment", "generation"]]
    ends = begins + HEADER_BYTES + slots["stored"]
    firsts = np.ones(len(slots), bool)
    firsts[1:] = (files[1:] != files[:-1]) | (begins[1:] > ends[:-1] + GAP_BYTES)
    parts = (begins - begins[firsts][np.cumsum(firsts) - 1]) // RUN_BYTES  # of runs that are too long
    firsts[1:] |= parts[1:] != parts[:-1]
    return pairwise([*np.flatnonzero(firsts).tolist(), len(slots)])


def _checked(
    read: _Read, slots: NDArray[Any], signatures: list[bytes], begin: bytes
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which blocks are sound, and how each is encoded."""
    import numpy as np

    headers = np.frombuffer(b"".join(read.headers), np.uint8).reshape(-1, HEADER_BYTES)
    expected = np.full((len(headers), _SIGNATURE_CHARS), 32, np.uint8)
    texts = np.frombuffer(b"".join(signatures).hex().encode(), np.uint8).reshape(len(headers), -1)
    expected[:, : texts.shape[1]] = texts
    sound: NDArray[Any] = (headers[:, _BEGIN] == np.frombuffer(begin, np.uint8)).all(axis=1)
    sound &= (headers[:, _SIGNATURE] == expected).all(axis=1)
    sound &= (headers[:, _HOME] == np.frombuffer(_OWN_FIRST, np.uint8)).all(axis=1)
    sound &= _decimal(headers[:, _SIZE]) == slots["size"]
    sound &= _decimal(headers[:, _STORED]) == slots["stored"]
    sound &= _hexadecimal(headers[:, _HEADER_CRC]) == np.array([crc32(each[:_CHECKED_BYTES]) for each in read.headers])
    sound &= _hexadecimal(headers[:, _DATA_CRC]) == np.array([crc32(each) for each in read.data])
    width = _ENCODING.stop - _ENCODING.start
    return sound, np.ascontiguousarray(headers[:, _ENCODING]).view(f"S{width}").ravel()


def _decimal(digits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    import numpy as np

    powers = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.uint64)
    values: NDArray[np.uint64] = (digits - np.uint8(48)).astype(np.uint64) @ powers
    return values


def _hexadecimal(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    import numpy as np

    values = np.where(digits >= 97, digits - np.uint8(87), digits - np.uint8(48)).astype(np.int64)
    powers = 16 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    result: NDArray[np.int64] = values @ powers
    return result
