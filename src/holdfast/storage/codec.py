"""Codecs: how a content becomes the bytes of a block (W10).

A codec is chosen per content, by its type or by the caller, and named in the block's header, so that one volume can mix
codecs. Clients compress; volumes hold opaque bytes. Other codecs are found by name through the entry point group
`holdfast.codecs`.

`zstd-dict` needs a dictionary, which a volume keeps with its blocks (`Dictionary`). Compressor objects are kept per
thread: a new one per content costs five times as much as the compression.
"""

from __future__ import annotations

import threading
import zlib
from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import zstandard

from holdfast.env.files import Buffer
from holdfast.env.plugins import plugins
from holdfast.errors import DamagedBlock, UnknownName

ENTRY_POINT_GROUP = "holdfast.codecs"
CODEC_NAME_MAX = 12  # characters in a block's header
ZSTD_LEVEL = 3
ZLIB_LEVEL = 6
BROTLI_QUALITY = 5
# Level 3 with smaller tables: each content begins with a copy of the dictionary's.
_DICTIONARY_PARAMETERS = zstandard.ZstdCompressionParameters(
    window_log=20,
    hash_log=15,  # level 3 has 16
    chain_log=13,  # level 3 has 15
    min_match=5,
    strategy=zstandard.STRATEGY_DFAST,
    write_dict_id=True,
)
AUTO = "auto"
ZSTD_DICT = "zstd-dict"
ALIAS = "alias"  # no data: the content of another block, see `maintenance/merge`
# Of contents that are decoded with one call. They share an allocation, and the C library gives large ones back to the
# kernel, which then clears each page again: 24 instead of 15 us for a page of 27 KB.
_TOGETHER_BYTES = 512 << 10


def _parts(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours with no more bytes than that, unless a single one has more."""
    start = total = 0
    for index, size in enumerate(sizes):
        total += size
        if total > most and index > start:
            yield start, index
            start, total = index, size
    if sizes:
        yield start, len(sizes)


class Codec(Protocol):
    """Turns contents into stored bytes and back. Both methods may be called from any thread."""

    @property
    def name(self) -> str: ...
    def encode(self, content: Buffer) -> Buffer: ...
    def decode(self, stored: Buffer, size: int) -> bytes:
        """The content, of exactly `size` bytes. Raises DamagedBlock otherwise; never returns more."""


@runtime_checkable
class BulkCodec(Protocol):
    """A codec that decodes many contents at once, on several cores, without the interpreter lock."""

    def decode_many(self, stored: list[memoryview], sizes: list[int], threads: int) -> list[memoryview]:
        """The contents, in shared memory. Raises DamagedBlock if one of them cannot be decoded."""


class NoneCodec:
    """The content as it is."""

    name = "none"

    def encode(self, content: Buffer) -> Buffer:
        return content

    def decode(self, stored: Buffer, size: int) -> bytes:
        return _sized(bytes(stored), size, self.name)


class ZlibCodec:
    """Webstore's codec."""

    name = "zlib"

    def encode(self, content: Buffer) -> bytes:
        return zlib.compress(content, ZLIB_LEVEL)

    def decode(self, stored: Buffer, size: int) -> bytes:
        try:
            content = zlib.decompressobj().decompress(stored, size + 1)
        except zlib.error as error:
            raise _undecodable(self.name, error) from error
        return _sized(content, size, self.name)


class ZstdCodec:
    """The default for everything worth compressing."""

    name = "zstd"

    def __init__(
        self,
        dictionary: zstandard.ZstdCompressionDict | None = None,
        parameters: zstandard.ZstdCompressionParameters | None = None,
    ) -> None:
        """`parameters` take the place of the level."""
        self._dictionary = dictionary
        self._parameters = parameters or zstandard.ZstdCompressionParameters(compression_level=ZSTD_LEVEL)
        self._perthread = threading.local()

    def encode(self, content: Buffer) -> bytes:
        compressor: zstandard.ZstdCompressor | None = getattr(self._perthread, "compressor", None)
        if compressor is None:
            compressor = zstandard.ZstdCompressor(compression_params=self._parameters, dict_data=self._dictionary)
            self._perthread.compressor = compressor
        return compressor.compress(content)

    def decode(self, stored: Buffer, size: int) -> bytes:
        try:
            if zstandard.frame_content_size(stored) != size:
                raise DamagedBlock(f"cannot decode {self.name} data: its frame does not hold {size} bytes")
            return _sized(self._decompressor().decompress(stored), size, self.name)
        except zstandard.ZstdError as error:
            raise _undecodable(self.name, error) from error

    def decode_many(self, stored: list[memoryview], sizes: list[int], threads: int) -> list[memoryview]:
        """Sizes are given, so that a frame with another size fails before it takes any memory."""
        if 0 in sizes:  # which the library takes for "unknown"
            raise DamagedBlock(f"cannot decode {self.name} data together: some of it is empty")
        contents: list[memoryview] = []
        for start, end in _parts(sizes, _TOGETHER_BYTES * max(1, threads)):
            contents += self._decode_part(stored[start:end], sizes[start:end], threads)
        return contents

    def _decode_part(self, stored: list[memoryview], sizes: list[int], threads: int) -> list[memoryview]:
        try:
            frames = self._decompressor().multi_decompress_to_buffer(
                stored,  # type: ignore[arg-type]
                decompressed_sizes=array("Q", sizes).tobytes(),
                threads=threads,
            )
        except zstandard.ZstdError as error:
            raise _undecodable(self.name, error) from error
        contents = [memoryview(frame) for frame in frames]  # type: ignore[attr-defined]
        if list(map(len, contents)) != sizes:
            raise DamagedBlock(f"cannot decode {self.name} data: frames do not hold what their blocks say")
        return contents

    def decode_each(self, stored: Sequence[Buffer], sizes: Sequence[int]) -> list[bytes]:
        """As `decode` for each, in the calling thread. Raises DamagedBlock if any of them cannot be decoded."""
        try:
            if list(map(zstandard.frame_content_size, stored)) == sizes:
                contents = list(map(self._decompressor().decompress, stored))
                if list(map(len, contents)) == sizes:
                    return contents
        except zstandard.ZstdError as error:
            raise _undecodable(self.name, error) from error
        raise DamagedBlock(f"cannot decode {self.name} data: frames do not hold what their blocks say")

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        decompressor: zstandard.ZstdDecompressor | None = getattr(self._perthread, "decompressor", None)
        if decompressor is None:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionary)
            self._perthread.decompressor = decompressor
        return decompressor


class BrotliCodec:
    """For archives that prefer small to fast."""

    name = "brotli"

    def encode(self, content: Buffer) -> bytes:
        import brotli

        encoded: bytes = brotli.compress(bytes(content), quality=BROTLI_QUALITY)
        return encoded

    def decode(self, stored: Buffer, size: int) -> bytes:
        import brotli

        try:
            content: bytes = brotli.Decompressor().process(bytes(stored), output_buffer_limit=size + 1)
        except brotli.error as error:
            raise _undecodable(self.name, error) from error
        return _sized(content, size, self.name)


class Dictionary(ZstdCodec):
    """A trained zstd dictionary and its codec `zstd-dict`. Immutable; any thread may use it."""

    name = ZSTD_DICT

    def __init__(self, data: bytes) -> None:
        self.data = data
        dictionary = zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_FULLDICT)
        dictionary.precompute_compress(compression_params=_DICTIONARY_PARAMETERS)
        self.id: int = dictionary.dict_id()
        super().__init__(dictionary, _DICTIONARY_PARAMETERS)


def train_dictionary(samples: list[bytes], size_bytes: int) -> Dictionary:
    """Trains a dictionary from sample contents; raises ValueError if they are too few or too similar.

    The segment length `k` and the dmer length `d` are fixed: searching for better ones takes four times as long and
    gains about one percent on web pages.
    """
    try:
        trained = zstandard.train_dictionary(size_bytes, list[Buffer](samples), k=2000, d=6, level=ZSTD_LEVEL)
    except zstandard.ZstdError as error:
        raise ValueError(f"cannot train a dictionary from {len(samples)} samples: {error}") from error
    return Dictionary(trained.as_bytes())


NONE = NoneCodec()
ZSTD = ZstdCodec()
_known: dict[str, Codec] = {codec.name: codec for codec in (NONE, ZlibCodec(), ZSTD, BrotliCodec())}


def register_codec(codec: Codec) -> None:
    """Registers a codec under its name in this process."""
    assert len(codec.name) <= CODEC_NAME_MAX, f"codec name {codec.name!r} does not fit a block's header"
    _known[codec.name] = codec


def codec_names() -> list[str]:
    """Every name that a store accepts: `auto`, the codecs, and `zstd-dict`."""
    return sorted({AUTO, ZSTD_DICT, *_known, *(point.name for point in plugins(ENTRY_POINT_GROUP))})


def find_codec(name: str) -> Codec:
    """The codec of that name. Not for `zstd-dict`, which needs a volume's dictionary."""
    if name not in _known:
        for point in plugins(ENTRY_POINT_GROUP, name=name):
            register_codec(point.load())
    try:
        return _known[name]
    except KeyError:
        raise UnknownName(f"unknown codec {name!r}: known are {', '.join(codec_names())}") from None


_PACKED_TYPES = ("image/", "video/", "audio/", "font/woff", "application/zip", "application/gzip", "application/x-7z")
_PLAIN_MEDIA = ("image/svg", "image/bmp", "image/x-ms-bmp", "image/x-icon", "audio/wav", "audio/x-wav", "audio/midi")
_PACKED_MAGIC = (  # gzip, zip, JPEG, PNG, GIF, zstd, bzip2, xz, 7z, WOFF, Ogg, MP3
    *(b"\x1f\x8b", b"PK\x03\x04", b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"(\xb5/\xfd", b"BZh", b"\xfd7zXZ"),
    *(b"7z\xbc\xaf", b"wOF2", b"wOFF", b"OggS", b"ID3"),
)


def compressible(content: Buffer, content_type: str | None) -> bool:
    """True if compression is likely to pay, by the first bytes (which show content encodings), then by the type."""
    if bytes(content[:8]).startswith(_PACKED_MAGIC):
        return False
    if content_type is None:
        return True
    kind = content_type.strip().lower()
    return kind.startswith(_PLAIN_MEDIA) or not kind.startswith(_PACKED_TYPES)


def _sized(content: bytes, size: int, name: str) -> bytes:
    if len(content) != size:
        raise DamagedBlock(f"cannot decode {name} data: expected {size} bytes, found {len(content)}")
    return content


def _undecodable(name: str, error: Exception) -> DamagedBlock:
    return DamagedBlock(f"cannot decode {name} data: {error}")
