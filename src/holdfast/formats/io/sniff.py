"""The format of a file, by its first bytes: names say little and streams have none.

'warc' 'arc' 'tianwang'   followed by '.gz' or '.zst' if compressed;  '' if it looks like none of them

Files in a compression that Holdfast does not read are recognized too, so that they can be named and are not searched.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from holdfast.formats.arc import find_arc, looks_like_arc
from holdfast.formats.io import gzip, zstd
from holdfast.formats.io.gzip import GzipSource
from holdfast.formats.io.source import ByteSource
from holdfast.formats.io.zstd import ZstdSource

GZIP, ZSTD = ".gz", ".zst"
SNIFF_BYTES = 64 * 1024
_STARTS = ((b"WARC/", "warc"), (b"warc/", "warc"), (b"filedesc:", "arc"), (b"version:", "tianwang"))
_MARKS = ((b"WARC/1.", "warc"), (b"filedesc://", "arc"), (b"version: ", "tianwang"))
_FOREIGN = (  # magic number, what the file is, how to decompress it
    (b"\x04\x22\x4d\x18", "LZ4", "lz4 -d"),
    (b"\x02\x21\x4c\x18", "LZ4 (legacy format)", "lz4 -d"),
    (b"BZh", "bzip2", "bunzip2"),
    (b"\xfd7zXZ\0", "xz", "unxz"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
)
_MAGICS = (gzip.MAGIC, zstd.MAGIC, *zstd.SKIPPABLE)


def sniff(first_bytes: bytes) -> str:
    """The format of a file that begins with these bytes, damaged at the start or not."""
    coding = sniff_coding(first_bytes)
    if not coding:
        return sniff_format(first_bytes)
    source = make_source(coding, io.BytesIO(first_bytes))
    found = ""
    while not found:
        source.fill(SNIFF_BYTES)
        found = sniff_format(source.data)
        if found or not source.broken or not source.recover(lambda begin: bool(_starting(begin))):
            break
    return found + coding if found else ""


def foreign_compression(first_bytes: bytes) -> str:
    """The message for a file in a compression that is not read; '' if it is in none."""
    for magic, name, command in _FOREIGN:
        if first_bytes.startswith(magic):
            return (
                f"this file is compressed with {name}, which Holdfast does not read: decompress it first ('{command}')"
            )
    return ""


def begins_well(first_bytes: bytes) -> bool:
    """True if the file begins with the start or the magic number of a known format."""
    return first_bytes.startswith(_MAGICS) or bool(_starting(first_bytes))


def sniff_coding(first_bytes: bytes) -> str:
    """How the file is compressed: '.gz', '.zst', or '' if it is not."""
    if first_bytes.startswith(gzip.MAGIC):
        return GZIP
    if first_bytes.startswith((zstd.MAGIC, *zstd.SKIPPABLE)):
        return ZSTD
    if _starting(first_bytes):
        return ""
    # Damaged at the start. Small members contain parts of their text verbatim, so formats that decode come before plain
    # ones.
    for coding, magic in ((GZIP, gzip.MAGIC), (ZSTD, zstd.MAGIC)):
        if magic in first_bytes:
            source = make_source(coding, io.BytesIO(first_bytes))
            source.fill(1)
            if sniff_format(source.data) or source.recover(lambda begin: bool(_starting(begin))):
                return coding
    return ""


def sniff_format(decoded: bytes) -> str:
    """The format of decoded bytes: by their start, else by what appears first among them."""
    if name := _starting(decoded):
        return name
    places = [(place, name) for mark, name in _MARKS if (place := decoded.find(mark)) >= 0]
    if (place := find_arc(decoded, 0)) >= 0:
        places.append((place, "arc"))
    return min(places, default=(0, ""))[1]


def _starting(decoded: bytes) -> str:
    """The format of which a record begins here."""
    for start, name in _STARTS:
        if decoded.startswith(start):
            return name
    return "arc" if looks_like_arc(decoded[:SNIFF_BYTES]) else ""


def make_source(coding: str, stream: BinaryIO, first: bytes = b"") -> ByteSource:
    """The decoded bytes of a stream of which `first` was read already."""
    if coding == GZIP:
        return GzipSource(stream, first)
    return ZstdSource(stream, first) if coding == ZSTD else ByteSource(stream, first)
