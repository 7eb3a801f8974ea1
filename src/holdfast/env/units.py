"""Sizes and durations as people write them: '1.5 GiB', '500k', '30s', '1h 30m', '7d'.

What is written here is read back as the same number.
"""

from __future__ import annotations

import re
from decimal import Decimal

from holdfast.errors import UsageError

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)"
_DURATION = re.compile(rf"(?:{_PART}\s*)+", re.IGNORECASE | re.ASCII)
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def read_size(text: str) -> int:
    """Bytes; units are powers of 1024. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size: write a number of bytes, '500k' or '1.5 GiB'")
    return int(float(match["number"]) * 1024 ** _POWERS[match["unit"].upper()])


def read_duration(text: str) -> float:
    """Seconds; a number without a unit is one of seconds. Raises UsageError."""
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return float(text)
    if _DURATION.fullmatch(text) is None:
        raise UsageError(f"{text!r} is not a duration: write '30s', '15m', '2h', '7d' or '1h 30m'")
    parts = re.findall(_PART, text, re.IGNORECASE | re.ASCII)
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def write_size(count: int) -> str:
    """The shortest text that means exactly this."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power} {unit}"
    return str(count)


def write_duration(seconds: float) -> str:
    """The shortest text that means exactly this."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{Decimal(repr(seconds)):f}s"
