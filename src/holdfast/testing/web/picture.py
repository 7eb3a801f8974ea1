"""Pictures made by code: PNG files, the same each time."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

Colour = tuple[int, int, int]


def png(width: int, height: int, colour: Callable[[int, int], Colour]) -> bytes:
    """An RGB picture; `colour` gives the pixel at column and row."""
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in colour(x, y)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def stripes(number: int) -> bytes:
    """A small picture for each number."""
    return png(8, 8, lambda x, y: ((number * 37 + x * 9) % 256, (number * 11 + y * 17) % 256, number * 101 % 256))
