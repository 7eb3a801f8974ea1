"""Contents by signature, whatever record holds them: what a node sends to others, and what it need not request.

A block is sent encoded as it is stored. If it needs a dictionary that the receiver does not have, that is sent once.
The receiver decodes it and compares the signature, so a damaged or wrong block is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.archive.archive import Archive
from holdfast.errors import Damaged, HoldfastError
from holdfast.storage.codec import ALIAS, ZSTD_DICT, Codec, Dictionary, find_codec
from holdfast.storage.volume import Block, Encoded, ReadableVolume


class LocalBlocks:
    """The blocks of this node's archive. Any thread may call any method."""

    def __init__(self, archive: Archive) -> None:
        self._store = archive.instance

    def missing(self, signatures: Sequence[bytes]) -> list[bytes]:
        """Those of which no sound block is here, each once."""
        left = list(dict.fromkeys(signatures))
        for volume in self._volumes():
            if left:
                found = volume.probe(left)
                left = [
                    signature
                    for signature, facts in zip(left, found, strict=True)
                    if all(each.damaged or each.moving for each in facts)
                ]
        return left

    def content(self, signature: bytes) -> bytes | None:
        """A content of this signature; None if there is no sound block."""
        found = self._block(signature)
        return self._store.decoded(*found) if found is not None else None

    def encoded(self, signature: bytes) -> Encoded | None:
        """A block as it is sent: as it is stored, unless it only stands for another one."""
        found = self._block(signature)
        if found is None:
            return None
        block, volume = found
        if block.encoded.codec != ALIAS:
            return block.encoded
        content = self._store.decoded(block, volume)
        return Encoded("none", 0, len(content), content)

    def dictionary(self, number: int) -> bytes | None:
        for volume in self._volumes():
            if (found := volume.dictionary(number)) is not None:
                return found[1]
        return None

    def _block(self, signature: bytes) -> tuple[Block, ReadableVolume] | None:
        for volume in self._volumes():
            for facts in volume.probe([signature])[0]:
                if facts.damaged or facts.moving:
                    continue
                try:
                    (block,) = volume.fetch([facts.key])
                    if block is not None:
                        self._store.encodings.check(block, volume)
                        return block, volume
                except Damaged:
                    continue  # noted by the volume
        return None

    def _volumes(self) -> list[ReadableVolume]:
        return [volume for name, volume in self._store.volumes.items() if self._store.is_up(name)]


class BlockDecoder:
    """Decodes blocks of one other node, with its dictionaries. One thread at a time."""

    def __init__(self, sign: Callable[[Sequence[bytes]], list[bytes]], dictionary: Callable[[int], bytes]) -> None:
        """`dictionary` requests one by its number."""
        self._sign = sign
        self._dictionary = dictionary
        self._dictionaries: dict[int, Dictionary] = {}

    def decode(self, signature: bytes, encoded: Encoded) -> bytes | None:
        """The content, if it has the signature; None otherwise."""
        try:
            content = self._codec(encoded).decode(encoded.data, encoded.size)
        except HoldfastError:
            return None
        return content if self._sign([content])[0] == signature else None

    def _codec(self, encoded: Encoded) -> Codec:
        if encoded.codec != ZSTD_DICT:
            return find_codec(encoded.codec)
        known = self._dictionaries.get(encoded.dictionary)
        if known is None:
            known = self._dictionaries[encoded.dictionary] = Dictionary(self._dictionary(encoded.dictionary))
        return known
