"""Which volumes may hold a signature, at a cost that does not grow with their number (W6).

A bit-sliced bloom filter: an array of bit masks, one bit per volume. A signature selects five masks; the volumes
whose bit is set in all five may hold it, all others surely do not. One look-up thus covers up to 64 volumes (more
share bits). A false positive costs one probe, about once in 700 signatures per volume.

The filter is derived. A clean close saves it together with each volume's position. If a position differs at the next
opening, that volume's part is rebuilt from its signatures (see `bloom_sync`). Removed signatures stay in until then.

Saved form: `HOLDFAST-FILTER/1` and the crc32 of all that follows, on a line; a JSON line with the volumes, their
positions and counts; the masks, in the byte order of the machine, which the JSON line names.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.env import Environment
from holdfast.env.files import read_file, replace_file
from holdfast.storage import block

MASKS_PER_KEY_MIN = 16
_LENGTH_MIN = 1 << 12
_MAGIC = b"HOLDFAST-FILTER/1"
_WORDS = struct.Struct("<5I")
_BITS_MAX = 64


class BloomFilter:
    """`names` fixes the bit of each volume. Any thread may query; the owner lets one at a time add."""

    def __init__(self, names: Sequence[str], keys: int = 0) -> None:
        self.names = list(names)
        self._bits = {name: 1 << (index % _BITS_MAX) for index, name in enumerate(names)}
        self._typecode = _typecode(len(names))
        self._counts = dict.fromkeys(names, 0)
        length = _LENGTH_MIN
        while length < keys * MASKS_PER_KEY_MIN:
            length *= 2
        self._masks = array(self._typecode, bytes(length * array(self._typecode).itemsize))

    def add(self, signature: bytes, name: str) -> None:
        bit = self._bits[name]
        masks = self._masks
        for position in self._positions(signature):
            masks[position] |= bit
        self._counts[name] += 1

    def extend(self, name: str) -> None:
        """One more volume, of which nothing is known yet. Concurrent queries see the filter as it was."""
        self._bits = self._bits | {name: 1 << (len(self.names) % _BITS_MAX)}
        self.names = [*self.names, name]
        self._counts = self._counts | {name: 0}
        if _typecode(len(self.names)) != self._typecode:
            self._typecode = _typecode(len(self.names))
            self._masks = array(self._typecode, self._masks)

    def refill(self, name: str, signatures: Iterable[bytes]) -> None:
        """Replaces all that is known of one volume. Concurrent queries see the filter as it was."""
        filled = BloomFilter([])
        filled.names, filled._bits, filled._typecode = self.names, self._bits, self._typecode
        filled._counts = self._counts | {name: 0}
        filled._masks = self._masks[:] if self._shares_its_bit(name) else self._without(self._bits[name])
        for signature in signatures:
            filled.add(signature, name)
        self._masks, self._counts = filled._masks, filled._counts

    def _shares_its_bit(self, name: str) -> bool:
        return list(self._bits.values()).count(self._bits[name]) > 1

    def _without(self, bit: int) -> array[int]:
        """The masks without one bit: as one long number, because a loop over millions of masks takes seconds."""
        width = self._masks.itemsize
        kept = (~bit & ((1 << 8 * width) - 1)).to_bytes(width, sys.byteorder) * len(self._masks)
        masks = int.from_bytes(self._masks.tobytes(), sys.byteorder) & int.from_bytes(kept, sys.byteorder)
        return array(self._typecode, masks.to_bytes(len(kept), sys.byteorder))

    def may_hold(self, signature: bytes) -> list[str]:
        """Names of the volumes that may hold the signature, in the order of `names`."""
        masks = self._masks
        a, b, c, d, e = self._positions(signature)
        common = masks[a] & masks[b] & masks[c] & masks[d] & masks[e]
        if not common:
            return []
        return [name for name, bit in self._bits.items() if common & bit]

    @property
    def crowded(self) -> bool:
        """Whether it is time to build a larger one."""
        return max(self._counts.values(), default=0) * MASKS_PER_KEY_MIN > len(self._masks)

    @property
    def keys(self) -> int:
        """Signatures of the fullest volume."""
        return max(self._counts.values(), default=0)

    def _positions(self, signature: bytes) -> tuple[int, ...]:
        words = signature if len(signature) >= 20 else hashlib.blake2b(signature, digest_size=20).digest()
        a, b, c, d, e = _WORDS.unpack_from(words, len(words) - 20)
        mask = len(self._masks) - 1
        return a & mask, b & mask, c & mask, d & mask, e & mask

    # -- saving -----------------------------------------------------------------------------------------------------

    def save(self, env: Environment, path: Path, positions: Mapping[str, int]) -> None:
        facts = {
            "names": self.names,
            "positions": dict(positions),
            "counts": self._counts,
            "byteorder": sys.byteorder,
        }
        body = json.dumps(facts).encode() + b"\n" + self._masks.tobytes()
        replace_file(env.files, path, b"%b %08x\n%b" % (_MAGIC, block.checksum(body), body))

    @classmethod
    def read(cls, env: Environment, path: Path) -> tuple[BloomFilter, dict[str, int]] | None:
        """The saved filter and the positions it was saved with, if it is sound; None otherwise."""
        try:
            raw = read_file(env.files, path)
        except FileNotFoundError:
            return None
        head, _, body = raw.partition(b"\n")
        if head != b"%b %08x" % (_MAGIC, block.checksum(body)):
            return None
        line, _, masks = body.partition(b"\n")
        facts = json.loads(line)
        if facts.get("byteorder") != sys.byteorder:
            return None
        loaded = cls(facts["names"])
        loaded._masks = array(loaded._typecode, masks)
        loaded._counts = facts["counts"]
        return loaded, facts["positions"]

    @classmethod
    def load(cls, env: Environment, path: Path, positions: Mapping[str, int]) -> BloomFilter | None:
        """The saved filter, if it is sound and says what the volumes say; None otherwise."""
        found = cls.read(env, path)
        if found is None or found[1] != dict(positions) or found[0].names != list(positions):
            return None
        return found[0]


def _typecode(volumes: int) -> str:
    return next(code for code, width in zip("BHIQ", (8, 16, 32, 64), strict=True) if volumes <= width or width == 64)


def build_filter(sources: Mapping[str, Callable[[], Iterable[bytes]]]) -> BloomFilter:
    """A filter of everything the volumes hold now, with room for twice as much."""
    keys = 0
    while True:
        built = BloomFilter(list(sources), keys)
        for name, signatures in sources.items():
            for signature in signatures():
                built.add(signature, name)
        if not built.crowded:
            return built
        keys = 2 * built.keys
