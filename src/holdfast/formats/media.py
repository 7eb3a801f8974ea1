"""Media: dimensions of pictures, and the length of sound and film, which tinytag reads (the extra `study`)."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from io import BytesIO
from math import isfinite

INSTALL = "durations need tinytag: run pip install 'holdfast[study]'"
_NETPBM = b"P"  # no browser shows it, and imagesize takes quadratic time for its digits
_NO_SIZE = (0, 0)
_BROKEN = (ArithmeticError, LookupError, TypeError, ValueError, struct.error, EOFError, RecursionError)


def dimensions(data: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the first bytes; (0, 0) if truncated, broken or not a picture.

    PNG, GIF, JPEG, WebP, BMP, AVIF, HEIF, TIFF and JPEG 2000. Never raises; time is linear.
    """
    if data.startswith(_NETPBM):
        return _NO_SIZE
    import imagesize

    width, height = imagesize.get(BytesIO(data), exif_rotation=False)
    return (int(width), int(height)) if width > 0 and height > 0 else _NO_SIZE


def can_read_lengths() -> bool:
    return find_spec("tinytag") is not None


def length_s(data: bytes) -> float | None:
    """In seconds; None if broken or in another format. Never raises.

    MP3, MP4 (M4A, M4V), Ogg (Vorbis, Opus, Theora), WAV, FLAC, AIFF, WMA and WMV.
    """
    from tinytag import TinyTag, TinyTagException

    try:
        found = TinyTag.get(file_obj=BytesIO(data), tags=False).duration
    except (TinyTagException, *_BROKEN):
        return None
    return float(found) if found is not None and isfinite(found) and found > 0 else None
