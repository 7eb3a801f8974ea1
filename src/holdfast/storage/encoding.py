"""Between contents and encoded blocks: which codec a content gets, and which dictionary decodes a block.

Dictionaries belong to volumes: each volume holds all that its blocks need, so that it can be read by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, UsageError
from holdfast.storage.codec import AUTO, NONE, ZSTD, ZSTD_DICT, Codec, Dictionary, compressible, find_codec
from holdfast.storage.spread import Spread
from holdfast.storage.volume import Block, Encoded, ReadableVolume


class Encodings:
    """Thread-safe. Keeps every dictionary it has seen: a volume has a handful."""

    def __init__(self, volumes: Mapping[str, ReadableVolume] | None = None) -> None:
        """`volumes` are those that may help each other out with dictionaries."""
        self._volumes = volumes if volumes is not None else {}
        self._dictionaries: dict[tuple[str, int], Dictionary] = {}
        self._newest: dict[str, Dictionary | None] = {}
        self._lock = threading.Lock()
        self._spread = Spread()

    def encode(self, content: Buffer, codec: str, content_type: str | None, volume: ReadableVolume) -> Encoded:
        """The content as the volume shall keep it. A codec that does not make it smaller is not used."""
        size = len(content)
        chosen = self._choose(content, codec, content_type, volume)
        data = chosen.encode(content)
        if chosen is NONE or (codec == AUTO and len(data) >= size):
            return Encoded(NONE.name, 0, size, bytes(content))
        return Encoded(chosen.name, chosen.id if isinstance(chosen, Dictionary) else 0, size, data)

    def _choose(self, content: Buffer, codec: str, content_type: str | None, volume: ReadableVolume) -> Codec:
        if codec == AUTO:
            if not compressible(content, content_type):
                return NONE
            return self.newest(volume) or ZSTD
        if codec != ZSTD_DICT:
            return find_codec(codec)
        dictionary = self.newest(volume)
        if dictionary is None:
            raise UsageError(
                f"volume {volume.name!r} has no dictionary for codec 'zstd-dict'; "
                f"run 'holdfast volume train {volume.name}'"
            )
        return dictionary

    def newest(self, volume: ReadableVolume) -> Dictionary | None:
        """The dictionary that new contents of the volume use."""
        try:
            return self._newest[volume.name]
        except KeyError:
            pass
        found = volume.dictionary()
        newest = self._remember(volume.name, found) if found else None
        self._newest[volume.name] = newest
        return newest

    def adopt(self, volume: ReadableVolume, dictionary: Dictionary) -> None:
        """The volume has this dictionary now, for contents to come."""
        with self._lock:
            self._dictionaries[volume.name, dictionary.id] = dictionary
        self._newest[volume.name] = dictionary

    def _remember(self, name: str, found: tuple[int, bytes]) -> Dictionary:
        number, data = found
        with self._lock:
            known = self._dictionaries.get((name, number))
            if known is None:
                known = self._dictionaries[name, number] = Dictionary(data)
            return known

    def codec_of(self, encoded: Encoded, volume: ReadableVolume) -> Codec:
        """The codec that decodes a block of the volume."""
        if encoded.codec != ZSTD_DICT:
            return find_codec(encoded.codec)
        known = self._dictionaries.get((volume.name, encoded.dictionary))
        if known is not None:
            return known
        found = self._find_dictionary(volume, encoded.dictionary)
        if found is None:
            raise DamagedBlock(
                f"volume {volume.name!r} has no dictionary {encoded.dictionary:08x}; run 'holdfast check'"
            )
        return self._remember(volume.name, found)

    def _find_dictionary(self, volume: ReadableVolume, number: int) -> tuple[int, bytes] | None:
        """The volume's dictionary or, if it lost it, one of the same id that another volume has."""
        try:
            found = volume.dictionary(number)
        except DamagedBlock:
            found = None
        others = (other for other in self._volumes.values() if other is not volume)
        return found or next((found for other in others if (found := other.dictionary(number)) is not None), None)

    def decode(self, block: Block, volume: ReadableVolume) -> bytes:
        encoded = block.encoded
        return self.codec_of(encoded, volume).decode(encoded.data, encoded.size)

    def decode_all(self, blocks: Sequence[Block], volume: ReadableVolume) -> list[bytes]:
        """Like `decode` for each, on all cores."""
        return self._spread.map(lambda block: self.decode(block, volume), blocks)

    def close(self) -> None:
        self._spread.close()
