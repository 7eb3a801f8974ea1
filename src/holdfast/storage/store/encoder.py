"""The encoder: contents to blocks and back, with the choice of codec and dictionary.

Dictionaries belong to volumes: each volume holds those that its blocks need, so that it can be read alone.

Processes that read contents may encode them before they are stored (`ContentEncoder`): the one writer then only appends
(`EncodedContent`). If the volume cannot hold a content as it was encoded, it is encoded again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from mmap import mmap

from holdfast.env.files import Buffer
from holdfast.errors import DamagedBlock, UsageError, VolumeDown
from holdfast.model import ContentKey
from holdfast.storage.block import checksum
from holdfast.storage.codec import (
    ALIAS,
    AUTO,
    NONE,
    ZSTD,
    ZSTD_DICT,
    BulkCodec,
    Codec,
    Dictionary,
    ZstdCodec,
    compressible,
    find_codec,
)
from holdfast.storage.volume import Block, Encoded, EncodedGroup, ReadableVolume


def alias_target(block: Block, volume: ReadableVolume) -> ContentKey:
    """The content that an alias stands for: one with its signature in the same volume."""
    return ContentKey(volume.name, block.key.signature, block.encoded.dictionary)


@dataclass(frozen=True, slots=True)
class ContentEncoding:
    """How new contents of a volume are encoded with codec `auto`, for processes that do it."""

    dictionary: bytes = b""  # empty: none


@dataclass(frozen=True, slots=True)
class EncodedContent:
    """A content that was encoded before it is stored; decoded only if its bytes are needed."""

    encoded: Encoded

    def __len__(self) -> int:
        return self.encoded.size


class SeenSignatures:
    """Signatures that came before, in memory shared with processes forked from this one. Forgets some, invents none.

    A table of slots; each holds a part of the last signature that belongs there. Any process may add at any time.
    """

    _SLOTS = 1 << 20
    _SLOT_BYTES = 8

    def __init__(self) -> None:
        self._memory = mmap(-1, self._SLOTS * self._SLOT_BYTES)

    def add(self, signature: bytes) -> bool:
        """True if it came before."""
        at = int.from_bytes(signature[:4], "big") % self._SLOTS * self._SLOT_BYTES
        part = signature[-self._SLOT_BYTES :].ljust(self._SLOT_BYTES, b"\0")
        if self._memory[at : at + self._SLOT_BYTES] == part:
            return True
        self._memory[at : at + self._SLOT_BYTES] = part
        return False


class ContentEncoder:
    """Encodes contents in another process than the one that stores them. For one thread."""

    def __init__(self, encoding: ContentEncoding, seen: SeenSignatures | None = None) -> None:
        self._seen = seen or SeenSignatures()
        self._encoding = ContentEncoding()
        self._dictionary: Dictionary | None = None
        self.use(encoding)

    def use(self, encoding: ContentEncoding) -> None:
        """From now on; what was encoded before stays valid."""
        if encoding != self._encoding:
            self._encoding = encoding
            self._dictionary = Dictionary(encoding.dictionary) if encoding.dictionary else None

    def encode(self, content: bytes, content_type: str, signature: bytes) -> bytes | EncodedContent:
        """The content, encoded; as it is if it came before, because a duplicate is not stored again."""
        if self._seen.add(signature):
            return content
        return EncodedContent(_encoded(content, AUTO, content_type, self._dictionary))


def _encoded(content: Buffer, codec: str, content_type: str | None, dictionary: Dictionary | None) -> Encoded:
    """With `auto`, a codec is used only if it makes the content smaller."""
    size = len(content)
    if codec == AUTO:
        chosen: Codec = (dictionary or ZSTD) if compressible(content, content_type) else NONE
    else:
        chosen = dictionary if codec == ZSTD_DICT and dictionary is not None else find_codec(codec)
    data = chosen.encode(content)
    if chosen is NONE or (codec == AUTO and len(data) >= size):
        data = bytes(content)
        return Encoded(NONE.name, 0, size, data, checksum(data))
    return Encoded(chosen.name, chosen.id if isinstance(chosen, Dictionary) else 0, size, data, checksum(data))


def _encoding_of(block: Block) -> tuple[str, int]:
    return block.encoded[:2]


class Encodings:
    """Thread-safe. Keeps every dictionary it has seen; a volume has only a few."""

    def __init__(
        self,
        volumes: Callable[[], Mapping[str, ReadableVolume]] = dict,
        content: Callable[[ContentKey], bytes] | None = None,
    ) -> None:
        """`volumes` returns those that may share dictionaries, `content` the content of an alias."""
        self._volumes = volumes
        self._content = content
        self._dictionaries: dict[tuple[str, int], Dictionary] = {}
        self._own: set[tuple[str, int]] = set()  # dictionaries that the volume itself has
        self._newest: dict[str, Dictionary | None] = {}
        self._lock = threading.Lock()

    def encode(
        self, content: Buffer | EncodedContent, codec: str, content_type: str | None, volume: ReadableVolume
    ) -> Encoded:
        """Encodes a content for the volume, unless it is encoded already and the volume can hold it so."""
        if isinstance(content, EncodedContent):
            if codec == AUTO and self._can_hold(volume, content.encoded):
                return content.encoded
            content = self.plain(content)
        dictionary = self.newest(volume) if codec in (AUTO, ZSTD_DICT) else None
        if codec == ZSTD_DICT and dictionary is None:
            raise UsageError(
                f"volume {volume.name!r} has no dictionary for codec 'zstd-dict'; "
                f"run 'holdfast volume train {volume.name}'"
            )
        return _encoded(content, codec, content_type, dictionary)

    def _can_hold(self, volume: ReadableVolume, encoded: Encoded) -> bool:
        try:
            return encoded.codec != ZSTD_DICT or self.dictionary(volume, encoded.dictionary) is not None
        except (DamagedBlock, VolumeDown):
            return False

    def plain(self, content: Buffer | EncodedContent) -> Buffer:
        """The bytes of a content. Raises DamagedBlock if they cannot be decoded."""
        if not isinstance(content, EncodedContent):
            return content
        encoded = content.encoded
        known = (each for (_, number), each in self._dictionaries.items() if number == encoded.dictionary)
        codec = find_codec(encoded.codec) if encoded.codec != ZSTD_DICT else next(known, None)
        if codec is None:
            raise DamagedBlock(f"no volume has dictionary {encoded.dictionary:08x}")
        return codec.decode(encoded.data, encoded.size)

    def newest(self, volume: ReadableVolume) -> Dictionary | None:
        """The dictionary for new contents of the volume."""
        try:
            return self._newest[volume.name]
        except KeyError:
            pass
        found = volume.dictionary()
        newest = self._remember(volume.name, found) if found else None
        self._newest[volume.name] = newest
        return newest

    def adopt(self, volume: ReadableVolume, dictionary: Dictionary) -> None:
        """New contents of the volume use this dictionary."""
        with self._lock:
            self._dictionaries[volume.name, dictionary.id] = dictionary
        self._newest[volume.name] = dictionary

    def forget(self, name: str) -> None:
        """Drops the dictionaries of a volume that was replaced or removed."""
        with self._lock:
            for known in [known for known in self._dictionaries if known[0] == name]:
                del self._dictionaries[known]
            self._own = {known for known in self._own if known[0] != name}
        self._newest.pop(name, None)

    def dictionary(self, volume: ReadableVolume, number: int) -> tuple[int, bytes] | None:
        """The volume's own dictionary with this id."""
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
        """The codec that decodes a block of the volume. Raises DamagedBlock."""
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
        """Raises DamagedBlock if no known codec or dictionary decodes the block."""
        if block.encoded.codec != ALIAS:
            self.codec_of(block.encoded, volume)

    def _find_dictionary(self, volume: ReadableVolume, number: int) -> tuple[int, bytes] | None:
        """The volume's dictionary or, if it is lost, the same one from another volume."""
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
        """Like `decode` for each: what neighbours have in common is looked up once.

        In the calling thread: several of them took twice the processor time, waiting for the interpreter's lock.
        """
        contents: list[bytes] = []
        for name, some in groupby(blocks, key=_encoding_of):
            run = list(some)
            codec = None if name[0] == ALIAS else self.codec_of(run[0].encoded, volume)
            if isinstance(codec, ZstdCodec):
                encoded = [block.encoded for block in run]
                contents += codec.decode_each([each.data for each in encoded], [each.size for each in encoded])
            else:
                contents += [self.decode(block, volume) for block in run]
        return contents

    def decode_group(self, group: EncodedGroup, volume: ReadableVolume, threads: int) -> list[Buffer] | None:
        """Decodes the contents of a group together; None if they must be decoded one by one."""
        if group.codec == NONE.name:
            return [*group.data] if [len(each) for each in group.data] == group.sizes else None
        if group.codec == ALIAS:
            return None
        codec = self.codec_of(Encoded(group.codec, group.dictionary, 0, b""), volume)
        try:
            return [*codec.decode_many(group.data, group.sizes, threads)] if isinstance(codec, BulkCodec) else None
        except DamagedBlock:
            return None  # decoding them one by one shows which
