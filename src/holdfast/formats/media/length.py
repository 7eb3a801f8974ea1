"""Length of sound and film in seconds, read from a file by tinytag (the extra `study`)."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from io import BytesIO
from math import isfinite

INSTALL = "durations need tinytag: run pip install 'holdfast[study]'"
_BROKEN = (ArithmeticError, LookupError, TypeError, ValueError, struct.error, EOFError, RecursionError)


def can_read_lengths() -> bool:
    return find_spec("tinytag") is not None


def length_s(data: bytes) -> float | None:
    """In seconds; None if it is broken or of another format. Never raises.

    MP3, MP4 (M4A, M4V), Ogg (Vorbis, Opus, Theora), WAV, FLAC, AIFF, WMA and WMV.
    """
    from tinytag import TinyTag, TinyTagException

    try:
        found = TinyTag.get(file_obj=BytesIO(data), tags=False).duration
    except (TinyTagException, *_BROKEN):
        return None
    return float(found) if found is not None and isfinite(found) and found > 0 else None
