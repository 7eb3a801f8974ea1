"""Width and height of a picture, from its first bytes: PNG, GIF, JPEG, WebP, BMP. Anything else: (0, 0)."""

from __future__ import annotations

import struct

PICTURE_BYTES = 1 << 20  # the frame of a JPEG may stand behind its thumbnails
_NO_SIZE = (0, 0)
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_SEGMENTS_MAX = 1000


def dimensions(data: bytes) -> tuple[int, int]:
    """Never raises: what is cut off or broken has no size."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _pair(struct.unpack_from(">II", data, 16))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _pair(struct.unpack_from("<HH", data, 6))
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp(data)
        if data.startswith(b"BM"):
            width, height = struct.unpack_from("<ii", data, 18)
            return abs(width), abs(height)
    except (struct.error, IndexError):
        pass
    return _NO_SIZE


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]


def _jpeg(data: bytes) -> tuple[int, int]:
    """Segments follow each other: mark, length, content; the frame has the size."""
    place = 2
    for _ in range(_SEGMENTS_MAX):
        while data[place] == 0xFF and data[place + 1] == 0xFF:
            place += 1
        mark, length = data[place + 1], struct.unpack_from(">H", data, place + 2)[0]
        if mark in _FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + length
    return _NO_SIZE


def _webp(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return _NO_SIZE
