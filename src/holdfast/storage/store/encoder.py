"""Contents to encoded blocks and back: which codec a content gets, and which dictionary decodes a block.

Dictionaries belong to volumes: each volume holds all that its blocks need, so that it can be read by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from holdfast.env.files import Buffer
from holdfast.env.thread_map import ThreadMap
from holdfast.errors import DamagedBlock, UsageError, VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.codec import (
    ALIAS,
    AUTO,
    NONE,
    ZSTD,
    ZSTD_DICT,
    BulkCodec,
    Codec,
    Dictionary,
    compressible,
    find_codec,
)
from holdfast.storage.volume import Block, Encoded, EncodedGroup, ReadableVolume


def alias_target(block: Block, volume: ReadableVolume) -> ContentKey:
    """The content that an alias stands for: one with its signature, stored in the volume where the alias is."""
    return ContentKey(volume.name, block.key.signature, block.encoded.dictionary)


class Encodings:
    """Thread-safe. Keeps every dictionary it has seen: a volume has a handful."""

    def __init__(
        self,
        volumes: Callable[[], Mapping[str, ReadableVolume]] = dict,
        content: Callable[[ContentKey], bytes] | None = None,
    ) -> None:
        """`volumes` gives those that may help each other out with dictionaries, `content` what an alias stands for."""
        self._volumes = volumes
        self._content = content
        self._dictionaries: dict[tuple[str, int], Dictionary] = {}
        self._own: set[tuple[str, int]] = set()  # those that the volume surely has itself
        self._newest: dict[str, Dictionary | None] = {}
        self._lock = threading.Lock()
        self._threads = ThreadMap()

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

    def forget(self, name: str) -> None:
        """The volume of that name is another one now, or gone."""
        with self._lock:
            for known in [known for known in self._dictionaries if known[0] == name]:
                del self._dictionaries[known]
            self._own = {known for known in self._own if known[0] != name}
        self._newest.pop(name, None)

    def dictionary(self, volume: ReadableVolume, number: int) -> tuple[int, bytes] | None:
        """The volume's own dictionary of that number."""
        if (volume.name, number) in self._own:  # the others were borrowed
            return number, self._dictionaries[volume.name, number].data
        found = volume.dictionary(number)
        if found is not None:
            self._remember(volume.name, found)
            self._own.add((volume.name, number))
        return found

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

    def check(self, block: Block, volume: ReadableVolume) -> None:
        """Raises DamagedBlock if nothing is known that decodes the block."""
        if block.encoded.codec != ALIAS:
            self.codec_of(block.encoded, volume)

    def _find_dictionary(self, volume: ReadableVolume, number: int) -> tuple[int, bytes] | None:
        """The volume's dictionary or, if it lost it, one of the same id that another volume has."""
        for each in (volume, *(other for other in self._volumes().values() if other is not volume)):
            try:
                found = each.dictionary(number)
            except (DamagedBlock, VolumeDown):
                continue
            if found is not None:
                return found
        return None

    def decode(self, block: Block, volume: ReadableVolume) -> bytes:
        encoded = block.encoded
        if encoded.codec == ALIAS and self._content is not None:
            return self._content(alias_target(block, volume))
        return self.codec_of(encoded, volume).decode(encoded.data, encoded.size)

    def decode_all(self, blocks: Sequence[Block], volume: ReadableVolume) -> list[bytes]:
        """Like `decode` for each, on all cores."""
        return self._threads.map(lambda block: self.decode(block, volume), blocks)

    def decode_group(self, group: EncodedGroup, volume: ReadableVolume, threads: int) -> list[Buffer] | None:
        """The contents of a group, many at a time; None if they are to be decoded alone."""
        if group.codec == NONE.name:
            return [*group.data] if [len(each) for each in group.data] == group.sizes else None
        if group.codec == ALIAS:
            return None
        codec = self.codec_of(Encoded(group.codec, group.dictionary, 0, b""), volume)
        try:
            return [*codec.decode_many(group.data, group.sizes, threads)] if isinstance(codec, BulkCodec) else None
        except DamagedBlock:
            return None  # whoever decodes them alone finds out which

    def close(self) -> None:
        self._threads.close()
